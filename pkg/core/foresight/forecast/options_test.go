package forecast

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/transform"
)

var (
	deployments = match.Resource{GroupVersionResource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}, Kind: "Deployment"}
	autoscalers = match.Resource{
		GroupVersionResource: schema.GroupVersionResource{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"}, Kind: "HorizontalPodAutoscaler",
	}
)

// put sets an object with a spec, annotations and the label app=shop.
func (w *World) put(resource match.Resource, name string, spec map[string]any, annotations ...string) {
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": resource.GroupVersion().String(), "kind": resource.Kind, "metadata": map[string]any{"name": name, "namespace": "shop"}, "spec": spec,
	}}
	o.SetLabels(map[string]string{"app": "shop"})
	for _, one := range annotations {
		o.SetAnnotations(parse(one))
	}
	w.Objects[refOf(resource, name)] = &Object{Resource: resource, Meta: o, Read: true}
}

// refOf returns an object of Namespace shop.
func refOf(resource match.Resource, name string) objref.Ref {
	return objref.New(resource.GroupResource(), "shop", name)
}

// generation sets the generation of a Deployment.
func (w *World) generation(name string, n int64) {
	w.Objects[refOf(deployments, name)].Meta.SetGeneration(n)
}

// web sets a Deployment.
func (w *World) web(replicas int64, image string, annotations ...string) {
	w.put(deployments, "web", map[string]any{
		"replicas": replicas, "template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "web", "image": image}}}},
	}, annotations...)
}

// scale sets an autoscaler of a Deployment.
func (w *World) scale(target string, annotations ...string) {
	to := map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": target}
	w.put(autoscalers, "web", map[string]any{"scaleTargetRef": to}, annotations...)
}

// annotate sets the annotations of a Binding, as binding-controller copies them from its policy.
func (w *World) annotate(name, annotations string) {
	policy := w.Policies[name].DeepCopy()
	policy.Annotations = parse(annotations)
	w.Policies[name] = policy
}

// createOnly makes the clause of a policy create-only.
func (w *World) createOnly(name string, is bool) {
	policy := w.Policies[name].DeepCopy()
	policy.Spec.Downsync[0].CreateOnly = is
	w.Policies[name] = policy
}

const (
	onlyCreated = controlv1alpha1.AnnotationApply + "=create-only"
	ignoring    = controlv1alpha1.AnnotationIgnoreFields + "=.spec.replicas .spec.minReadySeconds"
)

