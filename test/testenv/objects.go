package testenv

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

// Parse returns the object that a text describes in YAML.
func Parse(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &obj.Object); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return obj
}

// Into converts an object to its type.
func Into[T any](t testing.TB, obj *unstructured.Unstructured) *T {
	t.Helper()
	out := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// Get returns an object, or nil if it does not exist.
func Get[T any](t testing.TB, objects dynamic.ResourceInterface, name string) *T {
	t.Helper()
	obj, err := objects.Get(t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return Into[T](t, obj)
}

// List returns objects by their names.
func List[T any](t testing.TB, objects dynamic.ResourceInterface, options metav1.ListOptions) map[string]*T {
	t.Helper()
	list, err := objects.List(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]*T{}
	for i := range list.Items {
		found[list.Items[i].GetName()] = Into[T](t, &list.Items[i])
	}
	return found
}

// Condition blocks until a condition of an object has the reason, for the current generation of the
// object. It returns the message of the condition.
func Condition(t testing.TB, objects dynamic.ResourceInterface, name, kind, reason string) string {
	t.Helper()
	type conditioned struct {
		metav1.ObjectMeta `json:"metadata"`
		Status            struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	var message string
	Eventually(t, Patience, func() (bool, string) {
		obj := Get[conditioned](t, objects, name)
		if obj == nil {
			return false, name + " does not exist"
		}
		c := meta.FindStatusCondition(obj.Status.Conditions, kind)
		if c == nil {
			return false, fmt.Sprintf("%s has no condition %s", name, kind)
		}
		message = c.Message
		return c.Reason == reason && c.ObservedGeneration == obj.Generation,
			fmt.Sprintf("%s of %s is %s (%s): %s; want %s", kind, name, c.Status, c.Reason, c.Message, reason)
	})
	return message
}

// Changed returns what differs between two states of objects, each by its name: it was created,
// updated or deleted, as a plan says it.
func Changed(before, after map[string]map[string]any) map[string]string {
	verbs := map[string]string{}
	for name, had := range before {
		if has, is := after[name]; !is {
			verbs[name] = "delete"
		} else if !cmp.Equal(had, has) {
			verbs[name] = "update"
		}
	}
	for name := range after {
		if _, had := before[name]; !had {
			verbs[name] = "create"
		}
	}
	return verbs
}
