package deploy

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/inventory"
)

// Package is a package in a Repository.
type Package struct{ Namespace, Repository, Name string }

// String names the package as users write it.
func (p Package) String() string { return p.Namespace + "/" + p.Repository + "/" + p.Name }

// BindingName returns the name of the Binding of a package: what people know it by, and a hash that tells it from all others. A new
// revision has the same.
func BindingName(p Package) string {
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

// PackageOf returns the package that a Binding was made for; ok is false if it was made for none.
func PackageOf(b *controlv1alpha1.Binding) (p Package, ok bool) {
	p = Package{
		Namespace:  b.Labels[controlv1alpha1.LabelPackageNamespace],
		Repository: b.Labels[controlv1alpha1.LabelPackageRepository],
		Name:       b.Annotations[controlv1alpha1.AnnotationPackage],
	}
	return p, p.Name != "" && b.Name == BindingName(p)
}

// Latest returns the revision of a package that goes to clusters: the published one with the highest number; nil if none is
// published. One that is proposed for deletion is published until it is really deleted; what is deleted and has finalizers does not come
// back, and its tag in git may hold it for long.
func Latest(revisions []*storev1alpha1.PackageRevision) *storev1alpha1.PackageRevision {
	var latest *storev1alpha1.PackageRevision
	for _, r := range revisions {
		if !r.Spec.Lifecycle.Published() || r.Spec.Revision < 1 || r.DeletionTimestamp != nil {
			continue
		}
		// Two of one number may come from a backup. Whichever it is, it must be the same one each time.
		if latest == nil || cmp.Or(cmp.Compare(r.Spec.Revision, latest.Spec.Revision), cmp.Compare(r.Name, latest.Name)) > 0 {
			latest = r
		}
	}
	return latest
}

// BindingInput is all that the Binding of a package follows from. All of it has been read.
type BindingInput struct {
	Package Package
	// Revisions are those of the package, in any order.
	Revisions []*storev1alpha1.PackageRevision
	// Repository is that of the package; nil if there is none.
	Repository *configv1alpha1.Repository
	// Cluster is what is known of the cluster of the Repository's name.
	Cluster inventory.State
	// Stored is the Binding of that name; nil if there is none.
	Stored *controlv1alpha1.Binding
}

// BindingPlan is what is to be written; mostly nothing.
type BindingPlan struct {
	Create, Update *controlv1alpha1.Binding
	Delete         bool
	// Taken tells that somebody else has a Binding of that name.
	Taken bool
}

// TakesBack tells whether what the stored Binding carries goes, or an older revision comes in its place.
func (p *BindingPlan) TakesBack(stored *controlv1alpha1.Binding) bool {
	if stored == nil || len(stored.Spec.Workload.Packages) == 0 {
		return false
	}
	return p.Delete || p.Update != nil && p.Update.Spec.Workload.Packages[0].Revision < stored.Spec.Workload.Packages[0].Revision
}

// PlanBinding returns what is to be done about the Binding of a package.
//
// It goes when no revision is published any more, or when somebody said that nothing is deployed from the Repository. It loses its
// destination only if the cluster is seen to be on its way out; with a cluster that is gone, or not known, all stays as it is.
func PlanBinding(in *BindingInput) BindingPlan {
	stored := in.Stored
	switch {
	case stored == nil:
	case stored.Annotations[controlv1alpha1.AnnotationPackage] != in.Package.Name: // labels that somebody took away come back
		return BindingPlan{Taken: true}
	case stored.DeletionTimestamp != nil:
		return BindingPlan{} // made anew when it is gone
	}
	latest := Latest(in.Revisions)
	switch {
	case latest == nil, in.Repository != nil && !in.Repository.Spec.Deployment:
		return BindingPlan{Delete: stored != nil}
	case in.Repository == nil: // tools delete Repositories and make them anew
		return leave(in)
	case stored == nil && in.Cluster != inventory.Accepted:
		return BindingPlan{} // nowhere to go
	}
	// The transport would add its finalizer with a write of its own before it delivers anything.
	want := &controlv1alpha1.Binding{ObjectMeta: metav1.ObjectMeta{Name: BindingName(in.Package), Finalizers: []string{controlv1alpha1.BindingFinalizer}}}
	if stored != nil {
		want = stored.DeepCopy()
	}
	want.TypeMeta = bindingType()
	mark(want, in.Package)
	want.Spec.Workload = controlv1alpha1.DownsyncObjectClauses{Packages: []controlv1alpha1.PackageClause{{
		Namespace: in.Package.Namespace, Repository: in.Package.Repository, Package: in.Package.Name,
		Revision: latest.Spec.Revision, Name: latest.Name, Digest: latest.Content.Digest,
	}}}
	switch in.Cluster {
	case inventory.Accepted:
		want.Spec.Destinations = []controlv1alpha1.Destination{{ClusterID: in.Package.Repository}}
	case inventory.Leaving:
		want.Spec.Destinations = nil
	case inventory.Absent, inventory.Unknown:
	}
	switch {
	case stored == nil:
		return BindingPlan{Create: want}
	case apiequality.Semantic.DeepEqual(stored.Spec, want.Spec) && maps.Equal(stored.Labels, want.Labels):
		return BindingPlan{}
	}
	return BindingPlan{Update: want}
}

// leave has a Binding whose Repository is gone stay as it is, but for a cluster that is on its way out: its hub waits for the works, and no
// Repository would come for it.
func leave(in *BindingInput) BindingPlan {
	if in.Stored == nil || in.Cluster != inventory.Leaving || len(in.Stored.Spec.Destinations) == 0 {
		return BindingPlan{}
	}
	want := in.Stored.DeepCopy()
	want.TypeMeta = bindingType()
	want.Spec.Destinations = nil
	return BindingPlan{Update: want}
}

func bindingType() metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: controlv1alpha1.GroupVersion.String(), Kind: "Binding"}
}

