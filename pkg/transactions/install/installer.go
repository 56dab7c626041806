// Package install writes what a Transaction has validated: packages, revisions and the objects of
// packages. Each step makes one thing as it must be, and writes nothing if it is, so a Transaction
// that was interrupted is repeated as a whole.
package install

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	pkgv1beta1 "github.com/starlinghq/starling/api/pkg/v1beta1"
	"github.com/starlinghq/starling/pkg/core/transaction"
	"github.com/starlinghq/starling/pkg/transactions"
	"github.com/starlinghq/starling/pkg/transactions/live"
	"github.com/starlinghq/starling/pkg/writer"
)

// Package is a package to install, with its content.
type Package struct {
	// Locked is the package as the Lock will list it.
	Locked pkgv1beta1.LockPackage
	// Kind is the kind of the package.
	Kind transactions.Kind
	// Name is the name of the package.
	Name string
	// Managed is true if transactions set the version of the package: it is a dependency, and is
	// created if it does not exist.
	Managed bool
	// Seen is spec.package of the dependency as it was proposed from, "" if it did not exist.
	Seen string
	// Rewrite is true if the package object gets this version, although a user manages it: the same
	// user created the Transaction. It is created if it does not exist.
	Rewrite bool
	// Spec configures the revision. A dependency that does not exist has only the pull secrets of
	// the package of the Transaction.
	Spec pkgv1.ProviderSpec
	// Image is the image with tag and digest, Fetched the one that an ImageConfig made of it.
	Image, Fetched string
	// Digest is the digest of the image.
	Digest string
	// ImageConfigs are those that were used.
	ImageConfigs []pkgv1.ImageConfigReference
	// Labels, Annotations and Capabilities are those of package.yaml.
	Labels, Annotations map[string]string
	Capabilities        []string
	// Objects are the objects to install.
	Objects []*unstructured.Unstructured
	// Unnamed are the CustomResourceDefinitions of Objects whose conversion webhook the package
	// does not name.
	Unnamed []string
	// Differs says which objects of a package whose version stays are not as they were installed;
	// "" if it is installed for another reason.
	Differs string
	// Repair is true if the transaction is not about this package: it is installed again because
	// its objects are not as they were installed, or because that is not known.
	Repair bool
	// Inactive is true if the revision stays inactive: its objects are not installed.
	Inactive bool
}

// Installer installs packages in a WDS.
type Installer struct {
	// Client reads packages and revisions, Objects everything else, from the API server.
	Client  *transactions.Client
	Objects dynamic.Interface
	// Live finds the resources of kinds.
	Live *live.Objects
	// Discovery finds out which CustomResourceDefinitions are served.
	Discovery discovery.ServerResourcesInterface
	Writer    *writer.Writer
	// Parallel is how many objects are written at the same time.
	Parallel int
	// Patience is how long to wait until a CustomResourceDefinition is established, or deleted.
	Patience time.Duration
}

var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

const definitionKind = "CustomResourceDefinition"

// Webhook configurations are not installed in a WDS: nothing runs there that could answer.
const webhookGroup = "admissionregistration.k8s.io"

// installable returns the objects that are installed.
func (p *Package) installable() []*unstructured.Unstructured {
	if p.Inactive {
		return nil
	}
	var objects []*unstructured.Unstructured
	for _, o := range p.Objects {
		if o.GroupVersionKind().Group != webhookGroup {
			objects = append(objects, o)
		}
	}
	return objects
}

func isDefinition(o *unstructured.Unstructured) bool { return o.GetKind() == definitionKind }

// resourceOf returns the resource of an object. The error is a NoMatch error if the WDS does not
// serve it.
func (i *Installer) resourceOf(gvk schema.GroupVersionKind) (schema.GroupVersionResource, error) {
	if gvk.Kind == definitionKind {
		return definitions, nil
	}
	return i.Live.Resource(gvk)
}

