package binding

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/inventory"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/version"
	"github.com/starlinghq/starling/pkg/core/text"
)

// Package is a package in a Repository.
type Package struct{ Namespace, Repository, Name string }

// String returns namespace/repository/name.
func (p Package) String() string { return p.Namespace + "/" + p.Repository + "/" + p.Name }

// Name returns the name of the Binding of a package: a readable part, and a hash that makes
// it unique. It does not depend on the revision.
func Name(p Package) string {
	const limit, digits = 63, 12 // as long as the value of a label
	sum := sha256.Sum256([]byte(p.Namespace + "\x00" + p.Repository + "\x00" + p.Name))
	readable := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, p.Repository+"-"+p.Name)
	readable = strings.Trim(readable[:min(len(readable), limit-digits-1)], "-")
	return readable + "-" + hex.EncodeToString(sum[:])[:digits]
}

// PackageOf returns the package of a Binding; ok is false if the Binding is not that of a package.
func PackageOf(b *controlv1alpha1.Binding) (p Package, ok bool) {
	p = Package{
		Namespace:  b.Labels[controlv1alpha1.LabelPackageNamespace],
		Repository: b.Labels[controlv1alpha1.LabelPackageRepository],
		Name:       b.Annotations[controlv1alpha1.AnnotationPackage],
	}
	return p, p.Name != "" && b.Name == Name(p)
}

// Input holds all inputs of the Binding of a package. All of them are synced.
type Input struct {
	Package Package
	// Revisions of the package, in any order.
	Revisions []*storev1alpha1.PackageRevision
	// Repository of the package; nil if it does not exist.
	Repository *configv1alpha1.Repository
	// Cluster is the state of the cluster that has the name of the Repository.
	Cluster inventory.State
	// Drained is true if the cluster is drained: it is accepted, and is a destination of nothing.
	Drained bool
	// Stored is the current Binding of that name; nil if it does not exist.
	Stored *controlv1alpha1.Binding
}

// leaves reports whether the cluster was observed to be no destination any more.
func (in *Input) leaves() bool {
	return in.Cluster == inventory.Leaving || in.Cluster == inventory.Accepted && in.Drained
}

// Plan holds the writes for the Binding of a package. Mostly there are none.
type Plan struct {
	Create, Update *controlv1alpha1.Binding
	Delete         bool
	// Taken is true if the name is in use by a Binding of another owner.
	Taken bool
	// TakesBack is true if the plan removes the delivered revision, or replaces it by an older one.
	TakesBack bool
}

// takesBack reports whether the stored Binding delivers another revision than latest that is not
// known to precede it.
func takesBack(in *Input, latest *storev1alpha1.PackageRevision) bool {
	if len(in.Stored.Spec.Workload.Packages) == 0 {
		return false
	}
	delivered := &in.Stored.Spec.Workload.Packages[0]
	if delivered.Revision > 0 && latest.Spec.Revision > 0 {
		return latest.Spec.Revision < delivered.Revision
	}
	if delivered.Name == latest.Name {
		return false
	}
	i := slices.IndexFunc(in.Revisions, func(r *storev1alpha1.PackageRevision) bool { return r.Name == delivered.Name })
	return i < 0 || !version.Precedes(in.Revisions[i], latest)
}

// PlanBinding returns the writes for the Binding of a package.
//
// The Binding is deleted if no revision is published any more, or if spec.deployment of the
// Repository is not true. It loses its destination only if the cluster is observed leaving or
// drained. If the cluster does not exist, or is unknown, the Binding keeps its destination.
func PlanBinding(in *Input) Plan {
	stored := in.Stored
	switch {
	case stored == nil:
	case stored.Annotations[controlv1alpha1.AnnotationPackage] != in.Package.Name: // labels that a user removed are restored
		return Plan{Taken: true}
	case stored.DeletionTimestamp != nil:
		return Plan{} // it is re-created afterwards
	}
	latest := version.Latest(in.Revisions)
	switch {
	case latest == nil, in.Repository != nil && !in.Repository.Spec.Deployment:
		return Plan{Delete: stored != nil, TakesBack: stored != nil && len(stored.Spec.Workload.Packages) > 0}
	case in.Repository == nil: // tools delete and re-create Repositories
		return releaseLeaving(in)
	case stored == nil && (in.Cluster != inventory.Accepted || in.Drained):
		return Plan{} // there is no destination
	}
	// The transport would add its finalizer with a write of its own before it delivers anything.
	want := &controlv1alpha1.Binding{ObjectMeta: metav1.ObjectMeta{Name: Name(in.Package), Finalizers: []string{controlv1alpha1.BindingFinalizer}}}
	if stored != nil {
		want = stored.DeepCopy()
	}
	want.TypeMeta = bindingType()
	setPackage(want, in.Package)
	want.Spec.Workload = controlv1alpha1.DownsyncObjectClauses{Packages: []controlv1alpha1.PackageClause{{
		Namespace: in.Package.Namespace, Repository: in.Package.Repository, Package: in.Package.Name,
		Revision: latest.Spec.Revision, Name: latest.Name, Digest: latest.Content.Digest,
	}}}
	switch {
	case in.leaves():
		want.Spec.Destinations = nil
	case in.Cluster == inventory.Accepted:
		want.Spec.Destinations = []controlv1alpha1.Destination{{ClusterID: in.Package.Repository}}
	}
	switch {
	case stored == nil:
		return Plan{Create: want}
	case apiequality.Semantic.DeepEqual(stored.Spec, want.Spec) && maps.Equal(stored.Labels, want.Labels):
		return Plan{}
	}
	return Plan{Update: want, TakesBack: takesBack(in, latest)}
}

