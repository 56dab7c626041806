package transport

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/customtransform"
	"github.com/starlinghq/starling/pkg/core/kptpkg"
	"github.com/starlinghq/starling/pkg/core/kptpkg/workload"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/options"
	"github.com/starlinghq/starling/pkg/core/transform"
)

// Packages reads the packages of a WDS.
type Packages interface {
	// Revision returns what is kept of a PackageRevision.
	Revision(ctx context.Context, namespace, name string) (*storev1alpha1.PackageRevision, error)
	// Files returns the files of a digest.
	Files(ctx context.Context, digest string) (kptpkg.Files, error)
	// Resource tells how objects of a kind are served.
	Resource(ctx context.Context, kind schema.GroupVersionKind) (r workload.Resource, known bool, err error)
}

// packages holds what the packages that Bindings list have for clusters, as it is delivered: read once for each digest, whatever number
// of Bindings list it. It is safe for concurrent use.
type packages struct {
	source   Packages // nil: none are delivered
	pipeline transform.Pipeline

	mu sync.Mutex
	// parcels are by digest.
	parcels map[string]*parcel
	// seen are the revisions that were seen to be published with their digest: neither changes any more.
	seen map[controlv1alpha1.PackageClause]bool
	// users are the Bindings that list a package, and lists what they list.
	users map[controlv1alpha1.PackageClause]map[string]bool
	lists map[string][]controlv1alpha1.PackageClause
	// named counts the clauses in use that name a digest.
	named map[string]int
	// reading is held by digest, so that a digest that several Bindings list is read once.
	reading map[string]*sync.Mutex
}

// parcel is what a package has for clusters. It is immutable.
type parcel struct {
	objects []packed
	// unsure are objects of which it is not known what they shall be; incomplete tells that there may be more.
	unsure     []objref.Ref
	incomplete bool
	problems   []string
	// by are the digests of the instructions of CustomTransforms that the objects were made with.
	by map[schema.GroupResource]string
}

// packed is an object of a package.
type packed struct {
	ref     objref.Ref
	finding finding
}

func newPackages(source Packages, pipeline transform.Pipeline) *packages {
	return &packages{
		source: source, pipeline: pipeline, parcels: map[string]*parcel{}, seen: map[controlv1alpha1.PackageClause]bool{},
		users: map[controlv1alpha1.PackageClause]map[string]bool{}, lists: map[string][]controlv1alpha1.PackageClause{},
		named: map[string]int{}, reading: map[string]*sync.Mutex{},
	}
}

// instructing gives the instructions of CustomTransforms for a resource.
type instructing func(schema.GroupResource) *customtransform.Instructions

var errNoPackages = errors.New("this transport-controller delivers no packages")

// find returns what a package has for clusters. It reads, and blocks, if that is not known. An error says why it is not known at
// all; it may pass.
func (p *packages) find(ctx context.Context, clause *controlv1alpha1.PackageClause, instructions instructing) (*parcel, error) {
	if p.source == nil {
		return nil, errNoPackages
	}
	if err := p.check(ctx, clause); err != nil {
		return nil, err
	}
	lock := p.lock(clause.Digest)
	lock.Lock()
	defer lock.Unlock()
	if found := p.parcel(clause.Digest); found != nil && found.current(instructions) {
		return found, nil
	}
	packageReads.Inc()
	files, err := p.source.Files(ctx, clause.Digest)
	if err != nil {
		return nil, fmt.Errorf("its content cannot be read: %w", err)
	}
	read, err := workload.Read(files, func(kind schema.GroupVersionKind) (workload.Resource, bool, error) {
		return p.source.Resource(ctx, kind)
	})
	if err != nil {
		return nil, fmt.Errorf("how its objects are served cannot be found out: %w", err)
	}
	made := p.pack(read, instructions)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.named[clause.Digest] > 0 { // still
		p.parcels[clause.Digest] = made
	}
	return made, nil
}

