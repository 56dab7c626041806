package transport

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/test/testenv"
)

// transforming creates a CustomTransform whose name is the test's and a suffix.
func (e *environment) transforming(suffix string, about schema.GroupVersionResource, removes ...string) string {
	e.t.Helper()
	name := e.name + "-" + suffix
	e.create(customTransforms, "", name, map[string]any{"spec": transformSpec(about, removes...)})
	return name
}

func transformSpec(about schema.GroupVersionResource, removes ...string) map[string]any {
	list := []any{}
	for _, path := range removes {
		list = append(list, path)
	}
	return map[string]any{"apiGroup": about.Group, "resource": about.Resource, "remove": list}
}

// transformOtherwise changes what a CustomTransform says.
func (e *environment) transformOtherwise(name string, about schema.GroupVersionResource, removes ...string) {
	e.t.Helper()
	raw, err := json.Marshal(map[string]any{"spec": transformSpec(about, removes...)})
	if err != nil {
		e.t.Fatal(err)
	}
	e.patch(customTransforms, "", name, string(raw))
}

// expectTransform waits until the status of a CustomTransform is this, at its generation.
func (e *environment) expectTransform(name string, want controlv1alpha1.CustomTransformStatus) {
	e.t.Helper()
	testenv.Eventually(e.t, patience, func() (bool, string) {
		o, err := e.wds.Resource(customTransforms).Get(e.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			e.t.Fatal(err)
		}
		ct := &controlv1alpha1.CustomTransform{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, ct); err != nil {
			e.t.Fatal(err)
		}
		want.ObservedGeneration = ct.Generation
		diff := cmp.Diff(want, ct.Status)
		return diff == "", name + ": status (-want +got):\n" + diff
	})
}

// manifest returns an object as a mailbox holds it, nil if it does not.
func (e *environment) manifest(mailbox, kind, name string) map[string]any {
	e.t.Helper()
	for _, work := range e.works(mailbox) {
		for i := range work.Spec.Workload.Manifests {
			o := &unstructured.Unstructured{}
			if err := json.Unmarshal(work.Spec.Workload.Manifests[i].Raw, &o.Object); err != nil {
				e.t.Fatal(err)
			}
			if o.GetKind() == kind && o.GetName() == name {
				return o.Object
			}
		}
	}
	return nil
}

// inSpace returns the requests made to a space.
func (r *running) inSpace(name string) map[string]int {
	made := map[string]int{}
	for key, n := range r.made() {
		if strings.HasPrefix(key, name+" ") {
			made[key] = n
		}
	}
	return made
}

