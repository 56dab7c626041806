package placement

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/client"
	"github.com/starlinghq/starling/pkg/core/customtransform"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/workload"
	"github.com/starlinghq/starling/pkg/core/render"
)

// packages caches the parcels of the packages that Bindings list. A package is read once for each
// digest, however many Bindings list it. It is safe for concurrent use.
type packages struct {
	source Packages // nil: none are delivered

	mu sync.Mutex
	// lists is what each Binding lists.
	lists map[string][]controlv1alpha1.PackageClause
	// revisions and contents are those in use; the latter by digest.
	revisions map[controlv1alpha1.PackageClause]*revision
	contents  map[string]*packageContent
}

// revision is a revision that Bindings list.
type revision struct {
	bindings int
	// verified: it was published when it was read, with the digest that the clause names: neither
	// changes any more.
	verified bool
}

// packageContent is the content of revisions that Bindings list.
type packageContent struct {
	revisions int
	// reading is held while the content is read: several Bindings that list it read it once.
	reading sync.Mutex
	parcel  *parcel
}

// parcel is the content of a package: its objects as they are delivered. It is immutable.
type parcel struct {
	objects []packageObject
	// unsure are objects whose content is not known; incomplete says that there may be more
	// objects.
	unsure     []objref.Ref
	incomplete bool
	problems   []string
	refused    int // objects that are never delivered
	// removed are the digests of the instructions of CustomTransforms that the objects were made
	// with.
	removed map[schema.GroupResource]string
	// guessed are the kinds of objects whose resource was guessed, because the WDS did not serve
	// them.
	guessed []schema.GroupVersionKind
}

// packageObject is an object of a package.
type packageObject struct {
	ref     objref.Ref
	finding finding
}

func newPackages(source Packages) *packages {
	return &packages{
		source: source, lists: map[string][]controlv1alpha1.PackageClause{},
		revisions: map[controlv1alpha1.PackageClause]*revision{}, contents: map[string]*packageContent{},
	}
}

var errNoPackages = errors.New("this transport-controller does not deliver packages")

// find returns the parcel of a package. It blocks for a read if the parcel is not known. An error
// says why it cannot be known now.
func (p *packages) find(ctx context.Context, clause *controlv1alpha1.PackageClause, instructions instructionsFunc) (*parcel, error) {
	if p.source == nil {
		return nil, errNoPackages
	}
	if err := p.verify(ctx, clause); err != nil {
		return nil, err
	}
	p.mu.Lock()
	content := p.contents[clause.Digest]
	p.mu.Unlock()
	if content == nil {
		content = &packageContent{} // no Binding lists it any more
	}
	content.reading.Lock()
	defer content.reading.Unlock()
	if content.parcel != nil && content.parcel.current(instructions) {
		served, err := p.serves(ctx, content.parcel.guessed)
		if err != nil {
			return nil, err
		}
		if !served {
			return content.parcel, nil
		}
	}
	packageReads.Inc()
	files, err := p.source.Get(ctx, clause.Digest)
	if err != nil {
		return nil, fmt.Errorf("its content cannot be read: %w", err)
	}
	read, err := workload.Read(files, func(kind schema.GroupVersionKind) (workload.Resource, bool, error) {
		return p.source.Resource(ctx, kind)
	})
	if err != nil {
		return nil, undiscovered(err)
	}
	content.parcel = pack(read, instructions)
	return content.parcel, nil
}

// serves reports whether the WDS now serves one of the kinds.
func (p *packages) serves(ctx context.Context, kinds []schema.GroupVersionKind) (bool, error) {
	for _, kind := range kinds {
		if _, known, err := p.source.Resource(ctx, kind); err != nil {
			return false, undiscovered(err)
		} else if known {
			return true, nil
		}
	}
	return false, nil
}

func undiscovered(err error) error { return fmt.Errorf("discovery of its kinds failed: %w", err) }