// TestOptions: what a cluster does not do because of how it applies an object is not planned.
func TestOptions(t *testing.T) {
	t.Parallel()
	const image = ".spec.template.spec.containers[0].image"
	cases := map[string]struct {
		before, change func(w *World)
		want           []string
	}{
		"CreateOnly": {
			func(w *World) { w.web(2, "a", onlyCreated) },
			func(w *World) { w.web(3, "a", onlyCreated) },
			[]string{"c1,c2: 0 works", "  keep Deployment shop/web .spec.replicas: 2 -> 3 (kept: create-only)"},
		},
		"CreateOnlyOfAPolicy": {
			func(w *World) { w.web(2, "a"); w.createOnly("edge", true) },
			func(w *World) { w.web(3, "a") },
			[]string{"c1,c2: 0 works", "  keep Deployment shop/web .spec.replicas: 2 -> 3 (kept: create-only)"},
		},
		"CreateOnlyComesWithAnEdit": {
			func(w *World) { w.web(2, "a") },
			func(w *World) { w.web(3, "a", onlyCreated) },
			[]string{"c1,c2: 0 works", "  keep Deployment shop/web .spec.replicas: 2 -> 3 (kept: create-only)"},
		},
		"CreateOnlyGoes": {
			func(w *World) { w.web(2, "a", onlyCreated) },
			func(w *World) { w.web(2, "a") },
			[]string{"c1,c2: 1 works", "  update Deployment shop/web (it was create-only: the cluster may have another content, which is updated, too)"},
		},
		"CreateOnlyIsCreated": {
			func(*World) {},
			func(w *World) { w.web(2, "a", onlyCreated) },
			[]string{"policy edge: +1 objects", "c1,c2: 1 works", "  create Deployment shop/web"},
		},
		"OnlyIgnoredFields": {
			func(w *World) { w.web(2, "a", ignoring) },
			func(w *World) { w.web(3, "a", ignoring) },
			[]string{"c1,c2: 0 works", "  keep Deployment shop/web (kept: ignored field .spec.replicas)"},
		},
		"IgnoredFieldsAndOthers": {
			func(w *World) { w.web(2, "a", controlv1alpha1.AnnotationIgnoreFields+"=.spec.replicas") },
			func(w *World) { w.web(3, "b", controlv1alpha1.AnnotationIgnoreFields+"=.spec.replicas") },
			[]string{"c1,c2: 1 works", "  update Deployment shop/web " + image + ": a -> b (kept: ignored field .spec.replicas)"},
		},
		"OtherFields": {
			func(w *World) { w.web(2, "a", controlv1alpha1.AnnotationIgnoreFields+"=.spec.replicas") },
			func(w *World) { w.web(2, "b", controlv1alpha1.AnnotationIgnoreFields+"=.spec.replicas") },
			[]string{"c1,c2: 1 works", "  update Deployment shop/web " + image + ": a -> b"},
		},
		"IgnoredNoMore": {
			func(w *World) { w.web(2, "a", ignoring) },
			func(w *World) { w.web(2, "a", controlv1alpha1.AnnotationIgnoreFields+"=.spec.replicas") },
			[]string{"c1,c2: 1 works", "  update Deployment shop/web (.spec.minReadySeconds is ignored no more: the cluster gets what the WDS has, or nothing)"},
		},
		"AnUpdateDidNotOwn": {
			func(w *World) {
				w.put(deployments, "web", map[string]any{"replicas": int64(2), "paused": true}, controlv1alpha1.AnnotationApply+"=update")
			},
			func(w *World) { w.put(deployments, "web", map[string]any{"replicas": int64(2)}) },
			[]string{"c1,c2: 1 works", "  update Deployment shop/web .spec.paused: true -> <nil> (how it is applied changes; the cluster can keep fields that it got by update)"},
		},
		"AnAutoscalerComes": {
			func(w *World) { w.web(2, "a") },
			func(w *World) { w.scale("web") },
			[]string{
				"policy edge: +1 objects", "c1,c2: 2 works", "  update Deployment shop/web (.spec.replicas is ignored from now on: the cluster keeps what it has)",
				"  create HorizontalPodAutoscaler shop/web",
			},
		},
		"AnAutoscalerBesideItsTarget": {
			func(w *World) { w.web(2, "a"); w.scale("web") },
			func(w *World) { w.web(3, "a") },
			[]string{"c1,c2: 0 works", "  keep Deployment shop/web (kept: ignored field .spec.replicas)"},
		},
		"AnAutoscalerInAnotherBindingOfThePolicy": {
			func(w *World) { w.Settings.Bindings.MaxBindingSize = 250; w.web(2, "a"); w.scale("web") },
			func(w *World) {
				w.web(3, "a")
				for _, b := range w.Bindings {
					if text := fmt.Sprint(b.Spec.Workload.NamespaceScope); strings.Contains(text, "deployments") && strings.Contains(text, "horizontalpodautoscalers") {
						t.Errorf("Binding %s lists both: %s", b.Name, text)
					}
				}
			},
			[]string{"c1,c2: 0 works", "  keep Deployment shop/web (kept: ignored field .spec.replicas)"},
		},
		"AnAutoscalerOfAnother": {
			func(w *World) { w.web(2, "a"); w.scale("db") },
			func(w *World) { w.web(3, "a") },
			[]string{"c1,c2: 1 works", "  update Deployment shop/web .spec.replicas: 2 -> 3"},
		},
		"AnAutoscalerThatCannotBeDelivered": {
			func(w *World) { w.web(2, "a"); w.scale("web", controlv1alpha1.AnnotationApply+"=x") },
			func(w *World) { w.web(3, "a") },
			[]string{
				"c1,c2: 0 works", "  keep Deployment shop/web .spec.replicas: 2 -> 3 (horizontalpodautoscalers.autoscaling shop/web may scale it, and is not known or cannot be delivered)",
			},
		},
		"TheUserSaysHowToApplyTheTarget": {
			func(w *World) { w.web(2, "a", controlv1alpha1.AnnotationApply+"=server-side-force"); w.scale("web") },
			func(w *World) { w.web(3, "a", controlv1alpha1.AnnotationApply+"=server-side-force") },
			[]string{"c1,c2: 1 works", "  update Deployment shop/web .spec.replicas: 2 -> 3"},
		},
		"ABindingWithAMistake": {
			func(w *World) { w.web(2, "a"); w.annotate("edge", controlv1alpha1.AnnotationApply+"=x") },
			func(w *World) { w.web(3, "a") },
			[]string{
				"c1,c2: 0 works", "  keep Deployment shop/web .spec.replicas: 2 -> 3 (Binding edge keeps all that it delivered until its annotations are corrected: " +
					`metadata.annotations[starling.io/apply]: "x" must be one of update, server-side, server-side-force, create-only)`,
			},
		},
		"StatusIsReturnedFromNowOn": {
			func(w *World) {
				w.web(2, "a")
				w.generation("web", 4)
				w.Objects[refOf(deployments, "web")].Meta.SetUID("u1")
			},
			func(w *World) {
				policy := w.Policies["edge"].DeepCopy()
				policy.Spec.Downsync[0].WantSingletonReportedState = true
				w.Policies["edge"] = policy
			},
			nil,
		},
		"OrphanOnRemoval": {
			func(w *World) { w.web(2, "a", controlv1alpha1.AnnotationOnRemoval+"=orphan") },
			func(w *World) { w.Delete(refOf(deployments, "web")) },
			[]string{
				"policy edge: -1 objects", "c1,c2: 2 works", "  update Namespace shop (the cluster will delete it when it leaves)", "  release Deployment shop/web",
			},
		},
		"OrphanFromNowOn": {
			func(w *World) { w.web(2, "a") },
			func(w *World) { w.web(2, "a", controlv1alpha1.AnnotationOnRemoval+"=orphan") },
			[]string{
				"c1,c2: 2 works", "  update Namespace shop (the cluster will keep it when it leaves)",
				"  update Deployment shop/web (the cluster will keep it when it leaves)",
			},
		},
		"OrphanWithItsNamespace": {
			func(w *World) { w.web(2, "a", controlv1alpha1.AnnotationOnRemoval+"=orphan") },
			func(w *World) { delete(w.Policies, "edge") },
			[]string{
				"policy edge: -2 clusters -5 objects", "c1,c2: 2 works",
				"  delete ConfigMap shop/banner", "  delete ConfigMap shop/settings", "  release Namespace shop", "  delete Secret shop/password", "  release Deployment shop/web",
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := shop()
			tc.before(w)
			before := w.bound()
			after := before.Clone()
			tc.change(after)
			if diff := cmp.Diff(tc.want, forecastOf(t, before, after).lines()); diff != "" {
				t.Errorf("forecast (-want +got):\n%s", diff)
			}
		})
	}
}

