package workagent

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	workv1 "open-cluster-management.io/api/work/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/packing"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/transform"
	"github.com/starlinghq/starling/pkg/works"
)

var (
	configMaps  = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	services    = schema.GroupVersionResource{Version: "v1", Resource: "services"}
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
)

// copied is one object that is delivered to a site, in a work of its own.
type copied struct {
	*site
	resource schema.GroupVersionResource
	ref      objref.Ref
	content  map[string]any
	options  plan.Options
	// prefix is that of the work's name.
	prefix string
	writes int
	// reads counts those of the content of the work.
	reads int
}

func (s *site) copied(resource schema.GroupVersionResource, text string) *copied {
	s.t.Helper()
	c := &copied{site: s, resource: resource}
	s.must(json.Unmarshal([]byte(text), &c.content))
	metadata, _ := c.content["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	metadata["namespace"] = s.name
	c.ref, c.prefix = objref.New(resource.GroupResource(), s.name, name), name
	return c
}

func (s *site) deployment(name string) *copied {
	s.t.Helper()
	return s.copied(deployments, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"`+name+`","labels":{"a":"1","b":"1"}},
		"spec":{"replicas":5,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},
		"spec":{"containers":[{"name":"c","image":"example.com/c:1"}]}}}}`)
}

func (s *site) configMap(name string) *copied {
	s.t.Helper()
	return s.copied(configMaps, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"`+name+`","labels":{"a":"1"}},"data":{"a":"1","b":"1","c":"1"}}`)
}

func (c *copied) ignore(fields ...string) { c.options.IgnoredFields = strings.Join(fields, "\n") }

// set sets a field of the desired content; nil removes it.
func (c *copied) set(value any, path ...string) {
	if n, ok := value.(int); ok {
		value = int64(n)
	}
	at := c.content
	for _, key := range path[:len(path)-1] {
		at, _ = at[key].(map[string]any)
	}
	if last := path[len(path)-1]; value == nil {
		delete(at, last)
	} else {
		at[last] = value
	}
}

// step plans once, and writes what is planned. It reports whether that is anything.
func (c *copied) step() bool {
	c.t.Helper()
	object, err := transform.Pipeline{}.Apply(c.ref, runtime.DeepCopyJSON(c.content))
	c.must(err)
	desired, err := plan.Object{Object: object, Known: true, Options: c.options}.Ignoring()
	c.must(err)
	return c.do(plan.NewDesired([]plan.Object{desired}, packing.Limits{Count: 100, Bytes: 100000}))
}

// do carries out the plan for a work of one object as the plugin does.
func (c *copied) do(desired *plan.Desired) bool {
	c.t.Helper()
	work, err := c.works.Get(c.t.Context(), c.workName(), metav1.GetOptions{})
	now := plan.Current{Mailbox: c.name, Prefix: c.prefix}
	if err == nil && work.DeletionTimestamp == nil {
		now.Works = []*plan.Work{works.Read(work, works.NewManifests(10))}
		desired, err = plan.KeepFormer(desired, now.Works, func(_ *plan.Work, ref objref.Ref) (transform.Object, error) {
			c.reads++
			return works.Content(work, ref)
		})
		c.must(err)
	}
	built := plan.Build(desired, &now)
	for i := range built.Actions {
		c.write(&built.Actions[i], work)
		c.writes++
	}
	return len(built.Actions) > 0
}

