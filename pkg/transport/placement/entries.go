package placement

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/options"
)

// entry is an object that a Binding lists.
type entry struct {
	ref        objref.Ref
	version    string
	namespaced bool
	createOnly bool
}

// entriesOf returns the objects that a Binding lists, each once.
func entriesOf(binding *controlv1alpha1.Binding) []entry {
	workload := &binding.Spec.Workload
	entries := make([]entry, 0, len(workload.ClusterScope)+len(workload.NamespaceScope))
	seen := make(map[objref.Ref]struct{}, cap(entries))
	add := func(e entry) {
		if _, twice := seen[e.ref]; !twice {
			seen[e.ref] = struct{}{}
			entries = append(entries, e)
		}
	}
	for i := range workload.ClusterScope {
		o := &workload.ClusterScope[i]
		add(entry{
			ref: objref.Ref{Group: o.Group, Resource: o.Resource, Name: o.Name}, version: o.Version, createOnly: o.CreateOnly,
		})
	}
	for i := range workload.NamespaceScope {
		add(namespaced(&workload.NamespaceScope[i]))
	}
	return entries
}

func namespaced(o *controlv1alpha1.NamespaceScopeDownsyncClause) entry {
	return entry{
		ref: objref.Ref{Group: o.Group, Resource: o.Resource, Namespace: o.Namespace, Name: o.Name}, version: o.Version,
		namespaced: true, createOnly: o.CreateOnly,
	}
}

// autoscalersIn returns the autoscalers that these Bindings list; nothing is delivered for one that
// is being deleted.
func autoscalersIn(bindings []*controlv1alpha1.Binding) (entries []entry) {
	for _, b := range bindings {
		for i := range b.Spec.Workload.NamespaceScope {
			if e := namespaced(&b.Spec.Workload.NamespaceScope[i]); b.DeletionTimestamp == nil && options.IsAutoscaler(e.ref) {
				entries = append(entries, e)
			}
		}
	}
	return entries
}

// listedTwice says which objects a Binding lists more than once. The API server accepts that.
func listedTwice(binding *controlv1alpha1.Binding) (problems []string) {
	times := map[objref.Ref]int{}
	for e := range match.Entries(&binding.Spec) {
		times[e.Ref]++
		if times[e.Ref] == 2 {
			problems = append(problems, e.Ref.String()+": is listed twice by the Binding. The first entry counts; remove the other one")
		}
	}
	return problems
}

// SourceOf names where the content of a Binding comes from. One source delivers one content of each
// object. All objects of the WDS are one source, named "", and each Binding with packages is a
// source of its own.
func SourceOf(binding *controlv1alpha1.Binding) string {
	if len(binding.Spec.Workload.Packages) == 0 {
		return ""
	}
	first := &binding.Spec.Workload.Packages[0]
	return fmt.Sprintf("package %s/%s/%s", first.Namespace, first.Repository, first.Package)
}

// policyOf returns the UID of the policy of a Binding, "" if it has none.
func policyOf(binding *controlv1alpha1.Binding) types.UID {
	if owner := metav1.GetControllerOfNoCopy(binding); owner != nil && owner.Kind == "BindingPolicy" {
		return owner.UID
	}
	return ""
}
