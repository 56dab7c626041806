package binding_test

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/inventory"
	"github.com/starlinghq/starling/pkg/core/packages/binding"
	"github.com/starlinghq/starling/test/golden"
)

// TestTexts lists the conditions of Repositories of clusters, and of packages that are delivered.
func TestTexts(t *testing.T) {
	var texts []golden.Text
	add := func(cause string, conditions []metav1.Condition) {
		for _, c := range conditions {
			texts = append(texts, golden.Text{Heading: fmt.Sprintf("%s: %s=%s %s", cause, c.Type, c.Status, c.Reason), Text: c.Message})
		}
	}

	repository := func(deployment bool, conditions ...metav1.Condition) *configv1alpha1.Repository {
		r := &configv1alpha1.Repository{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "edge1"}}
		r.Spec.Deployment, r.Status.Conditions = deployment, conditions
		return r
	}
	for _, tc := range []struct {
		cause   string
		cluster inventory.State
		stored  *configv1alpha1.Repository
	}{
		{"Repository of a user", inventory.Accepted, repository(true)},
		{"Repository of a user without spec.deployment", inventory.Accepted, repository(false)},
		{"Repository whose cluster was deleted", inventory.Absent, repository(true, metav1.Condition{Type: "Detached", Status: "False"})},
	} {
		plan := binding.PlanRepository(&binding.RepositoryInput{Namespace: "default", Name: "edge1", Cluster: tc.cluster, Stored: tc.stored, Now: time.Unix(0, 0)})
		add(tc.cause, plan.UpdateStatus.Conditions)
	}
	drained := binding.PlanRepository(&binding.RepositoryInput{
		Namespace: "default", Name: "edge1", Cluster: inventory.Accepted, Labels: map[string]string{controlv1alpha1.LabelDrained: "true"},
		Stored: repository(true, metav1.Condition{Type: "Detached", Status: "False", Reason: configv1alpha1.ReasonAttached}), Now: time.Unix(0, 0),
	})
	add("Repository whose cluster is drained", drained.UpdateStatus.Conditions)
	created := binding.PlanRepository(&binding.RepositoryInput{Namespace: "default", Name: "edge1", Cluster: inventory.Accepted, Now: time.Unix(0, 0)}).Create
	texts = append(texts, golden.Text{Heading: "spec.description of a Repository for a cluster", Text: created.Spec.Description})

	latest := &storev1alpha1.PackageRevision{ObjectMeta: metav1.ObjectMeta{Name: "edge1.web.v1"}}
	latest.Spec.Revision, latest.Content.Digest = 1, "sha256:1"
	for _, tc := range []struct {
		cause  string
		change func(b *controlv1alpha1.Binding)
	}{
		{"a package that is delivered", func(*controlv1alpha1.Binding) {}},
		{"a package that is being delivered", func(b *controlv1alpha1.Binding) { b.Spec.Workload.Packages[0].Digest = "sha256:0" }},
		{"a package whose cluster was deleted", func(b *controlv1alpha1.Binding) { b.Spec.Destinations = nil }},
		{"a package with errors", func(b *controlv1alpha1.Binding) {
			b.Status.Errors = []string{"e1", "e2", "e3", "e4", "e5"}
			meta.SetStatusCondition(&b.Status.Conditions, metav1.Condition{Type: "Delivered", Status: "False", Reason: controlv1alpha1.ReasonFailed, Message: "5 errors, see status.errors"})
		}},
		{"a package that is not healthy", func(b *controlv1alpha1.Binding) {
			b.Status.Problems = []string{"p1"}
			meta.SetStatusCondition(&b.Status.Conditions, metav1.Condition{Type: "Healthy", Status: "False", Reason: controlv1alpha1.ReasonUnhealthy, Message: "1 problem, see status.problems"})
		}},
	} {
		b := &controlv1alpha1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "edge1-web-0f3c"}}
		b.Spec.Destinations = []controlv1alpha1.Destination{{ClusterID: "edge1"}}
		b.Spec.Workload.Packages = []controlv1alpha1.PackageClause{{Repository: "edge1", Name: latest.Name, Digest: latest.Content.Digest}}
		for _, kind := range []string{"Delivered", "Applied", "Healthy"} {
			b.Status.Conditions = append(b.Status.Conditions, metav1.Condition{Type: kind, Status: "True", Reason: kind, Message: "3 objects for 1 cluster"})
		}
		tc.change(b)
		add(tc.cause, binding.Conditions(b, latest, 1))
	}
	golden.Texts(t, texts...)
}
