package binding

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/starlinghq/starling/test/testenv"
)

// convertingCRD defines Widgets with a conversion webhook that does not exist. They are stored in
// that version.
func convertingCRD(stored string) map[string]any {
	spec := widgetCRD("v1alpha1", "v1")
	for _, version := range spec["versions"].([]any) { //nolint:forcetypeassert // see widgetCRD
		fields := version.(map[string]any) //nolint:forcetypeassert // see widgetCRD
		fields["storage"] = fields["name"] == stored
	}
	spec["conversion"] = map[string]any{"strategy": "Webhook", "webhook": map[string]any{
		"conversionReviewVersions": []any{"v1"},
		"clientConfig":             map[string]any{"service": map[string]any{"namespace": "nowhere", "name": "convert"}},
	}}
	return spec
}

// updateWidgets changes the CustomResourceDefinition of Widgets.
func (e *environment) updateWidgets(change func(crd *unstructured.Unstructured)) {
	e.t.Helper()
	space := e.fleet.Space(e.t, "wds1")
	testenv.Eventually(e.t, patience, func() (bool, string) {
		crd := space.Get(e.t, crds, "", "widgets.binding.example.com")
		change(crd)
		_, err := e.wds.Resource(crds).Update(e.t.Context(), crd, metav1.UpdateOptions{})
		return err == nil, fmt.Sprint(err)
	})
}

// TestBrokenKindStopsNothingElse: a kind whose objects cannot be read concerns the policies that
// list such objects, or that name it. All others, and all other objects, go on, also after a
// restart.
func TestBrokenKindStopsNothingElse(t *testing.T) {
	e := newEnvironment(t)
	e.cluster(e.name, map[string]string{"test": e.name})
	crd := object("", "widgets.binding.example.com", nil)
	crd.Object["spec"] = convertingCRD("v1alpha1")
	e.create(crds, crd)
	alpha := widgets
	alpha.Version = "v1alpha1"
	e.fleet.Space(t, "wds1").Served(t, alpha)
	e.create(alpha, object(e.name, "a", nil))
	e.create(configMaps, object(e.name, "one", map[string]string{"of": e.name}))

	c := e.start()
	selector := fmt.Sprintf(`"clusterSelectors":[{"matchLabels":{"test":%q}}]`, e.name)
	all := e.policy("all", fmt.Sprintf(`{%s,"downsync":[{"namespaces":[%q]}]}`, selector, e.name))
	labelled := e.policy("labelled", fmt.Sprintf(`{%s,"downsync":[{"objectSelectors":[{"matchLabels":{"of":%q}}]}]}`, selector, e.name))
	other := e.policy("other", fmt.Sprintf(`{%s,"downsync":[{"resources":["configmaps"],"namespaces":[%q]}]}`, selector, e.name))
	e.eventuallyBound(all, "configmaps one", "widgets a", "-> "+e.name)
	e.eventuallyBound(labelled, "configmaps one", "-> "+e.name)
	e.eventuallyCondition(all, synced, "True Synced")

	// From now on, the API server would have to convert Widget a.
	e.updateWidgets(func(crd *unstructured.Unstructured) { crd.Object["spec"] = convertingCRD("v1") })
	broken := func() {
		t.Helper()
		for policy, want := range map[string]struct{ condition, message string }{
			all: {"Unknown NotObserved", "cannot be read, existing entries are kept and later changes are not delivered: widgets.binding.example.com (conversion webhook for " +
				`binding.example.com/v1alpha1, Kind=Widget failed`},
			labelled: {"True Synced", "objects that cannot be read are not delivered: widgets.binding.example.com (conversion webhook for"},
			other:    {"True Synced", ""},
		} {
			testenv.Eventually(t, patience, func() (bool, string) {
				message := e.eventuallyCondition(policy, synced, want.condition)
				return strings.HasPrefix(message, want.message), fmt.Sprintf("%s: %q", policy, message)
			})
		}
		if message := e.eventuallyCondition(other, synced, "True Synced"); message != "" {
			t.Errorf("a policy that cannot select Widgets says %q", message)
		}
	}
	broken()
	e.create(widgets, object(e.name, "c", nil))
	e.create(configMaps, object(e.name, "two", map[string]string{"of": e.name}))
	e.eventuallyBound(all, "configmaps one", "configmaps two", "widgets a", "-> "+e.name)
	e.eventuallyBound(labelled, "configmaps one", "configmaps two", "-> "+e.name)
	// What leaves is confirmed, kind by kind.
	e.patch(configMaps, e.name, "one", `{"metadata":{"labels":null}}`)
	e.eventuallyBound(labelled, "configmaps two", "-> "+e.name)

	c.stop()
	c = e.start()
	e.ready(c)
	e.create(configMaps, object(e.name, "three", map[string]string{"of": e.name}))
	e.eventuallyBound(all, "configmaps one", "configmaps three", "configmaps two", "widgets a", "-> "+e.name)
	e.eventuallyBound(labelled, "configmaps three", "configmaps two", "-> "+e.name)
	broken()

	e.updateWidgets(func(crd *unstructured.Unstructured) {
		spec := convertingCRD("v1")
		spec["conversion"] = map[string]any{"strategy": "None"}
		crd.Object["spec"] = spec
	})
	e.eventuallyBound(all, "configmaps one", "configmaps three", "configmaps two", "widgets a", "widgets c", "-> "+e.name)
	for _, policy := range []string{all, labelled, other} {
		if message := e.eventuallyCondition(policy, synced, "True Synced"); message != "" {
			testenv.Eventually(t, patience, func() (bool, string) {
				message := e.eventuallyCondition(policy, synced, "True Synced")
				return message == "", fmt.Sprintf("%s: %q", policy, message)
			})
		}
	}
}

