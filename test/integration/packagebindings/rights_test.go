package packagebindings

import (
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	"github.com/starlinghq/starling/test/testenv"
)

// TestClusterRepositories: the binding-controller writes the Repositories of clusters, and none
// that a user wrote.
func TestClusterRepositories(t *testing.T) {
	e := newEnvironment(t)
	wds := e.fleet.Space(t, "wds1")
	wds.InstallRights(t, "wds")
	repository := func(name, cluster string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"deployment": true, "type": "hub"}}}
		o.SetGroupVersionKind(configv1alpha1.GroupVersion.WithKind("Repository"))
		o.SetName(name)
		if cluster != "" {
			o.SetAnnotations(map[string]string{configv1alpha1.ClusterAnnotation: cluster})
		}
		return o
	}
	admin := e.wds.Resource(configv1alpha1.Repositories).Namespace(e.namespace)
	for _, r := range []*unstructured.Unstructured{repository("edge", "edge"), repository("users", ""), repository("copy", "edge")} {
		if _, err := admin.Create(t.Context(), r, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	client, err := dynamic.NewForConfig(wds.AsServiceAccount("starling-system", "binding-controller"))
	if err != nil {
		t.Fatal(err)
	}
	controller := client.Resource(configv1alpha1.Repositories).Namespace(e.namespace)
	dryRun := []string{metav1.DryRunAll}
	create := func(name, cluster string) error {
		_, err := controller.Create(t.Context(), repository(name, cluster), metav1.CreateOptions{DryRun: dryRun})
		return err
	}
	update := func(name string, change func(*unstructured.Unstructured)) error {
		o, err := admin.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		change(o)
		_, err = controller.Update(t.Context(), o, metav1.UpdateOptions{DryRun: dryRun})
		return err
	}
	label := func(o *unstructured.Unstructured) { o.SetLabels(map[string]string{"site": "x"}) }
	spec := func(o *unstructured.Unstructured) {
		o.Object["spec"] = map[string]any{"deployment": false, "type": "hub"}
	}
	remove := func(name string) error {
		return controller.Delete(t.Context(), name, metav1.DeleteOptions{DryRun: dryRun})
	}
	// Rights and a policy take effect some time after they were created.
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		if err := create("new", "new"); err != nil {
			return false, fmt.Sprint("the rights are not in force: ", err)
		}
		return create("new", "") != nil, "the policy is not in force"
	})
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"Creates":           {create("new", "new"), true},
		"CreatesOneOfUsers": {create("new", ""), false},
		"CreatesACopy":      {create("new", "edge"), false},
		"Labels":            {update("edge", label), true},
		"LabelsOneOfUsers":  {update("users", label), false},
		"LabelsACopy":       {update("copy", label), false},
		"ChangesTheSpec":    {update("edge", spec), false},
		"TakesOneOfUsers": {update("users", func(o *unstructured.Unstructured) {
			o.SetAnnotations(map[string]string{configv1alpha1.ClusterAnnotation: "users"})
		}), false},
		"Deletes":             {remove("edge"), true},
		"DeletesOneOfUsers":   {remove("users"), false},
		"DeletesACopy":        {remove("copy"), false},
		"WritesAnyonesStatus": {e.status(controller, "users"), true},
	} {
		if tc.want != (tc.err == nil) || tc.err != nil && !apierrors.IsForbidden(tc.err) && !apierrors.IsInvalid(tc.err) {
			t.Errorf("%s: allowed %t, want %t: %v", name, tc.err == nil, tc.want, tc.err)
		}
	}
}

// status returns what becomes of an update of the status of a Repository.
func (e *environment) status(as dynamic.ResourceInterface, name string) error {
	e.t.Helper()
	o, err := e.wds.Resource(configv1alpha1.Repositories).Namespace(e.namespace).Get(e.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		e.t.Fatal(err)
	}
	_, err = as.UpdateStatus(e.t.Context(), o, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}
