package e2e

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/test/testenv"
)

// job is a Job that ends at once, since nothing runs on simulated nodes. A cluster would delete it
// when it has ended, and run it again.
const job = `{apiVersion: batch/v1, kind: Job, metadata: {name: migrate, namespace: $NAME, labels: {story: $NAME}},
	spec: {ttlSecondsAfterFinished: 0, template: {spec: {restartPolicy: Never, containers: [{name: c, image: example.com/none}]}}}}`

// isComplete reports whether a Job has ended well.
func isComplete(obj *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	for _, c := range conditions {
		if of, ok := c.(map[string]any); ok && of["type"] == "Complete" && of["status"] == "True" {
			return true
		}
	}
	return false
}

// replace deletes an object in the WDS, and creates another one as soon as it is gone.
func (s *story) replace(gvr schema.GroupVersionResource, name, text string) {
	s.Helper()
	background := metav1.DeletePropagationBackground
	if err := s.space("wds1", gvr).Namespace(s.name).Delete(s.Context(), name, metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		s.Fatal(err)
	}
	testenv.Eventually(s, arrival, func() (bool, string) {
		_, err := s.get("wds1", gvr, s.name, name)
		return apierrors.IsNotFound(err), fmt.Sprintf("%s is there (%v)", name, err)
	})
	s.create("wds1", gvr, text)
}

// TestRecreatedJob: a Job that is deleted and created again, with the same content, is complete
// when the cluster has run it again, and not because it had run the former one.
func TestRecreatedJob(t *testing.T) {
	t.Parallel()
	s := tell(t, testenv.Shared(t))
	s.namespace()
	s.create("wds1", jobs, job)
	s.returning("")
	ran := map[types.UID]bool{}
	ends := func() {
		t.Helper()
		testenv.Eventually(t, arrival, func() (bool, string) {
			obj, err := s.get("wds1", jobs, s.name, "migrate")
			if err != nil {
				return false, err.Error()
			}
			return isComplete(obj), fmt.Sprintf("the Job in the WDS is not Complete: %v", obj.Object["status"])
		})
		run, err := s.get("cluster1", jobs, s.name, "migrate")
		if err != nil {
			t.Fatalf("the Job is Complete in the WDS, and not in the cluster: %v", err)
		}
		if !isComplete(run) || ran[run.GetUID()] {
			t.Fatalf("the Job is Complete in the WDS because of %s, which had run before: %v", run.GetUID(), ran)
		}
		ran[run.GetUID()] = true
	}
	ends()
	s.isReady()
	for n := range 5 {
		s.Logf("re-created, %d", n+1)
		s.replace(jobs, "migrate", job)
		ends()
	}
	s.Log("edited")
	s.patch("wds1", jobs, s.name, "migrate", `{"metadata":{"annotations":{"edited":"true"}}}`)
	testenv.Eventually(t, arrival, func() (bool, string) {
		run, err := s.get("cluster1", jobs, s.name, "migrate")
		if err != nil {
			return false, err.Error()
		}
		if _, set, _ := unstructured.NestedInt64(run.Object, "spec", "ttlSecondsAfterFinished"); set || !ran[run.GetUID()] {
			t.Fatalf("the cluster runs the Job again, or would delete it: %v", run.Object)
		}
		return run.GetAnnotations()["edited"] == "true", fmt.Sprintf("the edit is not in the cluster: %v", run.GetAnnotations())
	})
	s.Log("re-created for another policy")
	s.returning("-other")
	s.replace(jobs, "migrate", strings.Replace(job, "story: $NAME", "story: $NAME-other", 1))
	ends()
	s.isReady()
}