// live returns the object as the API server has it, nil if there is none.
func (i *Installer) live(ctx context.Context, resource schema.GroupVersionResource, name string) (*unstructured.Unstructured, error) {
	found, err := i.Objects.Resource(resource).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // there is none, which is not an error
	case err != nil:
		return nil, fmt.Errorf("get %s %q: %w", resource.GroupResource(), name, err)
	}
	return found, nil
}

// write makes one object as it must be. Nothing is written if it is. It returns the object as the
// API server has it, and whether it was written. A CustomResourceDefinition of which only the
// status or the metadata has changed since the validation is read again; any other change must be
// validated.
func (i *Installer) write(ctx context.Context, o *unstructured.Unstructured, to transaction.Target, known *live.Definitions) (*unstructured.Unstructured, bool, error) {
	stored, written, err := i.writeOnce(ctx, o, to, known)
	if !isDefinition(o) || !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err) {
		return stored, written, err
	}
	now := known.Again()
	if same, err := sameDefinition(ctx, o.GetName(), known, now); err != nil {
		return nil, false, err
	} else if !same {
		return nil, false, changedSince(definitions, o.GetName())
	}
	return i.writeOnce(ctx, o, to, now)
}

// sameDefinition reports whether a CustomResourceDefinition has the same content and the same
// controller in both.
func sameDefinition(ctx context.Context, name string, a, b *live.Definitions) (bool, error) {
	before, err := a.Object(ctx, name)
	if err != nil {
		return false, err
	}
	after, err := b.Object(ctx, name)
	if err != nil || before == nil || after == nil {
		return before == nil && after == nil, err
	}
	return before.GetUID() == after.GetUID() && apiequality.Semantic.DeepEqual(before.Object["spec"], after.Object["spec"]) &&
		apiequality.Semantic.DeepEqual(transaction.ControllerOf(before), transaction.ControllerOf(after)), nil
}

func (i *Installer) writeOnce(ctx context.Context, o *unstructured.Unstructured, to transaction.Target, known *live.Definitions) (*unstructured.Unstructured, bool, error) {
	desired, live, target, err := i.desired(ctx, o, to, known)
	if err != nil {
		return nil, false, err
	}
	if live == nil {
		created, err := i.Writer.Create(ctx, target, desired, "install")
		if err != nil {
			return nil, false, err
		}
		desired.SetUID(created.UID)
		desired.SetGeneration(created.Generation)
		return desired, true, nil
	}
	// A new owner makes a write necessary. Otherwise the API server knows best what is the same.
	if slices.EqualFunc(desired.GetOwnerReferences(), live.GetOwnerReferences(), sameOwner) {
		stored, err := i.Writer.Try(ctx, target, desired)
		if err != nil || transaction.Same(stored, live) {
			return live, false, err
		}
	}
	updated, err := i.Writer.Update(ctx, target, desired, "install")
	if err != nil {
		return nil, false, err
	}
	desired.SetGeneration(updated.Generation)
	return desired, true, nil
}

func sameOwner(a, b metav1.OwnerReference) bool {
	return a.UID == b.UID && a.Name == b.Name && a.Kind == b.Kind && a.APIVersion == b.APIVersion && controls(a) == controls(b)
}

func controls(ref metav1.OwnerReference) bool { return ref.Controller != nil && *ref.Controller }

// desired returns an object as it must be, and as it is: a CustomResourceDefinition as it is known.
func (i *Installer) desired(
	ctx context.Context, o *unstructured.Unstructured, to transaction.Target, known *live.Definitions,
) (desired, live *unstructured.Unstructured, target writer.Target, err error) {
	resource, err := i.resourceOf(o.GroupVersionKind())
	if err != nil {
		return nil, nil, target, err
	}
	if resource == definitions {
		live, err = known.Object(ctx, o.GetName())
	} else {
		live, err = i.live(ctx, resource, o.GetName())
	}
	if err != nil {
		return nil, nil, target, err
	}
	return transaction.Object(o, live, to), live, writer.Target{Resource: resource, Name: o.GetName()}, nil
}