// releaseLeaving returns the plan for a Binding whose Repository does not exist: the Binding stays
// unchanged, except that it loses its destination if the cluster is leaving or drained. The hub
// waits for the works of a leaving cluster, and its Repository will not be re-created.
func releaseLeaving(in *Input) Plan {
	if in.Stored == nil || !in.leaves() || len(in.Stored.Spec.Destinations) == 0 {
		return Plan{}
	}
	want := in.Stored.DeepCopy()
	want.TypeMeta = bindingType()
	want.Spec.Destinations = nil
	return Plan{Update: want}
}

func bindingType() metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: controlv1alpha1.GroupVersion.String(), Kind: "Binding"}
}

func setPackage(b *controlv1alpha1.Binding, p Package) {
	b.Labels, b.Annotations = maps.Clone(b.Labels), maps.Clone(b.Annotations)
	if b.Labels == nil {
		b.Labels = map[string]string{}
	}
	if b.Annotations == nil {
		b.Annotations = map[string]string{}
	}
	b.Labels[controlv1alpha1.LabelPackageNamespace] = p.Namespace
	b.Labels[controlv1alpha1.LabelPackageRepository] = p.Repository
	b.Annotations[controlv1alpha1.AnnotationPackage] = p.Name
}

// Conditions returns Delivered, Applied and Healthy of a package, computed from its Binding, with
// the generation of the object that shows them and without times. It returns none if nothing is
// delivered: if latest or the Binding is nil.
func Conditions(b *controlv1alpha1.Binding, latest *storev1alpha1.PackageRevision, generation int64) []metav1.Condition {
	if b == nil || latest == nil || len(b.Spec.Workload.Packages) == 0 {
		return nil
	}
	condition := func(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: generation}
	}
	notYet := func(reason, message string) []metav1.Condition {
		return []metav1.Condition{
			condition(controlv1alpha1.BindingConditionDelivered, metav1.ConditionFalse, reason, message),
			condition(controlv1alpha1.BindingConditionApplied, metav1.ConditionFalse, controlv1alpha1.ReasonNotDelivered, "see condition "+controlv1alpha1.BindingConditionDelivered),
			condition(controlv1alpha1.BindingConditionHealthy, metav1.ConditionFalse, controlv1alpha1.ReasonNotApplied, "see condition "+controlv1alpha1.BindingConditionApplied),
		}
	}
	delivered := &b.Spec.Workload.Packages[0]
	switch {
	case delivered.Name != latest.Name || delivered.Digest != latest.Content.Digest,
		b.DeletionTimestamp == nil && (b.Status.ObservedGeneration != b.Generation || len(b.Status.Conditions) == 0):
		return notYet(controlv1alpha1.ReasonDelivering, fmt.Sprintf("Binding %s: revision %s is being delivered", b.Name, shown(latest)))
	case len(b.Spec.Destinations) == 0:
		return notYet(configv1alpha1.ReasonClusterGone, fmt.Sprintf("Binding %s: cluster %s no longer exists, or is drained", b.Name, delivered.Repository))
	}
	var all []metav1.Condition
	for _, kind := range []string{controlv1alpha1.BindingConditionDelivered, controlv1alpha1.BindingConditionApplied, controlv1alpha1.BindingConditionHealthy} {
		for i := range b.Status.Conditions {
			if c := &b.Status.Conditions[i]; c.Type == kind {
				all = append(all, condition(kind, c.Status, c.Reason, text.Clip("Binding "+b.Name+": "+c.Message+details(b, c), maxMessage)))
			}
		}
	}
	return all
}

// shown returns how users name a revision.
func shown(r *storev1alpha1.PackageRevision) string {
	if v := version.Of(r); v.Tag != "" {
		return v.Tag
	}
	return strconv.Itoa(r.Spec.Revision)
}

// maxMessage bounds the message of a condition.
const maxMessage = 1024

// details returns the first errors or problems to which a condition of a Binding refers, by its
// reason.
func details(b *controlv1alpha1.Binding, c *metav1.Condition) string {
	var list []string
	switch c.Reason {
	case controlv1alpha1.ReasonFailed, controlv1alpha1.ReasonConflict:
		list = b.Status.Errors
	case controlv1alpha1.ReasonUnhealthy:
		list = b.Status.Problems
	}
	if len(list) == 0 {
		return ""
	}
	const shown = 3
	return ": " + strings.Join(text.Bound(list, shown), "; ")
}
