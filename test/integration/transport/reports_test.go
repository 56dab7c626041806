package transport

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/test/testenv"
)

// TestWhatClustersSay brings the errors of clusters into the status of the Binding, and nothing of
// a Secret.
func TestWhatClustersSay(t *testing.T) {
	e := newEnvironment(t)
	sites := e.clusters(2)
	e.start(roomy)
	e.create(secrets, e.name, "key", map[string]any{"stringData": map[string]any{"password": "hunter2"}})
	e.agent.set(func(a *agent) {
		a.fails = func(manifest string) string {
			switch {
			case strings.HasPrefix(manifest, "Secret"):
				return `Secret "key" is invalid: data[password]: Invalid value: "hunter2"`
			case strings.HasPrefix(manifest, "ConfigMap"):
				return "admission webhook says no"
			}
			return ""
		}
	})
	e.bind(sites, entry{resource: secrets, namespace: e.name, name: "key"}, e.configMap("one", "1"))
	b := e.expectCondition(controlv1alpha1.BindingConditionApplied, metav1.ConditionFalse, controlv1alpha1.ReasonFailed)
	testenv.Eventually(t, patience, func() (bool, string) {
		b = e.binding()
		return len(b.Status.Errors) == 4, fmt.Sprintf("%+v", b.Status)
	})
	want := []string{
		sites[0] + ": configmaps " + e.name + "/one: admission webhook says no",
		sites[0] + ": secrets " + e.name + "/key: AppliedManifestFailed (text withheld: the object is a Secret)",
		sites[1] + ": configmaps " + e.name + "/one: admission webhook says no",
		sites[1] + ": secrets " + e.name + "/key: AppliedManifestFailed (text withheld: the object is a Secret)",
	}
	if !slices.Equal(b.Status.Errors, want) {
		t.Errorf("errors %q, want %q", b.Status.Errors, want)
	}
	e.expectCondition(controlv1alpha1.BindingConditionDelivered, metav1.ConditionTrue, controlv1alpha1.ReasonDelivered)

	// A new Binding of it does not take the error back for a moment, and writes it once.
	e.agent.set(func(a *agent) { a.fails = func(string) string { return "" } })
	b = e.applied()
	if len(b.Status.Errors) != 0 {
		t.Errorf("errors %q, want none", b.Status.Errors)
	}
}

// TestWhatPassesIsNudged lets a namespace be gone again in the cluster after it was reported
// applied: the works are nudged until it is there, and it is no error meanwhile.
func TestWhatPassesIsNudged(t *testing.T) {
	e := newEnvironment(t)
	sites := e.clusters(1)
	e.start(roomy)
	e.agent.set(func(a *agent) {
		a.fails = func(manifest string) string {
			if strings.HasPrefix(manifest, "ConfigMap") {
				return `configmaps "one" is forbidden: unable to create new content in namespace x because it is being terminated`
			}
			return ""
		}
	})
	e.bind(sites, entry{resource: namespaces, name: e.name}, e.configMap("one", "1"))
	e.expectCondition(controlv1alpha1.BindingConditionApplied, metav1.ConditionFalse, controlv1alpha1.ReasonApplying)
	testenv.Eventually(t, patience, func() (bool, string) {
		works := e.works(sites[0])
		if len(works) != 2 {
			return false, "the second wave is not there"
		}
		first, second := works[0].Labels[controlv1alpha1.LabelNudge], works[1].Labels[controlv1alpha1.LabelNudge]
		return first >= "2" && second >= "2", fmt.Sprintf("nudges of the namespace's work %q, of the other %q", first, second)
	})
	if errs := e.binding().Status.Errors; len(errs) != 0 {
		t.Errorf("errors %q, want none yet", errs)
	}
	e.agent.set(func(a *agent) { a.fails = func(string) string { return "" } })
	e.applied()
	nudges := e.works(sites[0])[1].Labels[controlv1alpha1.LabelNudge]
	testenv.Never(t, 3*time.Second, func() string {
		if now := e.works(sites[0])[1].Labels[controlv1alpha1.LabelNudge]; now != nudges {
			return fmt.Sprintf("nudged again (%s, %s) after it was applied", nudges, now)
		}
		return ""
	})
}

// TestTheSecondWaveWaits until the first is there.
func TestTheSecondWaveWaits(t *testing.T) {
	e := newEnvironment(t)
	sites := e.clusters(2)
	e.start(roomy)
	e.agent.set(func(a *agent) { a.offline[sites[0]] = true })
	e.bind(sites, entry{resource: namespaces, name: e.name}, e.configMap("one", "1"))
	e.expectContents(sites[1], "ConfigMap "+e.name+"/one: 1", "Namespace "+e.name)
	b := e.expectCondition(controlv1alpha1.BindingConditionDelivered, metav1.ConditionFalse, controlv1alpha1.ReasonDelivering)
	testenv.Eventually(t, patience, func() (bool, string) {
		b = e.binding()
		return strings.HasPrefix(b.Status.Conditions[0].Message, "waiting until these are applied: "+sites[0]+": namespaces"), fmt.Sprintf("%+v", b.Status)
	})
	e.expectContents(sites[0], "Namespace "+e.name)
	e.agent.set(func(a *agent) { a.offline[sites[0]] = false })
	e.expectContents(sites[0], "ConfigMap "+e.name+"/one: 1", "Namespace "+e.name)
	e.applied()
}