// each calls do for all objects, some at a time. The error is that of the first object, in their
// order, that has one.
func (i *Installer) each(ctx context.Context, objects []*unstructured.Unstructured, do func(context.Context, *unstructured.Unstructured) error) error {
	var mutex sync.Mutex
	failures := make([]error, len(objects))
	group := errgroup.Group{}
	group.SetLimit(max(i.Parallel, 1))
	for n, o := range objects {
		group.Go(func() error {
			err := do(ctx, o)
			mutex.Lock()
			defer mutex.Unlock()
			failures[n] = err
			return nil
		})
	}
	_ = group.Wait() // each failure is in failures
	for _, err := range failures {
		if err != nil {
			return err
		}
	}
	return nil
}

// failure returns an error that a user can repair with a reason, and any other one as it is: the
// API server is not reachable, say, or something else changed the object.
func failure(reason, message string, err error) error {
	if err == nil {
		return nil
	}
	if _, has := errors.AsType[*transaction.FailedError](err); has || !repairable(err) {
		return err
	}
	return &transaction.FailedError{Reason: reason, Message: message + ": " + err.Error()}
}

// repairable reports whether the API server refused something for what it is.
func repairable(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err) ||
		meta.IsNoMatchError(err)
}

// Validated is what the validation knows of the CustomResourceDefinitions that are installed.
type Validated struct {
	// Definitions are those of the WDS.
	Definitions *live.Definitions
	// Unchanged are the names of those that have the desired content.
	Unchanged map[string]bool
	// MayTake reports whether the package of a source may take an object from its controller.
	MayTake func(source string, owner transaction.Owner) bool
}

// belongs reports whether an object belongs to the package already, or to one that it replaces.
func (v *Validated) belongs(p *Package, live *unstructured.Unstructured) bool {
	return slices.ContainsFunc(live.GetOwnerReferences(), func(ref metav1.OwnerReference) bool {
		return v.MayTake(p.Locked.Source, transaction.Owner{Kind: ref.Kind, Name: ref.Name, UID: ref.UID})
	})
}

// Check tries all objects of all packages at the API server, and stores nothing. The API server has
// accepted what is unchanged. The error is a *transaction.FailedError with a reason of the
// condition Validated if the API server refuses an object, or if it belongs to something else. It
// also returns which objects would be created and which updated.
func (i *Installer) Check(ctx context.Context, packages []Package, known Validated) ([]Effect, error) {
	served := map[schema.GroupKind]bool{}
	for n := range packages {
		for _, o := range packages[n].installable() {
			if isDefinition(o) {
				group, _, _ := unstructured.NestedString(o.Object, "spec", "group")
				kind, _, _ := unstructured.NestedString(o.Object, "spec", "names", "kind")
				served[schema.GroupKind{Group: group, Kind: kind}] = true
			}
		}
	}
	if err := shared(packages); err != nil {
		return nil, err
	}
	effects := make([]Effect, len(packages))
	for n := range packages {
		p := &packages[n]
		effect := &effects[n]
		var mutex sync.Mutex
		err := i.each(ctx, p.installable(), func(ctx context.Context, o *unstructured.Unstructured) error {
			change, err := i.try(ctx, p, o, served, known)
			mutex.Lock()
			defer mutex.Unlock()
			effect.add(change, o)
			return err
		})
		if err != nil {
			return nil, err
		}
		effect.sort()
	}
	return effects, nil
}

// shared returns an error if two packages have the same object: only one can control it.
func shared(packages []Package) error {
	owners := map[pkgv1.TypedReference]*Package{}
	for n := range packages {
		p := &packages[n]
		for _, o := range p.installable() {
			gvk := o.GroupVersionKind()
			id := pkgv1.TypedReference{APIVersion: gvk.Group, Kind: gvk.Kind, Name: o.GetName()}
			if other := owners[id]; other != nil && other != p {
				return &transaction.FailedError{
					Reason: pkgv1alpha1.ReasonCRDConflict, Message: fmt.Sprintf("packages %s and %s would all control %s %s; only one package can", other.Name, p.Name, gvk.Kind, o.GetName()),
				}
			}
			owners[id] = p
		}
	}
	return nil
}