// check makes sure that a revision is what a Binding says, and published: nothing else is ever delivered, whoever wrote the Binding.
func (p *packages) check(ctx context.Context, clause *controlv1alpha1.PackageClause) error {
	p.mu.Lock()
	seen := p.seen[*clause]
	p.mu.Unlock()
	if seen {
		return nil
	}
	r, err := p.source.Revision(ctx, clause.Namespace, clause.Name)
	if err != nil {
		return fmt.Errorf("its revision cannot be read: %w", err)
	}
	switch {
	case !r.Spec.Lifecycle.Published():
		return fmt.Errorf("PackageRevision %s is %s: only what is published goes to clusters", clause.Name, r.Spec.Lifecycle)
	case r.Spec.RepositoryName != clause.Repository || r.Spec.PackageName != clause.Package || r.Spec.Revision != clause.Revision:
		return fmt.Errorf("PackageRevision %s is revision %d of package %s in Repository %s", clause.Name, r.Spec.Revision, r.Spec.PackageName, r.Spec.RepositoryName)
	case r.Content.Digest != clause.Digest:
		return fmt.Errorf("PackageRevision %s has the digest %s", clause.Name, r.Content.Digest)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.users[*clause]) > 0 {
		p.seen[*clause] = true
	}
	return nil
}

func (p *packages) lock(digest string) *sync.Mutex {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reading[digest] == nil {
		if p.named[digest] == 0 {
			return &sync.Mutex{} // nobody lists it any more
		}
		p.reading[digest] = &sync.Mutex{}
	}
	return p.reading[digest]
}

func (p *packages) parcel(digest string) *parcel {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.parcels[digest]
}

// current tells whether the objects were made as they would be now.
func (p *parcel) current(instructions instructing) bool {
	for gr, digest := range p.by {
		if digestOf(instructions(gr)) != digest {
			return false
		}
	}
	return true
}

// unknownInstructions stands for the digest of those.
const unknownInstructions = "not known"

// digestOf tells instructions apart, also those that are not known.
func digestOf(i *customtransform.Instructions) string {
	if len(i.Unknown) > 0 {
		return unknownInstructions
	}
	return i.Digest
}

// pack makes the objects as they are delivered.
func (p *packages) pack(read *workload.Workload, instructions instructing) *parcel {
	made := &parcel{
		objects: make([]packed, len(read.Objects)), unsure: read.Unsure, incomplete: read.Incomplete, problems: read.Problems,
		by: map[schema.GroupResource]string{},
	}
	for i := range read.Objects {
		o := &read.Objects[i]
		by := instructions(o.Ref.GroupResource())
		made.by[o.Ref.GroupResource()] = digestOf(by)
		made.objects[i] = packed{o.Ref, p.make(o, by)}
	}
	return made
}

func (p *packages) make(o *workload.Object, by *customtransform.Instructions) finding {
	if len(by.Unknown) > 0 {
		return finding{} // not known what to make of it
	}
	wish, err := options.Parse((&unstructured.Unstructured{Object: o.Content}).GetAnnotations())
	if err != nil {
		return finding{err: fmt.Errorf("%s: %w", o.File, &invalidError{err})}
	}
	object, err := p.pipeline.Then(by.Apply).Apply(o.Ref, o.Content)
	if err != nil {
		return finding{err: fmt.Errorf("%s: %w", o.File, &invalidError{err})}
	}
	return finding{object: object, wish: wish, known: true}
}

// use notes which packages a Binding lists now. What none lists any more is forgotten.
func (p *packages) use(binding string, clauses []controlv1alpha1.PackageClause) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.lists[binding]
	if len(before)+len(clauses) == 0 {
		return
	}
	for _, clause := range clauses {
		if p.users[clause] == nil {
			p.users[clause] = map[string]bool{}
			p.named[clause.Digest]++
		}
		p.users[clause][binding] = true
	}
	for _, clause := range before {
		if slices.Contains(clauses, clause) {
			continue
		}
		delete(p.users[clause], binding)
		if len(p.users[clause]) == 0 {
			delete(p.users, clause)
			delete(p.seen, clause)
			p.drop(clause.Digest)
		}
	}
	if p.lists[binding] = slices.Clone(clauses); len(clauses) == 0 {
		delete(p.lists, binding)
	}
}

// drop forgets what is known of a digest, if nothing names it any more. The lock is held.
func (p *packages) drop(digest string) {
	p.named[digest]--
	if p.named[digest] == 0 {
		delete(p.named, digest)
		delete(p.parcels, digest)
		delete(p.reading, digest)
	}
}

// sourceOf names where a Binding's content comes from: one source delivers one content of each object. All objects of the WDS are one,
// and each Binding with packages is one of its own.
func sourceOf(binding *controlv1alpha1.Binding) string {
	if len(binding.Spec.Workload.Packages) == 0 {
		return ""
	}
	first := &binding.Spec.Workload.Packages[0]
	return fmt.Sprintf("package %s/%s/%s", first.Namespace, first.Repository, first.Package)
}

