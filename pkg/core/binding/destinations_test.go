package binding

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
)

// TestNoDestinations: a policy that selects no clusters or no objects is not Ready, whatever the
// transport reports of its Binding, and no event says that it is. The texts name the clusters that
// match and are not accepted, or are drained.
func TestNoDestinations(t *testing.T) {
	const accept = "Accept it with: kubectl starling cluster accept edge1"
	const undrain = "Deliver to it again with: kubectl starling cluster undrain edge2"
	cases := map[string]struct {
		selectors  int
		clusters   []string
		pending    []string
		drained    []string
		noObjects  bool
		wantReady  string
		wantSynced string
		wantEvent  string
	}{
		"Accepted":     {1, []string{"core"}, nil, nil, false, "True Applied: 1 object for 1 cluster", "", "Normal Ready"},
		"Pending":      {1, nil, []string{"edge1"}, nil, false, "False NoDestinations: no destinations: 1 cluster matches but is not accepted (edge1). " + accept, accept, "Warning NoDestinations"},
		"SomePending":  {1, []string{"core"}, []string{"edge1"}, nil, false, "True Applied: 1 object for 1 cluster", accept, "Normal Ready"},
		"NoneMatches":  {1, nil, nil, nil, false, "False NoDestinations: no destinations: no accepted cluster matches", "no destinations: no accepted cluster", "Warning NoDestinations"},
		"NoneSelected": {0, nil, nil, nil, false, "False NoDestinations: no destinations: spec.clusterSelectors is empty", "no destinations: spec.clusterSelectors is empty", "Warning NoDestinations"},
		"Drained":      {1, nil, nil, []string{"edge2"}, false, "False NoDestinations: no destinations: 1 cluster matches but is drained (edge2). " + undrain, undrain, "Warning NoDestinations"},
		"SomeDrained":  {1, []string{"core"}, nil, []string{"edge2"}, false, "True Applied: 1 object for 1 cluster", "1 cluster matches but is drained (edge2). " + undrain, "Normal Ready"},
		"Both":         {1, nil, []string{"edge1"}, []string{"edge2"}, false, "False NoDestinations: no destinations: 1 cluster matches but is not accepted (edge1). " + accept + "; 1 cluster", undrain, "Warning NoDestinations"},
		"NoObjects":    {1, []string{"core"}, nil, nil, true, "False NoObjects: no objects: nothing in the WDS matches spec.downsync", "no objects", "Normal NoObjects"},
		"Neither":      {1, nil, nil, nil, true, "False NoDestinations: no destinations: no accepted cluster matches", "no objects: nothing in the WDS matches spec.downsync; no destinations", "Warning NoDestinations"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := someState("a")
			s.Policy.Spec.ClusterSelectors = make([]metav1.LabelSelector, tc.selectors)
			s.Pending, s.Drained = tc.pending, tc.drained
			s.First = someBinding("a")
			s.First.Spec.Destinations = nil
			for _, cluster := range tc.clusters {
				s.First.Spec.Destinations = append(s.First.Spec.Destinations, controlv1alpha1.Destination{ClusterID: cluster})
			}
			if tc.noObjects {
				s.First.Spec.Workload = controlv1alpha1.DownsyncObjectClauses{}
			}
			meta.SetStatusCondition(&s.First.Status.Conditions, metav1.Condition{
				Type: controlv1alpha1.BindingConditionApplied, Status: metav1.ConditionTrue, Reason: "Applied", Message: "1 object for 1 cluster",
			})
			status, _ := Status(s, &Decision{}, Result{Bindings: []*controlv1alpha1.Binding{s.First}})
			ready := meta.FindStatusCondition(status.Conditions, controlv1alpha1.BindingPolicyConditionReady)
			if got := string(ready.Status) + " " + ready.Reason + ": " + ready.Message; !strings.HasPrefix(got, tc.wantReady) {
				t.Errorf("Ready is %s, want %s", got, tc.wantReady)
			}
			synced := meta.FindStatusCondition(status.Conditions, controlv1alpha1.BindingPolicyConditionSynced)
			if synced.Status != metav1.ConditionTrue || !strings.Contains(synced.Message, tc.wantSynced) {
				t.Errorf("Synced is %s: %s, want True: %s", synced.Status, synced.Message, tc.wantSynced)
			}
			var events []string
			for _, e := range Events(nil, status.Conditions) {
				events = append(events, e.Type+" "+e.Reason)
			}
			if got := strings.Join(events, ", "); got != tc.wantEvent {
				t.Errorf("events %q, want %q", got, tc.wantEvent)
			}
		})
	}
}