// verify returns an error if a revision is not what a Binding says, or not published: nothing else
// is ever delivered, whatever wrote the Binding.
func (p *packages) verify(ctx context.Context, clause *controlv1alpha1.PackageClause) error {
	p.mu.Lock()
	known := p.revisions[*clause]
	verified := known != nil && known.verified
	p.mu.Unlock()
	if verified {
		return nil
	}
	r, err := p.source.Revision(ctx, clause.Namespace, clause.Name)
	if err != nil {
		return fmt.Errorf("its revision cannot be read: %w", err)
	}
	switch {
	case !r.Spec.Lifecycle.Published():
		return fmt.Errorf("PackageRevision %s is %s: only published revisions are delivered", clause.Name, r.Spec.Lifecycle)
	case r.Spec.RepositoryName != clause.Repository || r.Spec.PackageName != clause.Package || r.Spec.Revision != clause.Revision:
		return fmt.Errorf("PackageRevision %s is revision %d of package %s in Repository %s, and the Binding lists another one", clause.Name, r.Spec.Revision, r.Spec.PackageName, r.Spec.RepositoryName)
	case r.Content.Digest != clause.Digest:
		return fmt.Errorf("PackageRevision %s has the digest %s, and the Binding lists another one", clause.Name, r.Content.Digest)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if known != nil {
		known.verified = true
	}
	return nil
}

// current reports whether the objects were made as they would be now.
func (p *parcel) current(instructions instructionsFunc) bool {
	for gr, digest := range p.removed {
		if digestOf(instructions(gr)) != digest {
			return false
		}
	}
	return true
}

// unknownDigest stands for the digest of instructions that are not known.
const unknownDigest = "not known"

// digestOf distinguishes instructions, including those that are not known.
func digestOf(i *customtransform.Instructions) string {
	if len(i.Unknown) > 0 {
		return unknownDigest
	}
	return i.Digest
}

// pack returns the objects of a package as they are delivered.
func pack(read *workload.Workload, instructions instructionsFunc) *parcel {
	made := &parcel{
		objects: make([]packageObject, len(read.Objects)), unsure: read.Unsure, incomplete: read.Incomplete,
		problems: read.Report(), refused: len(read.Refused),
		removed: map[schema.GroupResource]string{}, guessed: read.Guessed,
	}
	for i := range read.Objects {
		o := &read.Objects[i]
		removal := instructions(o.Ref.GroupResource())
		made.removed[o.Ref.GroupResource()] = digestOf(removal)
		made.objects[i] = packageObject{o.Ref, convert(o, removal)}
	}
	return made
}

// convert returns an object of a package as it is delivered. It is not known while the instructions
// are not.
func convert(o *workload.Object, removal *customtransform.Instructions) finding {
	if len(removal.Unknown) > 0 {
		return finding{}
	}
	manifest, err := render.Render(&render.Source{Ref: o.Ref, Object: o.Content, Removal: removal})
	if err != nil {
		return finding{err: fmt.Errorf("%s: %w", o.File, &invalidError{err}), autoscaler: render.Autoscaler(o.Ref, o.Content)}
	}
	return finding{manifest: manifest}
}

// use records which packages a Binding lists now. What no Binding lists any more is forgotten.
func (p *packages) use(binding string, clauses []controlv1alpha1.PackageClause) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.lists[binding]
	p.lists[binding] = slices.Clone(clauses)
	if len(clauses) == 0 {
		delete(p.lists, binding)
	}
	for _, clause := range clauses {
		r := p.revisions[clause]
		if r == nil {
			r = &revision{}
			p.revisions[clause] = r
			if p.contents[clause.Digest] == nil {
				p.contents[clause.Digest] = &packageContent{}
			}
			p.contents[clause.Digest].revisions++
		}
		r.bindings++
	}
	for _, clause := range before {
		r, content := p.revisions[clause], p.contents[clause.Digest]
		r.bindings--
		if r.bindings > 0 {
			continue
		}
		delete(p.revisions, clause)
		content.revisions--
		if content.revisions == 0 {
			delete(p.contents, clause.Digest)
		}
	}
}

// Packages reads the packages of a WDS.
type Packages interface {
	// Revision returns a PackageRevision as it is stored.
	Revision(ctx context.Context, namespace, name string) (*storev1alpha1.PackageRevision, error)
	Files
	// Resource returns how objects of a kind are served.
	Resource(ctx context.Context, kind schema.GroupVersionKind) (r workload.Resource, known bool, err error)
}

// PackagesOf returns the Packages of the WDS that objects reads.
func PackagesOf(objects dynamic.Interface, files Files, kinds *client.Kinds) Packages {
	return &wdsPackages{objects.Resource(storev1alpha1.PackageRevisions), files, kinds}
}

// Files stores the files of packages. *content.Store is one.
type Files interface {
	// Get returns the files of a digest.
	Get(ctx context.Context, digest string) (kpt.Files, error)
}

type wdsPackages struct {
	revisions dynamic.NamespaceableResourceInterface
	Files
	*client.Kinds
}

// Revision implements Packages.
func (p *wdsPackages) Revision(ctx context.Context, namespace, name string) (*storev1alpha1.PackageRevision, error) {
	found, err := p.revisions.Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	r := &storev1alpha1.PackageRevision{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, r); err != nil {
		return nil, fmt.Errorf("read PackageRevision %s: %w", name, err)
	}
	return r, nil
}