// unpack returns the objects of the packages that a Binding lists, beside those that it lists itself, and notes in p what is wrong with
// them. Where it is not known what a package holds, whatever clusters have of it stays.
func (c *Controller) unpack(ctx context.Context, binding *controlv1alpha1.Binding, p *placement, entries []entry) (more []entry, findings []finding, again bool) {
	clauses := binding.Spec.Workload.Packages
	c.packages.use(binding.Name, clauses)
	if len(clauses) == 0 {
		return nil, nil, false
	}
	listed := make(map[objref.Ref]string, len(entries))
	for i := range entries {
		listed[entries[i].ref] = "the Binding itself"
	}
	add := func(ref objref.Ref, f finding) {
		more, findings = append(more, entry{ref: ref, namespaced: ref.Namespace != ""}), append(findings, f)
	}
	instructions := c.instructionsFor(binding.Name)
	unknown := false
	for i := range clauses {
		clause := &clauses[i]
		name := fmt.Sprintf("package %s/%s/%s v%d", clause.Namespace, clause.Repository, clause.Package, clause.Revision)
		found, err := c.packages.find(ctx, clause, instructions)
		if err != nil {
			p.problems = append(p.problems, name+": "+clip(err.Error())+"; what was delivered of it stays")
			unknown, again = true, again || !errors.Is(err, errNoPackages)
			continue
		}
		for gr, digest := range found.by {
			p.kinds[gr] = struct{}{}
			if digest == unknownInstructions {
				p.problems = append(p.problems, unknownTransforms(gr, instructions(gr)))
			}
		}
		unknown = unknown || found.incomplete
		for _, text := range found.problems {
			p.problems = append(p.problems, name+": "+clip(text))
		}
		for j := range found.objects {
			o := &found.objects[j]
			if in, twice := listed[o.ref]; twice {
				p.problems = append(p.problems, fmt.Sprintf("%s: %s is in %s, too: that is delivered", name, o.ref, in))
				continue
			}
			listed[o.ref] = name
			f := o.finding
			if f.err != nil {
				f.err = fmt.Errorf("%s: %w", name, f.err)
			}
			add(o.ref, f)
		}
		for _, ref := range found.unsure {
			if _, twice := listed[ref]; !twice {
				listed[ref] = name
				add(ref, finding{})
			}
		}
	}
	if unknown {
		for ref := range c.delivered(binding, p) {
			if _, there := listed[ref]; !there {
				add(ref, finding{})
			}
		}
	}
	return more, findings, again
}

// delivered returns the objects that a Binding has delivered, as far as is known; if that is not all, p is provisional.
func (c *Controller) delivered(binding *controlv1alpha1.Binding, p *placement) map[objref.Ref]struct{} {
	refs := map[objref.Ref]struct{}{}
	if before := c.placementOf(binding.Name); before != nil && before.uid == binding.UID {
		for ref := range before.objects {
			refs[ref] = struct{}{}
		}
	}
	for _, s := range c.spaces {
		if !s.store.hasSynced() {
			p.provisional = true
		}
		for _, mailbox := range s.store.mailboxes(binding.UID) {
			for _, work := range s.store.of(binding.UID, mailbox) {
				for i := range work.Items {
					if !work.Items[i].Withdrawn {
						refs[work.Items[i].Ref] = struct{}{}
					}
				}
			}
		}
	}
	return refs
}

// PackagesOf returns the Packages of a WDS that objects reads.
func PackagesOf(objects dynamic.Interface, files Files, kinds *Kinds) Packages {
	return &packagesOf{objects.Resource(storev1alpha1.PackageRevisions), files, kinds}
}

// Files keeps the files of packages by their digest. *content.Store is one.
type Files interface {
	Get(ctx context.Context, digest string) (kptpkg.Files, error)
}

type packagesOf struct {
	revisions dynamic.NamespaceableResourceInterface
	files     Files
	*Kinds
}

// Revision implements Packages.
func (p *packagesOf) Revision(ctx context.Context, namespace, name string) (*storev1alpha1.PackageRevision, error) {
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

// Files implements Packages.
func (p *packagesOf) Files(ctx context.Context, digest string) (kptpkg.Files, error) {
	return p.files.Get(ctx, digest)
}