func (c *copied) write(a *plan.Action, work *workv1.ManifestWork) {
	c.t.Helper()
	c.t.Log(a)
	spec := works.Remainder(a.After)
	switch a.Verb {
	case plan.Create:
		spec.Workload.Manifests = manifestOf(a.After[0].Object)
		work = &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: a.Name, Finalizers: []string{workv1.ManifestWorkFinalizer}}}
	case plan.Patch:
		spec.Workload.Manifests = work.Spec.Workload.Manifests
		for _, change := range a.Changes {
			spec.Workload.Manifests = manifestOf(change.Object)
		}
	default:
		c.t.Fatalf("%s is not tested here", a)
	}
	work.Spec = spec
	items := make([]plan.Item, len(a.After))
	for i := range a.After {
		items[i].Hash = a.After[i].Hash
	}
	work.Annotations = map[string]string{
		controlv1alpha1.AnnotationBinding: "b", controlv1alpha1.AnnotationKinds: works.Kinds(a.After),
		controlv1alpha1.AnnotationContentHash: works.Hash(items, &spec).String(),
	}
	var err error
	if a.Verb == plan.Create {
		_, err = c.works.Create(c.t.Context(), work, metav1.CreateOptions{})
	} else {
		_, err = c.works.Update(c.t.Context(), work, metav1.UpdateOptions{})
	}
	c.must(err)
}

func manifestOf(o *plan.Object) []workv1.Manifest {
	return []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: o.JSON}}}
}

func (c *copied) workName() string { return c.prefix + "-1-0" }

// settle plans and lets the agent report until nothing is to be done, and checks the writes.
func (c *copied) settle(what string, writes int) {
	c.t.Helper()
	c.writes = 0
	for range 30 {
		wrote := c.step()
		c.turn(c.workName())
		if !wrote && !c.step() {
			if c.writes != writes {
				c.t.Errorf("%s: %d writes, want %d", what, c.writes, writes)
			}
			return
		}
	}
	c.t.Fatalf("%s: each report leads to another write", what)
}

// expect checks fields of the copy, each as "path to the field=value".
func (c *copied) expect(what string, want ...string) {
	c.t.Helper()
	for _, w := range want {
		path, value, _ := strings.Cut(w, "=")
		if got := c.field(c.resource, c.ref.Name, strings.Split(path, " ")...); got != value {
			c.t.Errorf("%s: %s is %q, want %q; managers: %s", what, path, got, value, c.managers())
		}
	}
}

// managers describes who owns what.
func (c *copied) managers() string {
	o := c.get(c.resource, c.ref.Name)
	if o == nil {
		return "none"
	}
	all := map[string]string{}
	for _, m := range o.GetManagedFields() {
		all[m.Manager+"/"+string(m.Operation)+"/"+m.Subresource] = string(m.FieldsV1.Raw)
	}
	lines := make([]string, 0, len(all))
	for _, key := range slices.Sorted(maps.Keys(all)) {
		lines = append(lines, key+": "+all[key])
	}
	return "\n" + strings.Join(lines, "\n")
}

func (c *copied) scale(replicas int) {
	c.t.Helper()
	c.patch(c.resource, c.ref.Name, map[string]any{"spec": map[string]any{"replicas": replicas}}, "scale")
}

func (c *copied) change(fields map[string]any) {
	c.t.Helper()
	c.patch(c.resource, c.ref.Name, fields)
}

