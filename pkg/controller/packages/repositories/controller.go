package repositories

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/controller/worker"
	"github.com/starlinghq/starling/pkg/packages/content"
	"github.com/starlinghq/starling/pkg/packages/informers"
	"github.com/starlinghq/starling/pkg/packages/remote"
	"github.com/starlinghq/starling/pkg/packages/store"
	"github.com/starlinghq/starling/pkg/writer"
)

// Name of the controller.
const Name = "packages"

// Config is what a Controller works with.
type Config struct {
	// WDS is the WDS, WDSName its name in metrics.
	WDS     *rest.Config
	WDSName string
	// Watch is shared by all controllers of packages. Its owner runs it.
	Watch *informers.Informers
	// FileRoots are directories that file URLs must be below.
	FileRoots []string
	// Hosts are the hosts of git servers and registries that Repositories may name.
	Hosts remote.Hosts
	// TempDir holds git's objects while they are read; empty is the system's.
	TempDir string
	// MinInterval is the least time between two passes of a Repository; 0 is DefaultMinInterval.
	MinInterval time.Duration
}

// Controller reconciles Repositories.
type Controller struct {
	Config
	queue   *worker.Queue[types.NamespacedName]
	secrets *informers.Informer[metav1.PartialObjectMetadata]
	client  kubernetes.Interface
	content *content.Store
	numbers *store.Reserver
	writer  *writer.Writer
	clock   clock.PassiveClock

	mutex  sync.Mutex
	states map[types.NamespacedName]*state
}

const bySecret = "secret"

func secretName(spec *configv1alpha1.RepositorySpec) string {
	switch {
	case spec.Git != nil:
		return spec.Git.SecretRef.Name
	case spec.Oci != nil:
		return spec.Oci.SecretRef.Name
	}
	return ""
}

// Required are the resources that the WDS must serve beside those of package informers.
var Required = []schema.GroupVersionResource{storev1alpha1.PackageNumbers, storev1alpha1.ContentChunks}

// New returns a Controller that sends no requests until Run. Watch must not run yet. At most one
// replica may run: it needs a lease.
func New(config Config) (*Controller, error) {
	if config.MinInterval == 0 {
		config.MinInterval = DefaultMinInterval
	}
	c := &Controller{Config: config, clock: clock.RealClock{}, states: map[types.NamespacedName]*state{}}
	var err error
	if c.secrets, err = newSecretInformer(config.WDS); err != nil {
		return nil, err
	}
	if c.client, err = kubernetes.NewForConfig(config.WDS); err != nil {
		return nil, fmt.Errorf("build client for Secrets: %w", err)
	}
	if c.writer, err = writer.New(config.WDS, config.WDSName, "starling-"+Name); err != nil {
		return nil, err
	}
	if c.content, err = content.New(config.WDS, c.clock); err != nil {
		return nil, err
	}
	if c.numbers, err = store.NewReserver(config.WDS); err != nil {
		return nil, err
	}
	c.queue = worker.New(worker.Config{Name: Name, MinBackOff: 200 * time.Millisecond}, c.sync)
	err = config.Watch.Repositories.AddIndexers(cache.Indexers{bySecret: informers.Index(func(repo *configv1alpha1.Repository) []string {
		if name := secretName(&repo.Spec); name != "" {
			return []string{repo.Namespace + "/" + name}
		}
		return nil
	})})
	if err != nil {
		return nil, err
	}
	return c, errors.Join(
		config.Watch.Repositories.Handle(c.queue.WaitFor, func(before, after *configv1alpha1.Repository) {
			c.queue.Add(informers.KeyOf(cmp.Or(after, before)))
		}),
		config.Watch.Revisions.Handle(c.queue.WaitFor, c.onRevision),
		c.secrets.Handle(c.queue.WaitFor, c.onSecret),
	)
}

// gather is how long changes of revisions are collected before their Repository is synced: many
// change at a time.
const gather = 200 * time.Millisecond

func (c *Controller) onRevision(before, after *storev1alpha1.PackageRevision) {
	cr := cmp.Or(after, before)
	c.queue.AddAfter(types.NamespacedName{Namespace: cr.Namespace, Name: cr.Spec.RepositoryName}, gather)
}

func (c *Controller) onSecret(before, after *metav1.PartialObjectMetadata) {
	for _, repo := range c.Watch.Repositories.By(bySecret, informers.KeyOf(cmp.Or(after, before)).String()) {
		key := informers.KeyOf(repo)
		c.mutex.Lock()
		if s := c.states[key]; s != nil { // without one, the next sync makes a pass anyway
			s.secretChanged.Store(true)
		}
		c.mutex.Unlock()
		c.queue.Add(key)
	}
}

// Run works until the context ends, and waits for its workers.
func (c *Controller) Run(ctx context.Context, workers int) error {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { c.secrets.RunWithContext(ctx) })
	c.queue.Run(ctx, workers)
	return nil
}

// Ready returns an error that names what is not synced, nil if all is.
func (c *Controller) Ready() error { return c.queue.Ready() }

// state is what is remembered about a Repository between syncs. Only the worker that has its key
// uses it, but for secretChanged.
type state struct {
	uid           types.UID
	secretChanged atomic.Bool
	generation    int64
	next          time.Time
	failures      int
	synced        bool
	result        result
	// refused is the head of a rewritten branch, and the imported commit that it does not contain.
	refused [2]string
}

// stateOf returns what is remembered of a Repository. Its status is read once: afterwards the
// informer may not show our own write yet.
func (c *Controller) stateOf(key types.NamespacedName, repo *configv1alpha1.Repository) *state {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	s := c.states[key]
	if s == nil || s.uid != repo.UID {
		s = &state{uid: repo.UID, result: result{commit: repo.Status.GitCommitHash, findings: map[string]finding{}}}
		c.states[key] = s
	}
	return s
}

func (c *Controller) forget(key types.NamespacedName) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	delete(c.states, key)
}
