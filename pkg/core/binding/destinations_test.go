package binding

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
)

// TestNoDestinations: a policy that selects no clusters is not Ready, whatever the transport
// reports of its Binding, and no event says that it is. A warning names the clusters that match and
// are not accepted.
func TestNoDestinations(t *testing.T) {
	const accept = "Accept it with: clusteradm accept --clusters edge1"
	cases := map[string]struct {
		selectors  int
		clusters   []string
		pending    []string
		wantReady  string
		wantSynced string
		wantEvent  string
	}{
		"Accepted":     {1, []string{"core"}, nil, "True Applied: 1 object for 1 cluster", "", "Normal Ready"},
		"Pending":      {1, nil, []string{"edge1"}, "False NoDestinations: no destinations: 1 cluster matches but is not accepted (edge1). " + accept, accept, "Warning NoDestinations"},
		"SomePending":  {1, []string{"core"}, []string{"edge1"}, "True Applied: 1 object for 1 cluster", accept, "Normal Ready"},
		"NoneMatches":  {1, nil, nil, "False NoDestinations: no destinations: no accepted cluster matches", "no destinations: no accepted cluster", "Warning NoDestinations"},
		"NoneSelected": {0, nil, nil, "False NoDestinations: no destinations: spec.clusterSelectors is empty", "no destinations: spec.clusterSelectors is empty", "Warning NoDestinations"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := someState("a")
			s.Policy.Spec.ClusterSelectors = make([]metav1.LabelSelector, tc.selectors)
			s.Pending = tc.pending
			s.First = someBinding("a")
			s.First.Spec.Destinations = nil
			for _, cluster := range tc.clusters {
				s.First.Spec.Destinations = append(s.First.Spec.Destinations, controlv1alpha1.Destination{ClusterID: cluster})
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