// TestContestOfIgnoredFields: what another WDS delivers without the same ignored fields is no other
// content.
func TestContestOfIgnoredFields(t *testing.T) {
	content := func(replicas int64) transform.Object {
		o, err := transform.Pipeline{}.Apply(refOf(deployments, "web"), map[string]any{
			"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "web"}, "spec": map[string]any{"replicas": replicas, "paused": true},
		})
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	theirs, err := content(7).Without([]string{".spec.replicas"})
	if err != nil {
		t.Fatal(err)
	}
	contested := func(o outcome) outcome {
		return contest(o, map[objref.Ref]Other{theirs.Ref: {By: `WDS "b"`, Content: theirs.Content()}})
	}
	for fields, conflict := range map[string]bool{"": true, ".spec.replicas": false, ".spec.paused": true} {
		options := plan.Options{IgnoredFields: fields}
		got := contested(outcome{verb: Update, ref: theirs.Ref, gets: content(5), options: options})
		if got.conflict != conflict || got.verb != Update {
			t.Errorf("with the ignored fields %q: conflict %t, want %t; %s", fields, got.conflict, conflict, got.verb)
		}
		want := Create
		if !conflict {
			want = Keep // the cluster has it
		}
		got = contested(outcome{verb: Create, ref: theirs.Ref, gets: content(5), options: options})
		if got.conflict != conflict || got.verb != want {
			t.Errorf("a new object with the ignored fields %q: conflict %t, want %t; %s, want %s", fields, got.conflict, conflict, got.verb, want)
		}
	}
}