// TestRecreatedWhileAway: objects are re-created with another field that cannot be changed while a
// cluster is away. When it is back, it deletes the former ones and creates the new ones, whether
// its mailbox has seen both changes as one or not. What can be updated is updated.
func TestRecreatedWhileAway(t *testing.T) {
	s := tell(t, testenv.Shared(t))
	deployment := func(name, app string) string {
		return fmt.Sprintf(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: %s, namespace: $NAME, labels: {story: $NAME}},
			spec: {selector: {matchLabels: {app: %s}}, template: {metadata: {labels: {app: %s}}, spec: {containers: [{name: c, image: example.com/none}]}}}}`, name, app, app)
	}
	configMap := func(value string) string {
		return `{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: $NAME, labels: {story: $NAME}}, data: {key: ` + value + `}}`
	}
	s.namespace()
	s.create("wds1", deployments, deployment("quick", "a"))
	s.create("wds1", deployments, deployment("slow", "a"))
	s.create("wds1", jobs, job)
	s.create("wds1", configMaps, configMap("one"))
	s.policy(both)
	s.isReady()
	was := map[string]types.UID{}
	each := func(do func(gvr schema.GroupVersionResource, name string)) {
		do(deployments, "quick")
		do(deployments, "slow")
		do(jobs, "migrate")
		do(configMaps, "settings")
	}
	each(func(gvr schema.GroupVersionResource, name string) {
		obj, err := s.get("cluster2", gvr, s.name, name)
		if err != nil {
			t.Fatal(err)
		}
		was[name] = obj.GetUID()
	})

	resume := s.fleet.Pause(t, "cluster2/klusterlet")
	s.drop(deployments, s.name, "slow")
	testenv.Eventually(t, arrival, func() (bool, string) {
		return !s.delivers("cluster2", "slow"), "the mailbox of cluster2 has the Deployment that was deleted"
	})
	s.create("wds1", deployments, deployment("slow", "b"))
	s.replace(deployments, "quick", deployment("quick", "b"))
	s.replace(jobs, "migrate", job)
	s.replace(configMaps, "settings", configMap("two"))
	testenv.Eventually(t, arrival, func() (bool, string) {
		return s.delivers("cluster2", "slow") && s.delivers("cluster2", "quick"), "the mailbox of cluster2 has not got the new Deployments"
	})
	resume()

	arrived := map[string]types.UID{}
	each(func(gvr schema.GroupVersionResource, name string) {
		live, err := s.get("wds1", gvr, s.name, name)
		if err != nil {
			t.Fatal(err)
		}
		testenv.Eventually(t, arrival, func() (bool, string) {
			obj, err := s.get("cluster2", gvr, s.name, name)
			if err != nil {
				return false, err.Error()
			}
			source := obj.GetAnnotations()[controlv1alpha1.AnnotationSourceGeneration]
			arrived[name] = obj.GetUID()
			return strings.HasSuffix(source, "/"+string(live.GetUID())), fmt.Sprintf("cluster2 has %s of %s, the WDS has %s; %v", name, source, live.GetUID(), s.observed().Status.Errors)
		})
	})
	s.isReady()
	for _, name := range []string{"quick", "slow", "migrate"} {
		if arrived[name] == was[name] {
			t.Errorf("%s was updated", name)
		}
	}
	if arrived["settings"] != was["settings"] {
		t.Error("the ConfigMap was deleted, though it could be updated")
	}
	for _, name := range []string{"quick", "slow"} {
		obj, err := s.get("cluster2", deployments, s.name, name)
		if err != nil {
			t.Fatal(err)
		}
		if app, _, _ := unstructured.NestedString(obj.Object, "spec", "selector", "matchLabels", "app"); app != "b" {
			t.Errorf("%s selects %s", name, app)
		}
	}
}

// delivers reports whether a work in the mailbox of a cluster has the content of a Deployment.
func (s *story) delivers(cluster, name string) bool {
	s.Helper()
	list, err := s.space("its1", manifestWorks).Namespace(cluster).List(s.Context(), metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	for i := range list.Items {
		manifests, _, _ := unstructured.NestedSlice(list.Items[i].Object, "spec", "workload", "manifests")
		for _, m := range manifests {
			obj := unstructured.Unstructured{}
			obj.Object, _ = m.(map[string]any)
			if obj.GetKind() == "Deployment" && obj.GetNamespace() == s.name && obj.GetName() == name && obj.Object["spec"] != nil && list.Items[i].GetDeletionTimestamp() == nil {
				return true
			}
		}
	}
	return false
}

// TestDeletedInTheCluster: a copy that was applied once, and that somebody has deleted, is not
// applied, and has no status. An edit brings it back.
func TestDeletedInTheCluster(t *testing.T) {
	t.Parallel()
	s := tell(t, testenv.Shared(t))
	s.namespace()
	s.create("wds1", deployments, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: server, namespace: $NAME, labels: {story: $NAME}}
spec:
  selector: {matchLabels: {app: server}}
  template:
    metadata: {labels: {app: server}}
    spec: {containers: [{name: server, image: "example.com/server:1"}]}`)
	s.returning("")
	s.available("server", 1)
	s.isReady()

	background := metav1.DeletePropagationBackground
	if err := s.space("cluster1", deployments).Namespace(s.name).Delete(t.Context(), "server", metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, arrival, func() (bool, string) {
		policy := s.observed()
		applied := meta.FindStatusCondition(policy.Status.Conditions, controlv1alpha1.BindingPolicyConditionApplied)
		return applied != nil && applied.Status == metav1.ConditionFalse && strings.Contains(applied.Message, "deleted in the cluster") &&
			policy.Status.Rollup.AppliedOf == "1/2", fmt.Sprintf("%+v %+v", applied, policy.Status.Rollup)
	})
	s.available("server", 0)

	s.patch("wds1", deployments, s.name, "server", `{"spec":{"replicas":2}}`)
	s.available("server", 2)
	s.isReady()
}