// try tries one object.
func (i *Installer) try(ctx context.Context, p *Package, o *unstructured.Unstructured, served map[schema.GroupKind]bool, known Validated) (change, error) {
	pkg := placeholder
	pkg.Name = p.Name
	desired, live, target, err := i.desired(ctx, o, p.target(placeholder, pkg, placeholder), known.Definitions)
	if meta.IsNoMatchError(err) {
		if served[o.GroupVersionKind().GroupKind()] {
			return created, nil // the transaction installs its kind
		}
		return unchanged, &transaction.FailedError{
			Reason:  pkgv1alpha1.ReasonMissingDependency,
			Message: fmt.Sprintf("Package %s requires kind %s, which is not served here", p.Name, o.GroupVersionKind().GroupKind()) + ofCrossplane(o.GroupVersionKind()),
		}
	} else if err != nil {
		return unchanged, err
	}
	if live != nil && isDefinition(o) && known.Unchanged[o.GetName()] && sameMetadata(desired, live) {
		return unchanged, nil
	}
	if live != nil && !isDefinition(o) { // the owners of CustomResourceDefinitions are validated before
		if owner := transaction.ControllerOf(live); owner != nil && !known.MayTake(p.Locked.Source, *owner) {
			return unchanged, &transaction.FailedError{
				Reason:  pkgv1alpha1.ReasonCRDConflict,
				Message: fmt.Sprintf("%s %s of package %s is already controlled by %s %s (UID %s)", o.GetKind(), o.GetName(), p.Name, owner.Kind, owner.Name, owner.UID),
			}
		}
	}
	stored, err := i.Writer.Try(ctx, target, desired)
	if err != nil {
		reason := pkgv1alpha1.ReasonInvalidPackage
		if isDefinition(o) {
			reason = pkgv1alpha1.ReasonSchemaIncompatible
		}
		return unchanged, failure(reason, fmt.Sprintf("package %s: the API server would refuse %s %s", p.Name, o.GetKind(), o.GetName()), err)
	}
	switch {
	case live == nil:
		return created, nil
	case !isDefinition(o) && !known.belongs(p, live):
		return adopted, nil
	case transaction.Same(withoutOwners(stored), withoutOwners(live)):
		return unchanged, nil
	}
	return updated, nil
}

// ofCrossplane says where the CustomResourceDefinition of a kind of Crossplane itself is, "" for
// another kind: no package brings it.
func ofCrossplane(gvk schema.GroupVersionKind) string {
	if !strings.HasSuffix(gvk.Group, ".crossplane.io") {
		return ""
	}
	resource, _ := meta.UnsafeGuessKindToResource(gvk)
	return fmt.Sprintf(". It is one of Crossplane's own. Install it from the directory cluster/crds of Crossplane: kubectl apply --server-side --filename %s_%s.yaml",
		gvk.Group, resource.Resource)
}

// placeholder stands for owners that do not exist yet.
var placeholder = transaction.Owner{APIVersion: pkgv1.GroupVersion.String(), Kind: "ProviderRevision", Name: "placeholder", UID: "placeholder"}

// sameMetadata reports whether labels and annotations stay, but for what says who installed the
// object.
func sameMetadata(desired, live *unstructured.Unstructured) bool {
	before, after := live.GetLabels(), desired.GetLabels()
	delete(before, pkgv1.LabelTransaction)
	delete(after, pkgv1.LabelTransaction)
	return maps.Equal(before, after) && maps.Equal(live.GetAnnotations(), desired.GetAnnotations())
}

// withoutOwners returns the object without what says who installed it.
func withoutOwners(o *unstructured.Unstructured) *unstructured.Unstructured {
	copied := o.DeepCopy()
	copied.SetOwnerReferences(nil)
	labels := copied.GetLabels()
	delete(labels, pkgv1.LabelTransaction)
	copied.SetLabels(labels)
	return copied
}

func (p *Package) target(revision, pkg, tx transaction.Owner) transaction.Target {
	return transaction.Target{
		Revision: revision, Package: pkg, Transaction: tx, Labels: p.Spec.CommonLabels, Annotations: p.Spec.CommonAnnotations,
	}
}
