package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/client"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/render"
	"github.com/starlinghq/starling/pkg/packages/boundedcache"
)

// Content stores files by their digest.
type Content interface {
	Put(ctx context.Context, files kpt.Files) (digest string, err error)
	Get(ctx context.Context, digest string) (kpt.Files, error)
	Retain(ctx context.Context, digest string) error
}

// Config has the dependencies and limits of a Store.
type Config struct {
	// Space is the WDS.
	Space *rest.Config
	// Content stores the files.
	Content Content
	// Render renders a package, as render.Render does.
	Render func(ctx context.Context, files kpt.Files) (render.Result, error)
	// EnforceGates refuses to propose or approve revisions whose gates are not met.
	EnforceGates bool
	// TransactionGates adds the gate of Transactions to revisions that need it, with the write that
	// makes it needed: nobody can propose the revision before it has the gate.
	TransactionGates bool
	// MaxRenderBytes bounds the size of packages that are merged and rendered at the same time.
	// RenderQueueTimeout bounds how long a request waits for that. The defaults are 16 MiB and 15s.
	MaxRenderBytes     int64
	RenderQueueTimeout time.Duration
	// Clock gives the time of publication.
	Clock clock.PassiveClock
}

// Store implements the operations on revisions. It is safe for concurrent use. Each call blocks
// until the API server has answered.
type Store struct {
	Config
	rest          rest.Interface
	configs       rest.Interface
	codec         runtime.ParameterCodec
	metadata      metadata.Interface
	schemas       *client.Schemas
	kinds         *client.Kinds
	mergeComments mergeCommentCache
	cached        *revisionCache
	lists         listCache
	layout        *layoutIndex
	renders       *renderLimiter
	// listSlots bounds how many complete lists are built at the same time.
	listSlots chan struct{}
}

// New returns a Store.
func New(c Config) (*Store, error) {
	if c.Content == nil || c.Render == nil || c.Clock == nil || c.Space == nil {
		return nil, errors.New("store.Config: Space, Content, Render and Clock are required")
	}
	c.MaxRenderBytes = cmp.Or(c.MaxRenderBytes, 16<<20)
	c.RenderQueueTimeout = cmp.Or(c.RenderQueueTimeout, 15*time.Second)
	return connect(c)
}

// connect builds the clients.
func connect(c Config) (*Store, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{storev1alpha1.AddToScheme, configv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	s := &Store{
		Config: c, codec: runtime.NewParameterCodec(scheme), layout: newLayoutIndex(), cached: newRevisionCache(),
		mergeComments: mergeCommentCache{boundedcache.New[string, kpt.Files](mergeCommentCacheSize)},
		renders:       newRenderLimiter(c.MaxRenderBytes, c.RenderQueueTimeout), listSlots: make(chan struct{}, 2),
	}
	var err error
	if s.rest, err = client.NewREST(c.Space, scheme, storev1alpha1.GroupVersion); err != nil {
		return nil, err
	}
	if s.configs, err = client.NewREST(c.Space, scheme, configv1alpha1.GroupVersion); err != nil {
		return nil, err
	}
	if s.schemas, err = client.NewSchemas(c.Space); err != nil {
		return nil, err
	}
	found, err := discovery.NewDiscoveryClientForConfig(c.Space)
	if err != nil {
		return nil, fmt.Errorf("build discovery client: %w", err)
	}
	s.kinds = client.NewKinds(found, c.Clock)
	if s.metadata, err = metadata.NewForConfig(c.Space); err != nil {
		return nil, fmt.Errorf("build metadata client: %w", err)
	}
	return s, nil
}

// Revisions returns a client for the stored revisions of a namespace, or with "" of all. Callers
// only read with it.
func (s *Store) Revisions(namespace string) *gentype.ClientWithList[*storev1alpha1.PackageRevision, *storev1alpha1.PackageRevisionList] {
	return gentype.NewClientWithList(storev1alpha1.PackageRevisions.Resource, s.rest, s.codec, namespace,
		func() *storev1alpha1.PackageRevision { return &storev1alpha1.PackageRevision{} },
		func() *storev1alpha1.PackageRevisionList { return &storev1alpha1.PackageRevisionList{} })
}

func (s *Store) numbers(namespace string) *gentype.ClientWithList[*storev1alpha1.PackageNumber, *storev1alpha1.PackageNumberList] {
	return gentype.NewClientWithList(storev1alpha1.PackageNumbers.Resource, s.rest, s.codec, namespace,
		func() *storev1alpha1.PackageNumber { return &storev1alpha1.PackageNumber{} },
		func() *storev1alpha1.PackageNumberList { return &storev1alpha1.PackageNumberList{} })
}

func (s *Store) repositories(namespace string) *gentype.ClientWithList[*configv1alpha1.Repository, *configv1alpha1.RepositoryList] {
	return gentype.NewClientWithList("repositories", s.configs, s.codec, namespace,
		func() *configv1alpha1.Repository { return &configv1alpha1.Repository{} },
		func() *configv1alpha1.RepositoryList { return &configv1alpha1.RepositoryList{} })
}

// Get returns a stored revision.
func (s *Store) Get(ctx context.Context, namespace, name string) (*storev1alpha1.PackageRevision, error) {
	cr, err := s.Revisions(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, TranslateError(err, name)
	}
	return cr, nil
}

// Files returns the files with a digest, of the revision name. They are shared: do not change them.
func (s *Store) Files(ctx context.Context, name, digest string) (kpt.Files, error) {
	files, err := s.Content.Get(ctx, digest)
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("read the files of revision %q: %w", name, err))
	}
	return files, nil
}

// list returns the current revisions of one namespace that a field selector selects.
func (s *Store) list(ctx context.Context, namespace, fields string) ([]storev1alpha1.PackageRevision, error) {
	found, err := s.Revisions(namespace).List(ctx, metav1.ListOptions{FieldSelector: fields})
	if err != nil {
		return nil, TranslateError(err, "")
	}
	return found.Items, nil
}

// packageSelector returns the field selector for the revisions of a package.
func packageSelector(repository, packageName string) string {
	return "spec.repository=" + repository + ",spec.packageName=" + packageName
}