func mark(b *controlv1alpha1.Binding, p Package) {
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

// Conditions returns what a Binding says of the package that it carries, for whoever keeps the package: Delivered, Applied and Healthy, at
// the generation of that one and without times. None, where nothing is carried: latest is nil then, or the Binding.
func Conditions(b *controlv1alpha1.Binding, latest *storev1alpha1.PackageRevision, generation int64) []metav1.Condition {
	if b == nil || latest == nil || len(b.Spec.Workload.Packages) == 0 {
		return nil
	}
	say := func(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: generation}
	}
	notYet := func(reason, message string) []metav1.Condition {
		return []metav1.Condition{
			say(controlv1alpha1.BindingConditionDelivered, metav1.ConditionFalse, reason, message),
			say(controlv1alpha1.BindingConditionApplied, metav1.ConditionFalse, controlv1alpha1.ReasonNotDelivered, "see condition "+controlv1alpha1.BindingConditionDelivered),
			say(controlv1alpha1.BindingConditionHealthy, metav1.ConditionFalse, controlv1alpha1.ReasonNotApplied, "see condition "+controlv1alpha1.BindingConditionApplied),
		}
	}
	carried := &b.Spec.Workload.Packages[0]
	switch {
	case carried.Name != latest.Name || carried.Digest != latest.Content.Digest,
		b.DeletionTimestamp == nil && (b.Status.ObservedGeneration != b.Generation || len(b.Status.Conditions) == 0):
		return notYet(controlv1alpha1.ReasonDelivering, fmt.Sprintf("Binding %s: revision %d is under way", b.Name, latest.Spec.Revision))
	case len(b.Spec.Destinations) == 0:
		return notYet(configv1alpha1.ReasonClusterGone, fmt.Sprintf("Binding %s: the cluster %s is gone", b.Name, carried.Repository))
	}
	var all []metav1.Condition
	for _, kind := range []string{controlv1alpha1.BindingConditionDelivered, controlv1alpha1.BindingConditionApplied, controlv1alpha1.BindingConditionHealthy} {
		for i := range b.Status.Conditions {
			if c := &b.Status.Conditions[i]; c.Type == kind {
				all = append(all, say(kind, c.Status, c.Reason, clip("Binding "+b.Name+": "+c.Message+details(b, c))))
			}
		}
	}
	return all
}

// details returns the first of the texts that a condition of a Binding refers to.
func details(b *controlv1alpha1.Binding, c *metav1.Condition) string {
	texts := b.Status.Errors
	if c.Type == controlv1alpha1.BindingConditionHealthy {
		texts = b.Status.Problems
	}
	const few = 3
	if c.Status == metav1.ConditionTrue || !strings.Contains(c.Message, "see status.") || len(texts) == 0 {
		return ""
	}
	text := ": " + strings.Join(texts[:min(few, len(texts))], "; ")
	if len(texts) > few {
		text += fmt.Sprintf("; … and %d more", len(texts)-few)
	}
	return text
}

// clip bounds a message.
func clip(text string) string {
	const limit = 1024
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit-len("…")], "") + "…"
}