// TestIgnoredFields delivers objects with ignored fields to OCM's agent, step by step.
func TestIgnoredFields(t *testing.T) {
	s := newSite(t)
	image := func(to string) []any { return []any{map[string]any{"name": "c", "image": to}} }

	t.Run("FromTheCreationOn", func(t *testing.T) {
		s.t = t
		d := s.deployment("created")
		d.ignore(".spec.replicas")
		d.settle("created", 3)
		d.expect("created", "spec replicas=5", "metadata labels b=1")
		d.settle("nothing", 0)
		d.set(nil, "metadata", "labels", "b")
		d.set(image("example.com/c:2"), "spec", "template", "spec", "containers")
		d.settle("an edit", 1)
		d.expect("an edit", "spec replicas=5", "metadata labels b=", `spec template spec containers=[map[image:example.com/c:2 imagePullPolicy:IfNotPresent name:c resources:map[] terminationMessagePath:/dev/termination-log terminationMessagePolicy:File]]`)
		d.change(map[string]any{"metadata": map[string]any{"labels": map[string]any{"a": "other"}}})
		d.turn(d.workName())
		d.expect("drift is repaired", "metadata labels a=1", "spec replicas=5")
		d.scale(7)
		d.set(9, "spec", "replicas")
		d.set("1", "metadata", "labels", "c")
		d.settle("an edit of a scaled one", 1)
		d.expect("an edit of a scaled one", "spec replicas=7", "metadata labels c=1")
	})
	t.Run("ScaledBetweenTheSteps", func(t *testing.T) {
		s.t = t
		for at := range 6 {
			d := s.deployment(fmt.Sprint("scaled-", at))
			d.ignore(".spec.replicas")
			for i := range 6 {
				d.step()
				if i == at && i > 0 {
					d.scale(7)
				}
				d.turn(d.workName())
			}
			if at == 0 {
				d.scale(7)
			}
			d.set(nil, "metadata", "labels", "b")
			d.set("2", "metadata", "labels", "b2")
			d.settle("an edit", 1)
			d.expect(fmt.Sprint("scaled at step ", at), "spec replicas=7", "metadata labels b=", "metadata labels b2=2")
		}
	})
	t.Run("TheOptionComesAndGoes", func(t *testing.T) {
		s.t = t
		for name, scaled := range map[string]int{"left": 5, "scaled": 7} {
			d := s.deployment("option-" + name)
			d.settle("created", 1)
			if scaled != 5 {
				d.scale(scaled)
			}
			d.ignore(".spec.replicas")
			d.settle("the option comes", 2)
			d.expect("the option comes", fmt.Sprint("spec replicas=", scaled))
			d.set("2", "metadata", "labels", "b")
			d.settle("an edit", 1)
			d.expect("an edit", fmt.Sprint("spec replicas=", scaled), "metadata labels b=2")
			d.ignore()
			for d.step() {
				if scaled == 5 {
					d.expect("the option goes", "spec replicas=5")
				}
				d.turn(d.workName())
			}
			d.expect("the option went", "spec replicas=5")
			d.set(nil, "spec", "replicas")
			d.settle("the field goes", 1)
			d.expect("the field goes", "spec replicas=1") // the default
			if strings.Contains(d.managers(), "work-agent.") {
				t.Errorf("a manager is left: %s", d.managers())
			}
		}
	})
	t.Run("TheOptionComesWithAnotherValue", func(t *testing.T) {
		s.t = t
		for name, tc := range map[string]struct {
			value  any
			scaled int
			want   string
		}{
			"removed": {nil, 0, "5"}, "changed": {3, 0, "5"},
			"scaled-removed": {nil, 7, "7"}, "scaled-changed": {3, 7, "7"},
		} {
			d := s.deployment("at-once-" + name)
			d.settle("created", 1)
			d.settle("an edit", 0)
			if tc.scaled > 0 {
				d.scale(tc.scaled)
			}
			d.ignore(".spec.replicas")
			d.set(tc.value, "spec", "replicas")
			d.set("2", "metadata", "labels", "b")
			for d.step() {
				d.turn(d.workName())
				d.expect(name, "spec replicas="+tc.want)
			}
			d.expect(name, "spec replicas="+tc.want, "metadata labels b=2")
			d.reads = 0
			d.set("3", "metadata", "labels", "b")
			d.settle("another edit", 1)
			d.expect("another edit", "spec replicas="+tc.want, "metadata labels b=3")
			if d.reads > 0 {
				t.Errorf("%d reads of a settled object", d.reads)
			}
		}
		m := s.configMap("at-once-map")
		m.settle("created", 1)
		m.ignore(".data.a", ".data.b")
		m.set(nil, "data", "a")
		for m.step() {
			m.turn(m.workName())
		}
		m.expect("a key is removed", "data a=1", "data b=1", "data c=1")
	})
	t.Run("AValueThatTheClusterRefuses", func(t *testing.T) {
		s.t = t
		d := s.deployment("refused")
		d.set(-1, "spec", "replicas")
		d.ignore(".spec.replicas")
		d.settle("refused", 1)
		d.expect("refused", "spec=no object")
		d.set(2, "spec", "replicas")
		d.settle("corrected", 3)
		d.expect("corrected", "spec replicas=2")
	})
	t.Run("SeveralFields", func(t *testing.T) {
		s.t = t
		m := s.configMap("several")
		m.ignore(".data.a", ".data.b", ".metadata.labels")
		m.settle("created", 5)
		m.expect("created", "data a=1", "data b=1", "data c=1", "metadata labels a=1")
		m.change(map[string]any{"data": map[string]any{"a": "2"}})
		m.set("3", "data", "a")
		m.set("3", "data", "c")
		m.settle("an edit", 1)
		m.expect("an edit", "data a=2", "data b=1", "data c=3")
		m.ignore(".data.b", ".data.c", ".data.d")
		m.settle("other fields", 6)
		m.expect("other fields", "data a=3", "data b=1", "data c=3")
		m.set("4", "data", "a")
		m.set("4", "data", "b")
		m.set("4", "data", "c")
		m.set("4", "data", "d")
		m.settle("another edit", 1)
		m.expect("another edit", "data a=4", "data b=1", "data c=3", "data d=")
	})
	t.Run("ReCreated", func(t *testing.T) {
		s.t = t
		d, m := s.deployment("again"), s.configMap("again-map")
		d.ignore(".spec.replicas")
		m.ignore(".data.a")
		for _, c := range []*copied{d, m} {
			c.settle("created", 3)
			s.must(s.objects.Resource(c.resource).Namespace(s.name).Delete(t.Context(), c.ref.Name, metav1.DeleteOptions{}))
			c.turn(c.workName())
			c.settle("re-created", 3)
		}
		d.expect("re-created", "spec replicas=5")
		m.expect("re-created", "data a=1", "data b=1")
		// While the agent is at a step with one field only.
		for at := range 4 {
			d := s.deployment(fmt.Sprint("gone-", at))
			d.ignore(".spec.replicas")
			for range at {
				d.step()
				d.turn(d.workName())
			}
			d.step()
			if at > 0 {
				s.must(s.objects.Resource(deployments).Namespace(s.name).Delete(t.Context(), d.ref.Name, metav1.DeleteOptions{}))
			}
			for range 8 {
				d.turn(d.workName())
				d.step()
			}
			d.expect(fmt.Sprint("gone at step ", at), "spec replicas=5", "metadata labels b=1")
		}
	})
	t.Run("ThereBefore", func(t *testing.T) {
		s.t = t
		d := s.deployment("before")
		d.settle("created", 1)
		d.change(map[string]any{"spec": map[string]any{"replicas": 8, "minReadySeconds": 3}})
		other := s.deployment("before")
		other.prefix = "second" // the same object, by another work
		other.ignore(".spec.replicas")
		other.set(4, "spec", "minReadySeconds")
		other.settle("there before", 3)
		other.expect("there before", "spec replicas=8", "spec minReadySeconds=4")
	})
	t.Run("FromAFormerVersion", func(t *testing.T) {
		s.t = t
		for name, want := range map[string]string{"quiet": "5", "reset": "5", "scaled": "7"} {
			d := s.deployment("former-" + name)
			d.ignore(".spec.replicas")
			d.former()
			switch name {
			case "reset": // as an edit did
				d.set("2", "metadata", "labels", "b")
				d.former()
				d.expect("the former version", "spec replicas=1")
			case "scaled":
				d.scale(7)
			}
			d.settle("the update", 2)
			d.expect("the update", "spec replicas="+want)
			d.change(map[string]any{"metadata": map[string]any{"labels": map[string]any{"a": "other"}}})
			d.turn(d.workName())
			d.expect("drift is repaired", "metadata labels a=1", "spec replicas="+want)
			d.set("3", "metadata", "labels", "b")
			d.settle("an edit", 1)
			d.expect("an edit", "metadata labels b=3", "spec replicas="+want)
		}
	})
	t.Run("OneValueWithOthers", func(t *testing.T) {
		s.t = t
		c := s.copied(services, `{"apiVersion":"v1","kind":"Service","metadata":{"name":"atomic"},"spec":{"selector":{"a":"1","b":"1"},"ports":[{"port":80}]}}`)
		c.ignore(".spec.selector.a")
		c.settle("created", 5)
		c.expect("created", "spec selector=map[a:1 b:1]")
		item := works.Read(s.work(c.workName()), works.NewManifests(1)).Items[0]
		if item.Stage.Refused != ".spec.selector.a" || item.State != plan.Applied {
			t.Errorf("the item is %+v", item)
		}
		c.settle("nothing", 0)
	})
	t.Run("TheOnlyOneOfItsMap", func(t *testing.T) {
		s.t = t
		for name, before := range map[string]bool{"created": false, "running": true} {
			c := s.copied(services, `{"apiVersion":"v1","kind":"Service","metadata":{"name":"alone-`+name+`"},"spec":{"selector":{"a":"1"},"ports":[{"port":80}]}}`)
			if before {
				c.settle("created", 1)
			}
			c.ignore(".spec.selector.a")
			for c.step() {
				c.turn(c.workName())
			}
			c.expect(name, "spec selector=map[a:1]")
			c.change(map[string]any{"spec": map[string]any{"selector": map[string]any{"a": "2"}}})
			c.set(map[string]any{"b": "1"}, "metadata", "labels")
			c.settle("an edit", 1)
			c.expect("an edit", "spec selector=map[a:2]", "metadata labels b=1")
		}
	})
	t.Run("Removed", func(t *testing.T) {
		s.t = t
		for orphan, want := range map[bool]string{false: "no object", true: "5"} {
			d := s.deployment(fmt.Sprint("removed-", orphan))
			d.ignore(".spec.replicas")
			d.options.Orphan = orphan
			d.settle("created", 3)
			work := s.work(d.workName())
			work.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":%q,"name":"other-%t"}}`, s.name, orphan)}}}
			_, err := s.works.Update(t.Context(), work, metav1.UpdateOptions{})
			s.must(err)
			d.turn(d.workName())
			d.expect("removed", "spec replicas="+want)
		}
	})
}

