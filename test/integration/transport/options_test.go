package transport

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/test/testenv"
)

// strategies returns the delivery options of objects in the works of a Binding, as
// "one: CreateOnly orphan", sorted. Objects without options are not included.
func (e *environment) strategies(mailbox, binding string) []string {
	e.t.Helper()
	var all []string
	for _, work := range e.works(mailbox) {
		if work.Annotations[controlv1alpha1.AnnotationBinding] != binding || work.DeletionTimestamp != nil {
			continue
		}
		said := map[string]string{}
		for _, c := range work.Spec.ManifestConfigs {
			if c.ResourceIdentifier.Name == "*" { // objects without options
				continue
			}
			text := string(c.UpdateStrategy.Type)
			if apply := c.UpdateStrategy.ServerSideApply; apply != nil {
				if apply.Force {
					text += " force"
				}
				for _, rule := range c.FeedbackRules {
					staged, _ := plan.ParseStage(rule.JsonPaths[0].Name)
					text += fmt.Sprintf(" without %q by %s", staged.Stage.Left, apply.FieldManager)
				}
			}
			said[c.ResourceIdentifier.Name] = text
		}
		if work.Spec.DeleteOption != nil {
			for _, rule := range work.Spec.DeleteOption.SelectivelyOrphan.OrphaningRules {
				said[rule.Name] = strings.TrimSpace(said[rule.Name] + " orphan")
			}
		}
		for name, text := range said {
			all = append(all, name+": "+text)
		}
	}
	slices.Sort(all)
	return all
}

func (e *environment) expectStrategies(mailbox, binding string, want ...string) {
	e.t.Helper()
	testenv.Eventually(e.t, patience, func() (bool, string) {
		diff := cmp.Diff(want, e.strategies(mailbox, binding))
		return diff == "", fmt.Sprintf("%s in %s (-want +got):\n%s; status %+v", binding, mailbox, diff, statusOf(e.binding()))
	})
}

func TestOptions(t *testing.T) {
	e := newEnvironment(t)
	sites := e.clusters(2)
	c := e.start(roomy)
	one, two := e.configMap("one", "1"), e.configMap("two", "1")
	e.bind(sites, one, two)
	e.applied()
	step := func(what string, writes int) {
		t.Helper()
		if diff := cmp.Diff(map[string]int{"its1 patch manifestworks": writes}, c.inSpace("its1")); diff != "" {
			t.Errorf("%s: requests (-want +got):\n%s", what, diff)
		}
		c.reset()
	}
	expectAfter := func(writes int, what string, want ...string) {
		t.Helper()
		for _, site := range sites {
			e.expectStrategies(site, e.name, want...)
		}
		step(what, writes*len(sites))
	}
	expect := func(what string, want ...string) { t.Helper(); expectAfter(1, what, want...) }
	annotate := func(name, annotations string) {
		t.Helper()
		e.patch(configMaps, e.name, name, `{"metadata":{"annotations":{`+annotations+`}}}`)
	}
	all := func(annotations string) {
		t.Helper()
		e.patch(bindings, "", e.name, `{"metadata":{"annotations":{`+annotations+`}}}`)
	}
	c.reset()

	annotate("one", `"starling.io/apply":"server-side"`)
	expect("server-side", "one: ServerSideApply")
	e.reported(c, sites) // the stages of ignored fields begin with what a cluster has reported
	annotate("one", `"starling.io/apply":null,"starling.io/ignore-fields":".data.content","starling.io/on-removal":"orphan"`)
	expectAfter(2, "ignored fields", `one: ServerSideApply force without ".data.content" by work-agent orphan`)
	all(`"starling.io/apply":"create-only"`)
	expect("the whole Binding", `one: ServerSideApply force without ".data.content" by work-agent orphan`, "two: CreateOnly")
	e.applied()

	// A mistake is reported with its field, and the delivered object stays; others are not
	// affected.
	c.reset()
	annotate("one", `"starling.io/apply":"ssa"`)
	e.edit("two", "2")
	e.edit("one", "2")
	said := func(want ...string) {
		t.Helper()
		testenv.Eventually(t, patience, func() (bool, string) {
			diff := cmp.Diff(want, e.binding().Status.Errors)
			return diff == "", "errors of the Binding (-want +got):\n" + diff
		})
	}
	said("configmaps " + e.name + `/one: cannot be delivered: metadata.annotations[starling.io/apply]: "ssa" must be one of update, server-side, server-side-force, create-only`)
	e.expectContents(sites[0], "ConfigMap "+e.name+"/one", "ConfigMap "+e.name+"/two: 2")
	e.expectStrategies(sites[0], e.name, `one: ServerSideApply force without ".data.content" by work-agent orphan`, "two: CreateOnly")
	annotate("one", `"starling.io/apply":null,"starling.io/ignore-fields":null,"starling.io/on-removal":null`)
	e.expectStrategies(sites[0], e.name, "one: CreateOnly", "two: CreateOnly")
	all(`"starling.io/apply":"never"`)
	said(`metadata.annotations[starling.io/apply]: "never" must be one of update, server-side, server-side-force, create-only; every object stays as it was delivered until this is corrected`)
	e.edit("two", "3")
	testenv.Never(t, time.Second, func() string {
		if got := e.contents(sites[0]); !slices.Contains(got, "ConfigMap "+e.name+"/two: 2") {
			return fmt.Sprint(got)
		}
		return ""
	})
	c.stop()
	c = e.start(roomy)
	quiet(t, c)
	all(`"starling.io/apply":null`)
	for _, site := range sites {
		e.expectStrategies(site, e.name)
	}
	e.expectContents(sites[1], "ConfigMap "+e.name+"/one: 2", "ConfigMap "+e.name+"/two: 3")
	e.applied()
}

