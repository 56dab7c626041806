package propose

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	pkgv1beta1 "github.com/starlinghq/starling/api/pkg/v1beta1"
	"github.com/starlinghq/starling/pkg/core/resolve"
	"github.com/starlinghq/starling/pkg/core/transaction"
	corexpkg "github.com/starlinghq/starling/pkg/core/xpkg"
	"github.com/starlinghq/starling/pkg/transactions"
	"github.com/starlinghq/starling/pkg/transactions/fetch"
)

// object is a package object. That of the transaction is its snapshot.
type object struct {
	transactions.Ref
	kind      transactions.Kind
	spec      pkgv1.ProviderSpec
	reference corexpkg.Reference
	// managed is true if transactions set its version, edited if a user has set another one since.
	managed, edited bool
	version         transaction.Version
	uid             types.UID
	// paused is true if the package is to be left alone.
	paused bool
	// handled is the generation for which there is a transaction, or which one has written.
	handled string
	created metav1.Time
}

// world is what exists in the WDS while a transaction holds the Lock.
type world struct {
	// subject is the package of the transaction, zero if it removes one.
	subject   object
	objects   []object
	revisions map[string]*pkgv1.ProviderRevision // by name
	kinds     map[string]transactions.Kind       // of revisions, by name
	// installed are the packages of the Lock, and those that are active and that the Lock lacks.
	installed []pkgv1beta1.LockPackage
	// handedOver is the source that the subject takes from a dependency, "" if there is none.
	handedOver string
	// removing is the package whose deletion the transaction carries out, zero for any other one.
	removing transactions.Ref
	// leaving are the names of packages that are removed. None else gets them.
	leaving []string
	// allowsDeletion has the packages whose objects may be deleted although others need them.
	allowsDeletion map[transactions.Ref]bool
	// deleting has spec.package of the packages that are about to go.
	deleting map[transactions.Ref]string
	warnings []string
}

