package works

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	workv1 "open-cluster-management.io/api/work/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
)

// TestStages: what a work has of ignored fields is read as it was written, and applied by the
// manager of the stage, by force only when it is settled.
func TestStages(t *testing.T) {
	ref := objref.Ref{Group: "apps", Resource: "deployments", Namespace: "web", Name: "nginx"}
	const replicas = ".spec.replicas"
	type apply struct {
		Manager string
		Force   bool
		Ignored []string
		Rules   int
	}
	for name, tc := range map[string]struct {
		options plan.Options
		want    apply
	}{
		"Create":         {plan.Options{IgnoredFields: replicas, Stage: plan.Stage{Begun: true}}, apply{Manager: "work-agent", Rules: 1}},
		"Keep":           {plan.Options{IgnoredFields: replicas, Stage: plan.Stage{Begun: true, By: replicas}}, apply{Manager: "work-agent.spec.replicas", Rules: 1}},
		"Settled":        {plan.Options{IgnoredFields: replicas, Stage: plan.Stage{Begun: true, Left: replicas}}, apply{Manager: "work-agent", Force: true, Rules: 1}},
		"SettledNoForce": {plan.Options{NoForce: true, IgnoredFields: replicas, Stage: plan.Stage{Begun: true, Left: replicas}}, apply{Manager: "work-agent", Rules: 1}},
		"Again":          {plan.Options{IgnoredFields: replicas, Stage: plan.Stage{Begun: true, Again: true}}, apply{Manager: "work-agent", Force: true, Rules: 1}},
		"Drop":           {plan.Options{Stage: plan.Stage{Begun: true, By: replicas, Dropping: true}}, apply{Manager: "work-agent.spec.replicas", Rules: 1}},
		"Recreated":      {plan.Options{Stage: plan.Stage{Begun: true, Former: "u"}}, apply{Manager: "work-agent", Force: true, Rules: 1}},
		"FormerVersion":  {plan.Options{IgnoredFields: replicas}, apply{Manager: "work-agent", Force: true, Ignored: []string{replicas}}},
	} {
		t.Run(name, func(t *testing.T) {
			spec := Remainder([]plan.Entry{{Ref: ref, Options: tc.options}})
			c := spec.ManifestConfigs[0]
			got := apply{Manager: c.UpdateStrategy.ServerSideApply.FieldManager, Force: c.UpdateStrategy.ServerSideApply.Force, Rules: len(c.FeedbackRules)}
			for _, ignored := range c.UpdateStrategy.ServerSideApply.IgnoreFields {
				got.Ignored = ignored.JSONPaths
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("written (-want +got):\n%s", diff)
			}
			items := []plan.Item{{Ref: ref}}
			readOptions(&workv1.ManifestWork{Spec: spec}, items)
			if diff := cmp.Diff(tc.options, items[0].Options); diff != "" {
				t.Errorf("read (-want +got):\n%s", diff)
			}
		})
	}
}

// TestClaims: a work that says which of its objects are claims is read as it was written, and one
// that does not, or says something else, as Unmarked. What leaves is no claim.
func TestClaims(t *testing.T) {
	entry := func(name string, options plan.Options) plan.Entry {
		return plan.Entry{Ref: objref.Ref{Resource: "configmaps", Namespace: "web", Name: name}, Kind: "ConfigMap", Options: options}
	}
	claim, other, delivered := entry("claim", plan.Options{Observe: true}), entry("other", plan.Options{Observe: true}), entry("delivered", plan.Options{})
	leaving := entry("leaving", plan.Options{Observe: true})
	leaving.Withdrawn = true
	for name, tc := range map[string]struct {
		entries      []plan.Entry
		marked       []plan.Entry
		wantUnmarked bool
	}{
		"None":          {[]plan.Entry{delivered}, nil, false},
		"Marked":        {[]plan.Entry{claim, delivered, other}, []plan.Entry{other, claim}, false},
		"FormerRelease": {[]plan.Entry{claim, delivered}, nil, true},
		"TooFew":        {[]plan.Entry{claim, other}, []plan.Entry{claim}, true},
		"TooMany":       {[]plan.Entry{claim, delivered}, []plan.Entry{claim, other}, true},
		"Leaving":       {[]plan.Entry{leaving, delivered}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			work := &workv1.ManifestWork{Spec: Remainder(tc.entries)}
			work.Annotations = map[string]string{controlv1alpha1.AnnotationKinds: "ConfigMap=configmaps"}
			if claims := Claims(tc.marked); claims != "" {
				work.Annotations[controlv1alpha1.AnnotationClaims] = claims
			}
			for i := range tc.entries {
				e := &tc.entries[i]
				annotations := ""
				if e.Withdrawn {
					annotations = `,"annotations":{"starling.io/withdrawn":"true"}`
				}
				work.Spec.Workload.Manifests = append(work.Spec.Workload.Manifests, workv1.Manifest{RawExtension: runtime.RawExtension{
					Raw: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + e.Ref.Name + `","namespace":"web"` + annotations + `}}`),
				}})
			}
			if got := Read(work, NewManifests(10)); got.Unmarked != tc.wantUnmarked {
				t.Errorf("unmarked: %t, want %t; items %+v", got.Unmarked, tc.wantUnmarked, got.Items)
			}
		})
	}
}

// TestFormer: of an object that was re-created, a work says of what the cluster had a copy, however
// the object is applied.
func TestFormer(t *testing.T) {
	ref := objref.Ref{Group: "apps", Resource: "deployments", Namespace: "web", Name: "nginx"}
	for _, want := range []plan.Options{
		{Observe: true, Stage: plan.Stage{Begun: true, Former: "u"}},
		{Update: true, Stage: plan.Stage{Begun: true, Former: "u"}},
		{Observe: true},
	} {
		spec := Remainder([]plan.Entry{{Ref: ref, Options: want}})
		items := []plan.Item{{Ref: ref}}
		readOptions(&workv1.ManifestWork{Spec: spec}, items)
		if diff := cmp.Diff(want, items[0].Options); diff != "" {
			t.Errorf("read (-want +got):\n%s", diff)
		}
	}
}