// TestOptionOfWhatLeaves: an option that is given together with the removal is in force in the
// clusters before the object leaves, if it is given by the Binding and if it is given by an object
// that is deleted at once.
func TestOptionOfWhatLeaves(t *testing.T) {
	e := newEnvironment(t)
	sites := e.clusters(1)
	c := e.start(roomy)
	one, two, three := e.configMap("one", "1"), e.configMap("two", "1"), e.configMap("three", "1")
	e.bind(sites, one, two, three)
	e.applied()
	keep := `"metadata":{"annotations":{"starling.io/on-removal":"orphan"}}`
	// left removes an object, and expects that its work was written twice: with the option, and
	// without the object.
	left := func(what string, remove func(), stay ...string) {
		t.Helper()
		c.reset()
		remove()
		e.expectContents(sites[0], stay...)
		if diff := cmp.Diff(map[string]int{"its1 patch manifestworks": 2}, c.inSpace("its1")); diff != "" {
			t.Errorf("%s: requests (-want +got):\n%s", what, diff)
		}
	}
	left("an object", func() {
		e.patch(configMaps, e.name, "one", "{"+keep+"}")
		e.delete(configMaps, e.name, "one")
		e.rebind(sites, two, three)
	}, "ConfigMap "+e.name+"/three: 1", "ConfigMap "+e.name+"/two: 1")
	e.applied()
	left("a Binding", func() {
		lists, err := json.Marshal(spec(sites, three))
		if err != nil {
			t.Fatal(err)
		}
		e.patch(bindings, "", e.name, "{"+keep+`,"spec":`+string(lists)+"}")
	}, "ConfigMap "+e.name+"/three: 1")
}

// TestOverlap: Bindings that deliver one object to one cluster deal with it alike there; elsewhere
// each as it says itself.
func TestOverlap(t *testing.T) {
	e := newEnvironment(t)
	sites := e.clusters(2)
	c := e.start(roomy)
	one, two := e.configMap("one", "1"), e.configMap("two", "1")
	e.bind(sites, one, two)
	e.applied()
	c.reset()
	other := e.name + "-other"
	createOnly := one
	createOnly.createOnly = true
	e.create(bindings, "", other, map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{"starling.io/on-removal": "orphan"}},
		"spec":     spec(sites[:1], createOnly),
	})
	e.expectStrategies(sites[0], other, "one: CreateOnly orphan")
	e.expectStrategies(sites[0], e.name, "one: CreateOnly orphan")
	e.expectStrategies(sites[1], e.name)
	if made := c.inSpace("its1"); made["its1 patch manifestworks"] != 1 || made["its1 post manifestworks"] != 1 {
		t.Errorf("requests %v, want one new work, and one write to its neighbour", made)
	}
	e.patch(bindings, "", e.name, `{"metadata":{"annotations":{"starling.io/apply":"server-side"}}}`)
	e.expectStrategies(sites[0], e.name, "one: CreateOnly orphan", "two: ServerSideApply")
	e.expectStrategies(sites[1], e.name, "one: ServerSideApply", "two: ServerSideApply")

	idle(t, c) // what clusters say of it is still on its way
	c.stop()
	c = e.start(roomy)
	quiet(t, c)

	e.patch(bindings, "", other, `{"metadata":{"annotations":{"starling.io/on-removal":null}}}`)
	e.expectStrategies(sites[0], e.name, "one: CreateOnly", "two: ServerSideApply")
	e.expectStrategies(sites[0], other, "one: CreateOnly")
	e.delete(bindings, "", other)
	e.expectStrategies(sites[0], e.name, "one: ServerSideApply", "two: ServerSideApply")
	e.patch(bindings, "", e.name, `{"metadata":{"annotations":null}}`)
	e.expectStrategies(sites[0], e.name)
	e.applied()
}

// TestListedTwice: an object that a Binding lists twice is delivered as the first entry says, the
// others are delivered too, and the Binding says so until it is corrected.
func TestListedTwice(t *testing.T) {
	e := newEnvironment(t)
	sites := e.clusters(1)
	e.start(roomy)
	one, two := e.configMap("one", "1"), e.configMap("two", "1")
	first := one
	first.createOnly = true
	e.bind(sites, first, one, two)
	status := e.expectCondition(controlv1alpha1.BindingConditionDelivered, metav1.ConditionFalse, controlv1alpha1.ReasonFailed).Status
	want := []string{"configmaps " + e.name + "/one: is listed twice by the Binding. The first entry counts; remove the other one"}
	if diff := cmp.Diff(want, status.Errors); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
	e.expectStrategies(sites[0], e.name, "one: CreateOnly")
	e.expectContents(sites[0], "ConfigMap "+e.name+"/one: 1", "ConfigMap "+e.name+"/two: 1")
	e.rebind(sites, one, two)
	e.expectStrategies(sites[0], e.name)
	e.applied()
}

