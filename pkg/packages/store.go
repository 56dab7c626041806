package packages

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/client"
	"github.com/starlinghq/starling/pkg/core/kptpkg"
	"github.com/starlinghq/starling/pkg/core/kptpkg/render"
)

// Content keeps files by their digest.
type Content interface {
	Put(ctx context.Context, files kptpkg.Files) (digest string, err error)
	Get(ctx context.Context, digest string) (kptpkg.Files, error)
	Keep(ctx context.Context, digest string) error
}

// Config is what a Store works with.
type Config struct {
	// Space leads to the WDS.
	Space *rest.Config
	// Content keeps the files.
	Content Content
	// Render renders a package, as render.Render does.
	Render func(ctx context.Context, files kptpkg.Files) (render.Result, error)
	// EnforceGates refuses to propose and to approve what is not ready.
	EnforceGates bool
	// Room is how many bytes of packages are merged and rendered at once, and Patience how long one waits for its turn. Zero means the
	// default: 16 MiB, and 15 s.
	Room     int64
	Patience time.Duration
	// Clock tells when a revision is published.
	Clock clock.PassiveClock
	// Reached is told each point between two writes; nil for nobody. Tests end the process there.
	Reached func(point string)
}

// Store carries out operations. It is safe for concurrent use. Each call blocks until the API server has answered.
type Store struct {
	Config
	rest     rest.Interface
	configs  rest.Interface
	codec    runtime.ParameterCodec
	metadata metadata.Interface
	marks    marks
	seen     seen
	lists    lists
	places   *places
	room     *room
	// listing bounds how many whole lists are made at once.
	listing chan struct{}
}

// New returns a Store.
func New(c Config) (*Store, error) {
	if c.Content == nil || c.Render == nil || c.Clock == nil || c.Space == nil {
		return nil, errors.New("space, content, rendering and clock are needed")
	}
	if c.Reached == nil {
		c.Reached = func(string) {}
	}
	if c.Room <= 0 {
		c.Room = 16 << 20
	}
	if c.Patience <= 0 {
		c.Patience = 15 * time.Second
	}
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
	s := &Store{Config: c, room: newRoom(c.Room, c.Patience), places: newPlaces(), codec: runtime.NewParameterCodec(scheme), listing: make(chan struct{}, 2)}
	var err error
	if s.rest, err = client.NewREST(c.Space, scheme, storev1alpha1.GroupVersion); err != nil {
		return nil, err
	}
	if s.configs, err = client.NewREST(c.Space, scheme, configv1alpha1.GroupVersion); err != nil {
		return nil, err
	}
	if s.metadata, err = metadata.NewForConfig(c.Space); err != nil {
		return nil, fmt.Errorf("build metadata client: %w", err)
	}
	return s, nil
}

// Revisions reads and watches what is kept in a namespace, or with "" in all. Callers only read.
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

// Get returns what is kept of a revision.
func (s *Store) Get(ctx context.Context, namespace, name string) (*storev1alpha1.PackageRevision, error) {
	cr, err := s.Revisions(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, Explain(err, name)
	}
	return cr, nil
}

// Files returns the files of a revision. They are shared: do not change them.
func (s *Store) Files(ctx context.Context, cr *storev1alpha1.PackageRevision) (kptpkg.Files, error) {
	return s.FilesOf(ctx, cr.Name, cr.Content.Digest)
}

// FilesOf is Files for the revision of that name, whose files have that digest.
func (s *Store) FilesOf(ctx context.Context, name, digest string) (kptpkg.Files, error) {
	files, err := s.Content.Get(ctx, digest)
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("read the files of %s: %w", name, err))
	}
	return files, nil
}

// list returns the revisions that have all these fields, of one namespace, as they are now.
func (s *Store) list(ctx context.Context, namespace, fields string) ([]storev1alpha1.PackageRevision, error) {
	found, err := s.Revisions(namespace).List(ctx, metav1.ListOptions{FieldSelector: fields})
	if err != nil {
		return nil, Explain(err, "")
	}
	return found.Items, nil
}

// ofPackage selects the revisions of a package.
func ofPackage(repository, packageName string) string {
	return "spec.repository=" + repository + ",spec.packageName=" + packageName
}

var (
	revisionKind     = porchv1alpha1.GroupVersion.WithKind("PackageRevision").GroupKind()
	revisionResource = porchv1alpha1.ResourcePackageRevisions.GroupResource()
)

// Explain makes of an error about what is kept one about what is served: users know nothing of the former.
func Explain(err error, name string) error {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return err
	}
	s := status.Status()
	aboutUs := s.Details != nil && s.Details.Group == storev1alpha1.GroupName
	switch {
	case !aboutUs:
		return err
	case apierrors.IsNotFound(err) && s.Details.Name != "":
		return apierrors.NewNotFound(revisionResource, s.Details.Name)
	case apierrors.IsAlreadyExists(err):
		return apierrors.NewAlreadyExists(revisionResource, name)
	case apierrors.IsConflict(err):
		return conflict(name)
	case apierrors.IsInvalid(err):
		s.Details.Group = porchv1alpha1.GroupName
		s.Message = fmt.Sprintf("%s %q is invalid: %s", revisionKind, name, causes(s.Details.Causes))
		return &apierrors.StatusError{ErrStatus: s}
	case apierrors.IsForbidden(err) && !apierrors.HasStatusCause(err, "NamespaceTerminating"):
		return apierrors.NewInternalError(fmt.Errorf("package-server lacks a right: %w", err))
	}
	return err
}

func causes(list []metav1.StatusCause) string {
	texts := make([]string, len(list))
	for i, cause := range list {
		texts[i] = cause.Field + ": " + cause.Message
	}
	return joined(texts)
}

func conflict(name string) error {
	return apierrors.NewConflict(revisionResource, name,
		errors.New("the object has been modified; please apply your changes to the latest version and try again"))
}

// invalid makes an error of texts that name their fields.
func invalid(name string, texts ...string) error {
	err := apierrors.NewInvalid(revisionKind, name, nil)
	err.ErrStatus.Message = fmt.Sprintf("%s %q is invalid: %s", revisionKind, name, joined(texts))
	for _, text := range texts {
		fieldName, rest := cutField(text)
		err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes,
			metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid, Field: fieldName, Message: rest})
	}
	return err
}

func forbidden(name, text string) error {
	return apierrors.NewForbidden(revisionResource, name, errors.New(text))
}