// TestAPIThatNeverResponds: an APIService whose server is not in the WDS is named by the policies
// that could select its objects. It keeps none of them from being Ready, unless they name it.
func TestAPIThatNeverResponds(t *testing.T) {
	e := newEnvironment(t)
	e.cluster(e.name, map[string]string{"test": e.name})
	e.create(configMaps, object(e.name, "one", map[string]string{"of": e.name}))
	group := e.name + ".example.org"
	api := object("", "v1beta1."+group, nil)
	api.Object["spec"] = map[string]any{
		"group": group, "version": "v1beta1", "groupPriorityMinimum": int64(100), "versionPriority": int64(100),
		"insecureSkipTLSVerify": true, "service": map[string]any{"namespace": e.name, "name": "adapter"},
	}
	e.create(apiServices, api)

	c := e.start()
	selector := fmt.Sprintf(`"clusterSelectors":[{"matchLabels":{"test":%q}}]`, e.name)
	labelled := e.policy("labelled", fmt.Sprintf(`{%s,"downsync":[{"objectSelectors":[{"matchLabels":{"of":%q}}]}]}`, selector, e.name))
	naming := e.policy("naming", fmt.Sprintf(`{%s,"downsync":[{"apiGroup":%q}]}`, selector, group))
	other := e.policy("other", fmt.Sprintf(`{%s,"downsync":[{"apiGroup":"","namespaces":[%q]}]}`, selector, e.name))
	e.eventuallyBound(labelled, "configmaps one", "-> "+e.name)
	named := "API group " + group + " (its API server does not respond)"
	testenv.Eventually(t, patience, func() (bool, string) {
		message := e.eventuallyCondition(labelled, synced, "True Synced")
		return strings.Contains(message, named), message
	})
	if message := e.eventuallyCondition(naming, synced, "Unknown NotObserved"); !strings.Contains(message, named) {
		t.Errorf("the policy that names the API says %q", message)
	}
	if message := e.eventuallyCondition(other, synced, "True Synced"); message != "" {
		t.Errorf("the policy that cannot select its objects says %q", message)
	}
	e.ready(c)
}