// former writes the work as a former version of Starling did, and lets the agent apply it.
func (c *copied) former() {
	c.t.Helper()
	object, err := transform.Pipeline{}.Apply(c.ref, runtime.DeepCopyJSON(c.content))
	c.must(err)
	entries := []plan.Entry{{Ref: c.ref, Kind: "Deployment", Hash: object.Hash}}
	spec := works.Remainder(entries)
	spec.ManifestConfigs = []workv1.ManifestConfigOption{{
		ResourceIdentifier: workv1.ResourceIdentifier{Group: c.ref.Group, Resource: c.ref.Resource, Namespace: c.ref.Namespace, Name: c.ref.Name},
		UpdateStrategy: &workv1.UpdateStrategy{Type: workv1.UpdateStrategyTypeServerSideApply, ServerSideApply: &workv1.ServerSideApplyConfig{
			Force: true, FieldManager: workv1.DefaultFieldManager,
			IgnoreFields: []workv1.IgnoreField{{Condition: workv1.IgnoreFieldsConditionOnSpokePresent, JSONPaths: strings.Split(c.options.IgnoredFields, "\n")}},
		}},
	}}
	spec.Workload.Manifests = manifestOf(&plan.Object{Object: object})
	work, err := c.works.Get(c.t.Context(), c.workName(), metav1.GetOptions{})
	if err != nil {
		work, err = c.works.Create(c.t.Context(), &workv1.ManifestWork{
			ObjectMeta: metav1.ObjectMeta{Name: c.workName(), Finalizers: []string{workv1.ManifestWorkFinalizer}}, Spec: spec,
		}, metav1.CreateOptions{})
		c.must(err)
	}
	work.Spec = spec
	work.Annotations = map[string]string{
		controlv1alpha1.AnnotationBinding: "b", controlv1alpha1.AnnotationKinds: works.Kinds(entries),
		controlv1alpha1.AnnotationContentHash: works.Hash([]plan.Item{{Hash: object.Hash}}, &spec).String(),
	}
	_, err = c.works.Update(c.t.Context(), work, metav1.UpdateOptions{})
	c.must(err)
	c.turn(c.workName())
}
