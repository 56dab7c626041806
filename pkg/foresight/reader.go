package foresight

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	addonclient "open-cluster-management.io/api/client/addon/clientset/versioned/typed/addon/v1alpha1"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned/typed/cluster/v1"
	workclient "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"

	"github.com/starlinghq/starling/pkg/client"
	"github.com/starlinghq/starling/pkg/core/foresight"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/works"
)

// Config is what a Reader reads from.
type Config struct {
	WDS *rest.Config
	// ITSes may be empty: then NoITS says why, and nothing is known of clusters and mailboxes.
	ITSes []Space
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
	itses    []*its
	texts    *works.Manifests

	mu   sync.Mutex
	lost error
}

// its has the clients of an ITS.
type its struct {
	name     string
	clusters clusterclient.ClusterV1Interface
	addOns   addonclient.AddonV1alpha1Interface
	works    workclient.WorkV1Interface
	core     kubernetes.Interface
	starling *client.Client
}

const (
	// rememberedTexts is how many manifests are parsed once only: they are the same in many
	// mailboxes.
	rememberedTexts = 10000
	// itsTimeout bounds a request to an ITS: one that does not answer is unknown.
	itsTimeout = 10 * time.Second
	// pageSize is how many objects are read in one request.
	pageSize = 500
)

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
		one, err := newITS(of)
		if err != nil {
			return nil, fmt.Errorf("ITS %q: %w", of.Name, err)
		}
		r.itses = append(r.itses, one)
	}
	return r, nil
}

func newITS(of Space) (*its, error) {
	config := quick(of.Config)
	config.Timeout = itsTimeout
	i := &its{name: of.Name}
	var err error
	if i.clusters, err = clusterclient.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("build client for ManagedClusters: %w", err)
	}
	if i.addOns, err = addonclient.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("build client for ManagedClusterAddOns: %w", err)
	}
	if i.works, err = workclient.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("build client for ManifestWorks: %w", err)
	}
	if i.core, err = kubernetes.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("build client for Leases: %w", err)
	}
	i.starling, err = client.New(config)
	return i, err
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

// Err returns why the WDS did not answer, nil if it did. Then nothing that was read is worth an
// explanation.
func (r *Reader) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lost
}

// together runs functions concurrently, and waits for all of them.
func together(functions ...func()) {
	var running sync.WaitGroup
	for _, f := range functions {
		running.Go(f)
	}
	running.Wait()
}

// pages calls do with the options for each page of a list, until there is no further one.
func pages(options metav1.ListOptions, do func(metav1.ListOptions) (next string, err error)) error {
	options.Limit = pageSize
	for {
		next, err := do(options)
		if err != nil || next == "" {
			return err
		}
		options.Continue = next
	}
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

// Clusters returns all clusters of all ITSes, by name, with their Leases and add-ons.
func (r *Reader) Clusters(ctx context.Context) foresight.Fact[map[string]*foresight.Cluster] {
	return r.clusters(ctx, "")
}

// now returns the time of the facts.
func (r *Reader) now() time.Time { return r.config.Clock.Now() }
