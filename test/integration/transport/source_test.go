package transport

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/test/testenv"
)

var deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}

// deployment creates a Deployment and returns how a Binding lists it.
func (e *environment) deployment(name string, replicas int64) entry {
	e.t.Helper()
	labels := map[string]any{"app": name}
	e.create(deployments, e.name, name, map[string]any{"spec": map[string]any{
		"replicas": replicas,
		"selector": map[string]any{"matchLabels": labels},
		"template": map[string]any{
			"metadata": map[string]any{"labels": labels},
			"spec":     map[string]any{"containers": []any{map[string]any{"name": "c", "image": "example.com/none"}}},
		},
	}})
	return entry{resource: deployments, namespace: e.name, name: name}
}

// sources returns of which generations the Deployments in a mailbox say they are, by Binding: "-"
// for those that do not say it. Only works of the environment's WDS count.
func (e *environment) sources(mailbox string) string {
	e.t.Helper()
	said := map[string]string{}
	for _, work := range e.works(mailbox) {
		if work.DeletionTimestamp != nil || work.Labels[controlv1alpha1.LabelWDSUID] != string(e.wdsUID()) {
			continue
		}
		for i := range work.Spec.Workload.Manifests {
			var o unstructured.Unstructured
			if err := json.Unmarshal(work.Spec.Workload.Manifests[i].Raw, &o.Object); err != nil {
				e.t.Fatal(err)
			}
			if o.GetKind() != "Deployment" {
				continue
			}
			source, ok := o.GetAnnotations()["starling.io/source-generation"]
			if !ok {
				source = "-"
			}
			if generation, uid, found := strings.Cut(source, "/"); found {
				live, err := e.wds.Resource(deployments).Namespace(o.GetNamespace()).Get(e.t.Context(), o.GetName(), metav1.GetOptions{})
				if err == nil && string(live.GetUID()) == uid {
					source = generation
				}
			}
			said[strings.TrimPrefix(work.Annotations[controlv1alpha1.AnnotationBinding], e.name)] = fmt.Sprintf("%q", source)
		}
	}
	var lines []string
	for _, binding := range slices.Sorted(maps.Keys(said)) {
		lines = append(lines, binding+said[binding])
	}
	return strings.Join(lines, " ")
}

func (e *environment) expectSources(want string, mailboxes ...string) {
	e.t.Helper()
	for _, mailbox := range mailboxes {
		testenv.Eventually(e.t, patience, func() (bool, string) {
			got := e.sources(mailbox)
			return got == want, fmt.Sprintf("%s: %s in %s, want %s; status %+v", e.space, got, mailbox, want, statusOf(e.binding()))
		})
	}
}

// TestSourceGeneration: objects say of which object of the WDS they are, and of which generation,
// whether their status is asked for or not; that changes with edits and with nothing else.
func TestSourceGeneration(t *testing.T) {
	e := newEnvironment(t)
	sites := e.clusters(2)
	c := e.start(roomy)
	d := e.deployment("d", 1)
	asked := d
	asked.asks = true
	settings := e.configMap("settings", "1") // a kind without a generation
	settings.asks = true

	e.bind(sites, d, settings)
	e.expectSources(`"1"`, sites...)
	e.applied()
	c.reset()
	e.rebind(sites, asked, settings)
	e.applied()
	if got := c.made()["its1 patch manifestworks"]; got != 0 {
		t.Errorf("%d writes for an object that is asked for now, want none", got)
	}

	c.reset()
	e.patch(deployments, e.name, "d", `{"status":{"replicas":1,"conditions":[]}}`, "status")
	e.patch(deployments, e.name, "d", `{"metadata":{"labels":{"managed-by.kubestellar.io/multiwecstatus":"true","kubestellar.io/executing-count":"2"}}}`)
	e.patch(configMaps, e.name, "settings", `{"metadata":{"labels":{"managed-by.kubestellar.io/singletonstatus":"true","kubestellar.io/executing-count":"2"}}}`)
	quiet(t, c)

	e.patch(deployments, e.name, "d", `{"spec":{"replicas":2}}`)
	e.expectSources(`"2"`, sites...)
	e.applied()

	// A re-created object is another one, and its generation starts at 1 again.
	e.delete(deployments, e.name, "d")
	e.deployment("d", 2)
	e.expectSources(`"1"`, sites...)
	e.patch(deployments, e.name, "d", `{"spec":{"replicas":4}}`)
	e.expectSources(`"2"`, sites...)
	e.applied()

	// Another Binding, which does not ask, delivers the same.
	e.create(bindings, "", e.name+"-other", map[string]any{"spec": spec(sites[:1], d)})
	e.expectSources(`"2" -other"2"`, sites[0])
	e.patch(deployments, e.name, "d", `{"spec":{"replicas":3}}`)
	e.expectSources(`"3" -other"3"`, sites[0])
	e.expectSources(`"3"`, sites[1])
	e.applied()
	(&environment{t: t, fleet: e.fleet, wds: e.wds, its: e.its, space: e.space, name: e.name + "-other", agent: e.agent}).applied()
	e.reported(c, sites)
	c.stop()
	c = e.start(roomy)
	quiet(t, c)

	e.rebind(nil) // it is not listed any more
	e.expectSources(`-other"3"`, sites[0])
}

// TestSourceGenerationOfTwoWDSes: two that deliver the same are in no conflict because their
// generations differ, and do not overwrite each other's.
func TestSourceGenerationOfTwoWDSes(t *testing.T) {
	first := newEnvironment(t)
	second := first.neighbour()
	sites := first.clusters(1)
	a, b := first.start(roomy), second.start(roomy)
	d := first.deployment("d", 1)
	d.asks = true
	first.bind(sites, d)
	first.expectSources(`"1"`, sites[0])
	first.applied()
	first.expectOlder(sites[0])

	second.deployment("d", 5)
	second.patch(deployments, second.name, "d", `{"spec":{"replicas":1}}`)
	second.bind(sites, d)
	for _, e := range []*environment{first, second} {
		e.expectSources(`""`, sites[0])
		e.expectErrors()
		e.applied()
	}
	a.reset()
	b.reset()
	quiet(t, a)
	quiet(t, b)

	// Content that differs is a conflict all the same.
	second.patch(deployments, second.name, "d", `{"spec":{"replicas":2}}`)
	first.expectSources(`"1"`, sites[0])
	first.expectCondition(controlv1alpha1.BindingConditionDelivered, "True", controlv1alpha1.ReasonDelivered)
	testenv.Eventually(t, patience, func() (bool, string) {
		errs := second.binding().Status.Errors
		return len(errs) == 1 && strings.Contains(errs[0], "with different content"), fmt.Sprint(errs)
	})
	second.patch(deployments, second.name, "d", `{"spec":{"replicas":1}}`)
	first.expectSources(`""`, sites[0])
	second.expectErrors()

	second.delete(bindings, "", second.name)
	testenv.Eventually(t, patience, func() (bool, string) { return second.binding() == nil, "the Binding is there" })
	first.expectSources(`"1"`, sites[0])
	first.applied()
}
