package foresight

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/starlinghq/starling/pkg/client"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/spaces"
	"github.com/starlinghq/starling/pkg/works"
)

// Config is what a Reader reads from.
type Config struct {
	WDS *rest.Config
	// ITSes may be empty: then NoITS says why, and nothing is known of clusters and mailboxes.
	ITSes []spaces.Connection
	NoITS string
	// Served is what the WDS serves.
	Served match.API
	Clock  clock.PassiveClock
}

// Reader reads facts, with the rights of its connections. Each method reads from the API servers,
// concurrently where it can. A Reader is safe for concurrent use.
type Reader struct {
	config   Config
	wds      *client.Client
	objects  dynamic.Interface
	metadata metadata.Interface
	itses    []*ITS
	texts    *works.Manifests

	mu   sync.Mutex
	lost error
}

// rememberedTexts is how many manifests are parsed once only: they are the same in many mailboxes.
const rememberedTexts = 10000

// NewReader returns a Reader. It does not read anything yet.
func NewReader(config Config) (*Reader, error) {
	wds := quick(config.WDS)
	r := &Reader{config: config, texts: works.NewManifests(rememberedTexts)}
	var err error
	if r.wds, err = client.New(wds); err != nil {
		return nil, err
	}
	if r.objects, err = dynamic.NewForConfig(wds); err != nil {
		return nil, fmt.Errorf("build client for objects: %w", err)
	}
	if r.metadata, err = metadata.NewForConfig(wds); err != nil {
		return nil, fmt.Errorf("build client for metadata: %w", err)
	}
	for _, of := range config.ITSes {
		of.Config = rest.CopyConfig(of.Config)
		of.Config.Timeout = itsTimeout
		one, err := NewITS(of)
		if err != nil {
			return nil, fmt.Errorf("ITS %q: %w", of.Name, err)
		}
		r.itses = append(r.itses, one)
	}
	return r, nil
}

// unread says why something could not be read: "you may not list leases in ITS its1".
func unread(verb, resource, where string, err error) string {
	if where != "" {
		where = " in ITS " + where
	}
	if apierrors.IsForbidden(err) {
		return "you may not " + verb + " " + resource + where
	}
	return fmt.Sprintf("cannot %s %s%s: %s", verb, resource, where, err)
}

// unreadInWDS is unread for the WDS. It notes if the WDS does not answer at all.
func (r *Reader) unreadInWDS(verb, resource string, err error) string {
	if _, lost := errors.AsType[*url.Error](err); lost {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.lost = err
	}
	return unread(verb, resource, "", err)
}

// Err returns why the WDS did not answer since Err was called last, nil if it did. Then nothing
// that was read meanwhile is worth an explanation.
func (r *Reader) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	lost := r.lost
	r.lost = nil
	return lost
}

// together runs functions concurrently, and waits for all of them.
func together(functions ...func()) {
	var running sync.WaitGroup
	for _, f := range functions {
		running.Go(f)
	}
	running.Wait()
}

// Policies returns the names of all BindingPolicies. It is for the completion of a shell.
func (r *Reader) Policies(ctx context.Context) []string {
	var names []string
	list, err := r.wds.BindingPolicies().List(ctx, metav1.ListOptions{})
	if err == nil {
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}
	}
	return names
}

// ClusterNames returns the names of all clusters of all ITSes. It is for the completion of a shell.
func (r *Reader) ClusterNames(ctx context.Context) []string {
	var names []string
	for _, of := range r.itses {
		found, _ := of.readClusters(ctx, "") // what is known of them is enough
		names = slices.AppendSeq(names, maps.Keys(found))
	}
	return names
}

// now returns the time of the facts.
func (r *Reader) now() time.Time { return r.config.Clock.Now() }