// TestCustomTransform follows one through its life, and counts what each step costs.
func TestCustomTransform(t *testing.T) {
	e := newEnvironment(t)
	sites := e.clusters(3)
	fine := controlv1alpha1.CustomTransformStatus{}
	unused := e.transforming("unused", jobs, "$.spec.suspend")
	transform := e.transforming("settings", configMaps, `$.metadata.labels["example.com/owner"]`, "$.data.password")
	c := e.start(roomy)
	e.expectTransform(unused, fine)
	e.expectTransform(transform, fine)

	names := []string{"one", "two", "three"}
	labels := map[string]any{"example.com/owner": "me"}
	content := func(name string) map[string]any {
		return map[string]any{"password": "hunter2", "user": name, "content": "1"}
	}
	entries := []entry{{resource: namespaces, name: e.name}}
	for _, name := range names {
		e.create(configMaps, e.name, name, map[string]any{"metadata": map[string]any{"labels": labels}, "data": content(name)})
		entries = append(entries, entry{resource: configMaps, namespace: e.name, name: name})
	}
	e.create(secrets, e.name, "key", map[string]any{"stringData": map[string]any{"password": "x"}})
	entries = append(entries, entry{resource: secrets, namespace: e.name, name: "key"})
	e.bind(sites, entries...)
	e.applied()
	// expect waits until the mailboxes hold of each ConfigMap just these data and, or not, its
	// label. The step must have cost that many writes to the ITS and nothing else there, and that
	// many reads of ConfigMaps in the WDS.
	expect := func(what string, writes, reads int, labelled bool, fields ...string) {
		t.Helper()
		for _, site := range sites {
			for _, name := range names {
				live, err := e.wds.Resource(configMaps).Namespace(e.name).Get(t.Context(), name, metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				metadata := map[string]any{"name": name, "namespace": e.name, "annotations": map[string]any{
					controlv1alpha1.AnnotationSourceGeneration: "0/" + string(live.GetUID()),
				}}
				if labelled {
					metadata["labels"] = labels
				}
				data := map[string]any{}
				for _, field := range fields {
					data[field] = content(name)[field]
				}
				want := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
				testenv.Eventually(t, patience, func() (bool, string) {
					diff := cmp.Diff(want, e.manifest(site, "ConfigMap", name))
					return diff == "", what + ": " + site + "/" + name + " (-want +got):\n" + diff
				})
			}
		}
		e.applied()
		if data, ok := e.manifest(sites[0], "Secret", "key")["data"].(map[string]any); !ok || len(data) != 1 {
			t.Errorf("%s: the Secret lost something", what)
		}
		wantMade := map[string]int{}
		if writes > 0 {
			wantMade["its1 patch manifestworks"] = writes
		}
		if diff := cmp.Diff(wantMade, c.inSpace("its1")); diff != "" {
			t.Errorf("%s: requests to the ITS (-want +got):\n%s", what, diff)
		}
		if made := c.made(); made["wds1 get configmaps"] != reads || made["wds1 get secrets"] > 0 {
			t.Errorf("%s: requests %v, want %d reads of ConfigMaps and none of the Secret", what, made, reads)
		}
		c.reset()
	}
	c.reset()
	expect("removed from the start", 0, 0, false, "user", "content")

	// One write for each work, however many objects in it.
	e.transformOtherwise(transform, configMaps, `$.data["password", "user"]`, "$.metadata.labels")
	expect("edited", 3, 3, false, "content")
	e.expectTransform(transform, fine)

	e.reported(c, sites)
	c.stop()
	c = e.start(roomy)
	quiet(t, c)
	c.reset()

	e.transformOtherwise(transform, configMaps, "$.metadata.labels", "$['data']['user']", "$['data']['password']")
	e.expectTransform(transform, fine)
	expect("written another way", 0, 3, false, "content")

	second := e.transforming("second", configMaps, "$.data.content")
	expect("a second one", 3, 3, false)
	warning := "multiple CustomTransform objects specify the same GroupResource; their names are " + second + ", " + transform
	e.expectTransform(second, controlv1alpha1.CustomTransformStatus{Warnings: []string{warning}})
	e.expectTransform(transform, controlv1alpha1.CustomTransformStatus{Warnings: []string{warning}})

	e.transformOtherwise(second, jobs, "$.spec.completions")
	expect("the second one is about something else", 3, 3, false, "content")
	rivals := "multiple CustomTransform objects specify the same GroupResource; their names are " + second + ", " + unused
	e.expectTransform(second, controlv1alpha1.CustomTransformStatus{Warnings: []string{rivals}})
	e.expectTransform(unused, controlv1alpha1.CustomTransformStatus{Warnings: []string{rivals}})
	e.expectTransform(transform, fine)

	e.delete(customTransforms, "", second)
	e.expectTransform(unused, fine)
	expect("one goes that nobody used", 0, 0, false, "content")

	e.patch(customTransforms, "", transform, `{"status":{"warnings":["nonsense"]}}`, "status")
	e.expectTransform(transform, fine)
	if n := c.made()["wds1 patch customtransforms"]; n != 1 {
		t.Errorf("a status written by hand cost %d writes, want 1", n)
	}
	expect("status by hand", 0, 0, false, "content")

	e.transformOtherwise(transform, configMaps, "$.metadata.labels")
	expect("less is removed", 3, 3, false, "user", "password", "content")
	e.delete(customTransforms, "", transform)
	expect("it goes", 3, 3, true, "user", "password", "content")
}

// TestCustomTransformWithErrors keeps what was good, over a restart too.
func TestCustomTransformWithErrors(t *testing.T) {
	e := newEnvironment(t)
	sites := e.clusters(2)
	c := e.start(roomy)
	secret := func(content string) map[string]any {
		return map[string]any{"data": map[string]any{"password": "hunter2", "content": content}}
	}
	e.create(configMaps, e.name, "one", secret("1"))
	one := entry{resource: configMaps, namespace: e.name, name: "one"}
	e.create(roles, "", e.name, map[string]any{"rules": []any{}})
	role := entry{resource: roles, name: e.name}
	hide := e.transforming("hide", configMaps, "$.data.password")
	e.expectTransform(hide, controlv1alpha1.CustomTransformStatus{})
	e.bind(sites[:1], one, role)
	expect := func(site, what, content string) {
		t.Helper()
		testenv.Eventually(t, patience, func() (bool, string) {
			object := e.manifest(site, "ConfigMap", "one")
			diff := cmp.Diff(map[string]any{"content": content}, object["data"])
			return diff == "", what + ": (-want +got):\n" + diff
		})
	}
	expect(sites[0], "hidden", "1")
	e.applied()

	// A mistake, beside a correction that is not to be carried out by itself.
	e.transformOtherwise(hide, configMaps, "$.data.content", "$.data[", "$.metadata.name", "$")
	bad := controlv1alpha1.CustomTransformStatus{
		Errors: []string{
			`Error in spec.remove[1]: at character 8: expected "name" or 'name' or * or an index or ?, found the end`,
			"Error in spec.remove[2]: it may select metadata.name, without which no object can be delivered",
			"Invalid spec.remove[3]: it identifies the whole object",
		},
		InForce: &controlv1alpha1.CustomTransformSpec{Resource: "configmaps", Remove: []string{"$.data.password"}},
	}
	e.expectTransform(hide, bad)
	e.edit("one", "2")
	expect(sites[0], "an edit with what was valid", "2")
	e.applied()

	e.reported(c, sites)
	c.stop()
	c = e.start(roomy)
	quiet(t, c)
	e.edit("one", "3")
	expect(sites[0], "an edit after a restart", "3")
	e.applied()

	// One that never was valid: nothing of its resource moves, and the rest goes on.
	never := e.transforming("never", configMaps, "data.password")
	e.expectTransform(never, controlv1alpha1.CustomTransformStatus{
		Errors:   []string{"Error in spec.remove[0]: at character 1: expected $, found 'd'"},
		Warnings: []string{"multiple CustomTransform objects specify the same GroupResource; their names are " + hide + ", " + never},
	})
	says := func() {
		t.Helper()
		want := []string{"configmaps: not delivered, and what was delivered stays, until these CustomTransforms have no errors: " + never}
		testenv.Eventually(t, patience, func() (bool, string) {
			diff := cmp.Diff(want, e.binding().Status.Errors)
			return diff == "", "errors of the Binding (-want +got):\n" + diff
		})
		e.expectCondition(controlv1alpha1.BindingConditionDelivered, metav1.ConditionFalse, controlv1alpha1.ReasonFailed)
	}
	says()
	e.edit("one", "4")
	e.rebind(sites, one, role)
	e.expectContents(sites[1], "ClusterRole "+e.name)
	expect(sites[0], "held", "3")
	says()
	e.reported(c, sites)
	c.stop()
	c = e.start(roomy)
	quiet(t, c)
	expect(sites[0], "held after a restart", "3")

	e.transformOtherwise(never, configMaps, "$.data.nothing")
	expect(sites[0], "corrected", "4")
	expect(sites[1], "corrected", "4")
	e.applied()
	e.transformOtherwise(hide, configMaps, "$.data.password", "$.metadata.annotations")
	e.expectTransform(hide, controlv1alpha1.CustomTransformStatus{
		Warnings: []string{"multiple CustomTransform objects specify the same GroupResource; their names are " + hide + ", " + never},
	})
}

// TestTransformsAreKnownFirst: a controller that cannot read CustomTransforms delivers nothing,
// since what it would deliver may be more than anybody wants.
func TestTransformsAreKnownFirst(t *testing.T) {
	e := newEnvironment(t)
	sites := e.clusters(1)
	e.transforming("hide", configMaps, "$.data.password")
	c := e.start(roomy)
	e.create(configMaps, e.name, "one", map[string]any{"data": map[string]any{"password": "hunter2", "content": "1"}})
	e.bind(sites, entry{resource: configMaps, namespace: e.name, name: "one"})
	e.applied()
	c.stop()

	e.blind.Store(true)
	c = e.start(roomy)
	e.edit("one", "2")
	testenv.Never(t, time.Second, func() string {
		if made := c.inSpace("its1"); made["its1 patch manifestworks"]+made["its1 post manifestworks"]+made["its1 delete manifestworks"] > 0 {
			return fmt.Sprintf("without knowledge of CustomTransforms: %v", made)
		}
		return ""
	})
	e.blind.Store(false)
	e.expectContents(sites[0], "ConfigMap "+e.name+"/one: 2")
	if data := e.manifest(sites[0], "ConfigMap", "one")["data"]; !cmp.Equal(data, map[string]any{"content": "2"}) {
		t.Errorf("delivered: %v", data)
	}
}

// TestCustomTransformSchema: what the schema can refuse, it refuses.
func TestCustomTransformSchema(t *testing.T) {
	e := newEnvironment(t)
	cases := map[string]struct {
		spec map[string]any
		want string // in the error; "" if there is none
	}{
		"CoreGroup":   {map[string]any{"apiGroup": "", "resource": "configmaps"}, ""},
		"Group":       {map[string]any{"apiGroup": "example.com", "resource": "widgets", "remove": []any{"$.a"}}, ""},
		"NoGroup":     {map[string]any{"resource": "configmaps"}, "spec.apiGroup: Required value"},
		"NoResource":  {map[string]any{"apiGroup": ""}, "spec.resource: Required value"},
		"Version":     {map[string]any{"apiGroup": "apps/v1", "resource": "deployments"}, "must be an API group without its version, such as apps"},
		"Kind":        {map[string]any{"apiGroup": "apps", "resource": "Deployment"}, "must be the lowercase plural, such as deployments"},
		"Subresource": {map[string]any{"apiGroup": "apps", "resource": "deployments/status"}, "without a subresource"},
		"Empty":       {map[string]any{"apiGroup": "", "resource": ""}, "must be the lowercase plural, such as deployments"},
		"LongPath":    {map[string]any{"apiGroup": "", "resource": "configmaps", "remove": []any{"$." + strings.Repeat("a", 1023)}}, "spec.remove[0]"},
	}
	for name, tc := range cases {
		raw, err := json.Marshal(map[string]any{
			"apiVersion": "control.kubestellar.io/v1alpha1", "kind": "CustomTransform",
			"metadata": map[string]any{"name": fmt.Sprintf("%s-%s", e.name, strings.ToLower(name))}, "spec": tc.spec,
		})
		if err != nil {
			t.Fatal(err)
		}
		_, err = e.wds.Resource(customTransforms).Patch(t.Context(), fmt.Sprintf("%s-%s", e.name, strings.ToLower(name)), types.ApplyPatchType, raw,
			metav1.PatchOptions{FieldManager: "test", DryRun: []string{metav1.DryRunAll}})
		switch {
		case tc.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case tc.want != "" && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}
