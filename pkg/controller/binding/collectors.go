package binding

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
)

// Collectors tells which StatusCollectors there are. It does not block.
type Collectors interface {
	// Missing returns which of those names are not there, and which have errors; known is false as long as not all were read.
	Missing(names []string) (missing, invalid []string, known bool)
}

// collectors is what a policy says of StatusCollectors, and what there is of them.
type collectors struct {
	named            bool
	missing, invalid []string
	known            bool
}

// UseCollectors has policies say whether their StatusCollectors are there. Without, the condition that says so stays as it is.
// Call it before Run.
func (r *Running) UseCollectors(c Collectors) { r.controller.collectors = c }

// OnCollector has the policies looked at that name a StatusCollector. It costs a look at all.
func (r *Running) OnCollector(name string) {
	c := r.controller
	for _, item := range c.config.Policies.GetStore().List() {
		if policy, ok := item.(*controlv1alpha1.BindingPolicy); ok && slices.Contains(collectorsIn(&policy.Spec), name) {
			c.queue.Add(policy.Name)
		}
	}
}

// PolicyUID returns the UID of a policy, false if there is none.
func (r *Running) PolicyUID(name string) (types.UID, bool) {
	if policy := r.controller.policy(name); policy != nil {
		return policy.UID, true
	}
	return "", false
}

// OnPolicyReplaced has another be told when a policy takes the place of one of its name. Call it before Run.
func (r *Running) OnPolicyReplaced(tell func(name string)) error {
	_, err := r.controller.config.Policies.AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(before, after any) {
			old, okOld := before.(*controlv1alpha1.BindingPolicy)
			current, okCurrent := after.(*controlv1alpha1.BindingPolicy)
			if okOld && okCurrent && old.UID != current.UID {
				tell(current.Name)
			}
		},
	})
	return err
}

// Serves tells whether the WDS serves a resource; see dynwatch.Discovery.
func (r *Running) Serves(group *string, resource string) (serves, known bool) {
	return r.discovery.Serves(group, resource)
}

// collectorsIn returns the names of the StatusCollectors that the policy names, sorted.
func collectorsIn(spec *controlv1alpha1.BindingPolicySpec) []string {
	var names []string
	for i := range spec.Downsync {
		names = append(names, spec.Downsync[i].StatusCollectors...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (c *Controller) collectorsOf(policy *controlv1alpha1.BindingPolicy) collectors {
	names := collectorsIn(&policy.Spec)
	of := collectors{named: len(names) > 0}
	if c.collectors != nil {
		of.missing, of.invalid, of.known = c.collectors.Missing(names)
	}
	return of
}

// setCollectors says whether the StatusCollectors are there, in the contract's words.
func setCollectors(conditions *[]metav1.Condition, of collectors, set func(metav1.Condition)) {
	if !of.named {
		meta.RemoveStatusCondition(conditions, controlv1alpha1.BindingPolicyConditionCollectors)
		return
	}
	if !of.known {
		return
	}
	c := metav1.Condition{
		Type: controlv1alpha1.BindingPolicyConditionCollectors, Status: metav1.ConditionTrue,
		Reason: controlv1alpha1.ReasonReconcileSuccess, Message: "All StatusCollector(s) are available",
	}
	var wrong []string
	if len(of.missing) > 0 {
		wrong = append(wrong, fmt.Sprintf("Missing StatusCollector(s) %s", bracketed(of.missing)))
	}
	if len(of.invalid) > 0 {
		wrong = append(wrong, fmt.Sprintf("StatusCollector(s) with errors, see their status.errors: %s", bracketed(of.invalid)))
	}
	if len(wrong) > 0 {
		c.Status, c.Reason = metav1.ConditionFalse, controlv1alpha1.ReasonReconcileError
		c.Message = strings.Join(wrong, "; ")
	}
	set(c)
}

// bracketed prints the first of some sorted names as the contract does.
func bracketed(names []string) string {
	const many = 64
	if more := len(names) - many; more > 0 {
		return fmt.Sprintf("%s … and %d more", names[:many], more)
	}
	return fmt.Sprint(names)
}
