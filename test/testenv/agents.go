package testenv

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	workv1 "open-cluster-management.io/api/work/v1"
)

var manifestWorks = schema.GroupVersion(workv1.GroupVersion).WithResource("manifestworks")

// RunAgents answers in place of OCM's work agents: it reports everything in the mailboxes of these
// clusters as applied, until the test ends.
func RunAgents(t testing.TB, its *Space, clusters ...string) {
	t.Helper()
	Run(t, func(ctx context.Context) error {
		for ctx.Err() == nil {
			for _, cluster := range clusters {
				its.answer(ctx, cluster)
			}
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
		return nil
	})
}

// answer reports each work of a mailbox that was not reported at its generation. What fails is
// tried again.
func (s *Space) answer(ctx context.Context, cluster string) {
	works := s.Client.Resource(manifestWorks).Namespace(cluster)
	list, err := works.List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	for i := range list.Items {
		o := &list.Items[i]
		work := &workv1.ManifestWork{}
		if runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, work) != nil {
			continue
		}
		if c := meta.FindStatusCondition(work.Status.Conditions, workv1.WorkApplied); c != nil && c.ObservedGeneration == work.Generation {
			continue
		}
		applied := metav1.Condition{Type: workv1.WorkApplied, Status: metav1.ConditionTrue, Reason: "Applied", ObservedGeneration: work.Generation, LastTransitionTime: metav1.Now()}
		work.Status.Conditions = []metav1.Condition{applied}
		work.Status.ResourceStatus.Manifests = nil
		for n := range work.Spec.Workload.Manifests {
			manifest := &unstructured.Unstructured{}
			if json.Unmarshal(work.Spec.Workload.Manifests[n].Raw, &manifest.Object) != nil {
				continue
			}
			resource, _ := meta.UnsafeGuessKindToResource(manifest.GroupVersionKind())
			work.Status.ResourceStatus.Manifests = append(work.Status.ResourceStatus.Manifests, workv1.ManifestCondition{
				ResourceMeta: workv1.ManifestResourceMeta{
					Ordinal: int32(n), Group: resource.Group, Version: resource.Version, Kind: manifest.GetKind(), Resource: resource.Resource,
					Namespace: manifest.GetNamespace(), Name: manifest.GetName(),
				},
				Conditions: []metav1.Condition{applied},
			})
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(work)
		if err == nil {
			_, _ = works.UpdateStatus(ctx, &unstructured.Unstructured{Object: content}, metav1.UpdateOptions{})
		}
	}
}