// look reads all packages and revisions from the API server: what a cache lacks could be installed
// a second time.
func (p *Proposer) look(ctx context.Context, tx *pkgv1alpha1.Transaction, locked []pkgv1beta1.LockPackage) (*world, error) {
	w := &world{
		revisions: map[string]*pkgv1.ProviderRevision{}, kinds: map[string]transactions.Kind{}, installed: slices.Clone(locked),
		allowsDeletion: map[transactions.Ref]bool{}, deleting: map[transactions.Ref]string{},
	}
	var mutex sync.Mutex // of w
	group, groupContext := errgroup.WithContext(ctx)
	for _, kind := range transactions.Kinds {
		group.Go(func() error {
			packages, err := p.Client.Packages(kind).List(groupContext, metav1.ListOptions{})
			if err != nil {
				return fmt.Errorf("list %s: %w", kind.Packages.Resource, err)
			}
			mutex.Lock()
			defer mutex.Unlock()
			for n := range packages.Items {
				w.add(kind, &packages.Items[n])
			}
			return nil
		})
		group.Go(func() error {
			revisions, err := p.Client.Revisions(kind).List(groupContext, metav1.ListOptions{})
			if err != nil {
				return fmt.Errorf("list %s: %w", kind.Revisions.Resource, err)
			}
			mutex.Lock()
			defer mutex.Unlock()
			for n := range revisions.Items {
				r := &revisions.Items[n]
				w.revisions[r.Name], w.kinds[r.Name] = r, kind
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	slices.Sort(w.warnings) // they are in the order of the answers
	// The oldest object of a source counts, if there are several.
	slices.SortFunc(w.objects, func(a, b object) int {
		return cmp.Or(a.created.Compare(b.created.Time), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	if err := p.recover(ctx, w, tx); err != nil {
		return nil, err
	}
	return w, p.findEdits(ctx, w)
}

// findEdits marks the dependencies of which a user wants another version than the installed one.
// One that differs because a transaction ended half way has no transaction for its generation.
func (p *Proposer) findEdits(ctx context.Context, w *world) error {
	for n := range w.objects {
		o := &w.objects[n]
		installed := transaction.Find(w.installed, o.reference.Source)
		if !o.managed || installed != nil && resolve.ParseVersion(installed.Version).Tag == o.reference.Tag {
			continue
		}
		o.edited = o.handled != strconv.FormatInt(o.version.Generation, 10)
		for _, name := range []string{transaction.Name(o.version), transaction.NameAfterRecreation(o.version, o.uid)} {
			if o.edited {
				break
			}
			tx, err := p.Client.Transactions().Get(ctx, name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				continue
			} else if err != nil {
				return fmt.Errorf("get transaction %q: %w", name, err)
			}
			_, owner := transactions.PackageOf(tx)
			o.edited = owner == o.uid
		}
	}
	return nil
}

func (w *world) add(kind transactions.Kind, pkg *pkgv1.Provider) {
	ref := transactions.Ref{Kind: kind.Name, Name: pkg.Name}
	w.allowsDeletion[ref] = pkg.Annotations[pkgv1.AnnotationAllowDeletion] == "true"
	if pkg.DeletionTimestamp != nil {
		w.deleting[ref] = pkg.Spec.Package
		return
	}
	reference, err := corexpkg.ParseReference(pkg.Spec.Package)
	if err != nil {
		w.warnings = append(w.warnings, fmt.Sprintf("%s is left out: %v", ref, err))
		return
	}
	_, managed := pkg.Labels[pkgv1.LabelTransaction]
	w.objects = append(w.objects, object{
		Ref: ref, kind: kind, spec: pkg.Spec, reference: reference, managed: managed, created: pkg.CreationTimestamp, paused: transaction.Paused(pkg),
		version: transaction.Version{APIVersion: pkgv1.GroupVersion.String(), Kind: kind.Name, Name: pkg.Name, Generation: pkg.Generation},
		uid:     pkg.UID, handled: pkg.Labels[pkgv1.LabelGeneration],
	})
}

// recover adds the packages that are active and that the Lock does not list, or not at that
// revision: somebody edited it, or deleted it, or a Transaction ended half way.
func (p *Proposer) recover(ctx context.Context, w *world, tx *pkgv1alpha1.Transaction) error {
	for _, object := range w.objects {
		var revisions []*pkgv1.ProviderRevision
		for name, r := range w.revisions {
			if w.kinds[name].Name == object.Kind && r.Labels[pkgv1.LabelPackage] == object.Name {
				revisions = append(revisions, r)
			}
		}
		active := transaction.Active(revisions)
		if active == nil || slices.ContainsFunc(w.installed, func(l pkgv1beta1.LockPackage) bool { return l.Name == active.Name }) {
			continue
		}
		image, err := corexpkg.ParseReference(active.Spec.Package)
		if err != nil {
			continue
		}
		listed := transaction.Find(w.installed, image.Source)
		if !transaction.Installed(active) || listed != nil && !w.outdated(listed, active, object.Ref, tx) {
			continue
		}
		digest := cmp.Or(image.Digest, active.Annotations[transaction.AnnotationDigest])
		described, err := p.Packages.Meta(ctx, image.Source, digest, w.options(image.Source))
		if err != nil {
			return fmt.Errorf("read package %s, which is installed and not in the Lock: %w", object.Ref, err)
		}
		dependencies := make([]resolve.Dependency, 0, len(described.Dependencies))
		for _, d := range described.Dependencies {
			dependencies = append(dependencies, resolve.Dependency(d))
		}
		actual := resolve.ToLock([]resolve.Package{{
			Name: active.Name, APIVersion: pkgv1.GroupVersion.String(), Kind: object.Kind, Source: image.Source,
			Version: resolve.Version{Tag: image.Tag, Digest: digest}, Dependencies: dependencies,
		}})
		if listed != nil {
			w.warnings = append(w.warnings, fmt.Sprintf("revision %s of %s is installed, but the Lock had %s", active.Name, object.Ref, listed.Name))
			*listed = actual[0]
			continue
		}
		w.installed = append(w.installed, actual...)
		w.warnings = append(w.warnings, fmt.Sprintf("%s is installed, but was not in the Lock; it is added", object.Ref))
	}
	return nil
}

// outdated reports whether the Lock lists another revision of a package than the one that is
// installed: somebody edited it, or a Transaction ended when only a part of it was installed. A
// Transaction that is tried again sees the Lock as it was, and does the same again.
func (w *world) outdated(listed *pkgv1beta1.LockPackage, active *pkgv1.ProviderRevision, of transactions.Ref, tx *pkgv1alpha1.Transaction) bool {
	if owner := w.packageOf(listed); owner != of && owner != (transactions.Ref{}) {
		return false // of another package
	}
	return active.Labels[pkgv1.LabelTransaction] != tx.Name
}

// subject returns the snapshot of a transaction as an object.
func subject(snapshot *pkgv1alpha1.PackageSnapshot) (object, error) {
	kind, found := transactions.KindOf(snapshot.Kind)
	if !found {
		return object{}, corexpkg.Invalidf("kind %q is no kind of packages: use Provider, Configuration or Function", snapshot.Kind)
	}
	o := object{Ref: transactions.Ref{Kind: kind.Name, Name: snapshot.Metadata.Name}, kind: kind}
	if err := json.Unmarshal(snapshot.Spec.Raw, &o.spec); err != nil {
		return o, corexpkg.Invalidf("spec of %s: %v", o.Ref, err)
	}
	reference, err := corexpkg.ParseReference(o.spec.Package)
	if err != nil {
		return o, corexpkg.Invalidf("spec.package of %s: %v", o.Ref, err)
	}
	o.reference = reference
	return o, nil
}

// of returns the object of a source, nil if there is none.
func (w *world) of(source string) *object {
	for n := range w.objects {
		if w.objects[n].reference.Source == source {
			return &w.objects[n]
		}
	}
	return nil
}

// options returns how the package of a source is fetched. A dependency has the pull secrets of what
// requires it, as they are now: its own are those of its installation, and may be gone.
func (w *world) options(source string) fetch.Options {
	var options fetch.Options
	o := w.of(source)
	dependency := o == nil || o.managed
	if source == w.subject.reference.Source {
		dependency = slices.ContainsFunc(w.objects, func(other object) bool { return other.Ref == w.subject.Ref && other.managed })
		o = &w.subject
	}
	if o != nil {
		options = fetch.OptionsOf(&o.spec.PackageSpec)
	}
	if !dependency {
		return options
	}
	own := options.PullSecrets
	options.PullSecrets, options.Inherited = nil, fetch.OptionsOf(&w.subject.spec.PackageSpec).PullSecrets
	installed := resolve.FromLock(w.installed)
	for n := range w.objects {
		if root := &w.objects[n]; !root.managed && resolve.Reachable(installed, root.reference.Source)[source] {
			options.Inherited = append(options.Inherited, fetch.OptionsOf(&root.spec.PackageSpec).PullSecrets...)
		}
	}
	options.Inherited = append(options.Inherited, own...)
	return options
}

// packageOf returns the package whose revision is installed.
func (w *world) packageOf(locked *pkgv1beta1.LockPackage) transactions.Ref {
	if r := w.revisions[locked.Name]; r != nil {
		return transactions.Ref{Kind: w.kinds[locked.Name].Name, Name: r.Labels[pkgv1.LabelPackage]}
	}
	return transactions.Ref{}
}