func TestRulesOfKinds(t *testing.T) {
	e := newEnvironment(t)
	sites := e.clusters(1)
	e.start(roomy)
	deployments := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	autoscalers := schema.GroupVersionResource{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"}
	claims := schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}
	apply := func(resource schema.GroupVersionResource, name, text string) entry {
		t.Helper()
		force := true
		_, err := e.wds.Resource(resource).Namespace(e.name).Patch(t.Context(), name, types.ApplyPatchType,
			[]byte(strings.NewReplacer("$NAMESPACE", e.name, "$NAME", name).Replace(text)), metav1.PatchOptions{FieldManager: "test", Force: &force})
		if err != nil {
			t.Fatal(err)
		}
		return entry{resource: resource, namespace: e.name, name: name}
	}
	const deployment = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"$NAME","namespace":"$NAMESPACE"},"spec":{"replicas":2,
		"selector":{"matchLabels":{"app":"x"}},"template":{"metadata":{"labels":{"app":"x"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`
	scaled, free := apply(deployments, "scaled", deployment), apply(deployments, "free", deployment)
	hpa := apply(autoscalers, "hpa", `{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":{"name":"$NAME","namespace":"$NAMESPACE"},
		"spec":{"maxReplicas":5,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"scaled"}}}`)
	data := apply(claims, "data", `{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"$NAME","namespace":"$NAMESPACE"},
		"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}`)
	e.bind(sites, scaled, free, hpa, data)
	const ignored = `scaled: ServerSideApply force without ".spec.replicas" by work-agent`
	e.expectStrategies(sites[0], e.name, ignored)
	e.patch(deployments, e.name, "scaled", `{"metadata":{"annotations":{"starling.io/apply":"update"}}}`)
	e.expectStrategies(sites[0], e.name, "scaled: Update")
	e.patch(deployments, e.name, "scaled", `{"metadata":{"annotations":{"starling.io/apply":null}}}`)
	e.expectStrategies(sites[0], e.name, ignored)
	e.rebind(sites, scaled, free, data)
	e.expectStrategies(sites[0], e.name)

	// All others are applied server-side: each resource is named once.
	var resources []string
	for _, c := range e.works(sites[0])[0].Spec.ManifestConfigs {
		strategy := c.UpdateStrategy
		if strategy.ServerSideApply == nil || !strategy.ServerSideApply.Force || c.ResourceIdentifier.Namespace != "*" {
			t.Errorf("%+v: %+v", c.ResourceIdentifier, strategy)
		}
		resources = append(resources, c.ResourceIdentifier.Resource)
	}
	if diff := cmp.Diff([]string{"persistentvolumeclaims", "deployments"}, resources); diff != "" {
		t.Errorf("resources applied server-side (-want +got):\n%s", diff)
	}
}

// TestInvalidAutoscaler: of the objects in its namespace only the target of an autoscaler waits for
// it, and the error of the target names the autoscaler.
func TestInvalidAutoscaler(t *testing.T) {
	e := newEnvironment(t)
	sites := e.clusters(1)
	e.start(roomy)
	target, other := e.deployment("target", 1), e.deployment("other", 1)
	autoscalers := schema.GroupVersionResource{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"}
	e.create(autoscalers, e.name, "hpa", map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{"starling.io/apply": "typo"}},
		"spec": map[string]any{
			"maxReplicas": int64(5), "scaleTargetRef": map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "target"},
		},
	})
	hpa := entry{resource: autoscalers, namespace: e.name, name: "hpa"}
	e.bind(sites, target, other, hpa)
	testenv.Eventually(t, patience, func() (bool, string) {
		return e.manifest(sites[0], "Deployment", "other") != nil, "the other Deployment waits"
	})
	e.expectErrors(
		fmt.Sprintf("deployments.apps %[1]s/target: not updated, because horizontalpodautoscalers.autoscaling %[1]s/hpa may scale it "+
			"and cannot be delivered; its own error says why", e.name),
		fmt.Sprintf(`horizontalpodautoscalers.autoscaling %s/hpa: cannot be delivered: metadata.annotations[starling.io/apply]: `+
			`"typo" must be one of update, server-side, server-side-force, create-only`, e.name),
	)
	if e.manifest(sites[0], "Deployment", "target") != nil {
		t.Error("the target was delivered, though it is not known whether it is scaled")
	}
	e.patch(autoscalers, e.name, "hpa", `{"metadata":{"annotations":null}}`)
	e.expectStrategies(sites[0], e.name, `target: ServerSideApply force without ".spec.replicas" by work-agent`)
	e.expectErrors()
}
