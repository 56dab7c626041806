package testenv

import (
	"fmt"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// Allowed waits until an API server lets a user do something, or no longer does: it acts by rights
// a moment after they were written.
func Allowed(t testing.TB, config *rest.Config, want bool, user string, what authorizationv1.ResourceAttributes) {
	t.Helper()
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	review, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&authorizationv1.SubjectAccessReview{
		TypeMeta: metav1.TypeMeta{APIVersion: authorizationv1.SchemeGroupVersion.String(), Kind: "SubjectAccessReview"},
		Spec:     authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &what},
	})
	if err != nil {
		t.Fatal(err)
	}
	reviews := client.Resource(authorizationv1.SchemeGroupVersion.WithResource("subjectaccessreviews"))
	Eventually(t, time.Minute, func() (bool, string) {
		answer, err := reviews.Create(t.Context(), &unstructured.Unstructured{Object: review}, metav1.CreateOptions{})
		if err != nil {
			return false, err.Error()
		}
		allowed, _, err := unstructured.NestedBool(answer.Object, "status", "allowed")
		return err == nil && allowed == want, fmt.Sprintf("%s may %s %s: %t", user, what.Verb, what.Resource, allowed)
	})
}
