package packages

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/packages/content"
	"github.com/starlinghq/starling/test/testenv"
)

// storedRevisions returns the stored revisions of a namespace, or with "" of all.
func (e *environment) storedRevisions(t *testing.T, namespace string) []storev1alpha1.PackageRevision {
	t.Helper()
	list, err := e.dynamic.Resource(storev1alpha1.PackageRevisions).Namespace(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out := make([]storev1alpha1.PackageRevision, len(list.Items))
	for i := range list.Items {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, &out[i]); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// checkConsistent fails the test unless the stored objects are consistent: all content exists and
// agrees with its revision, the numbers of a package have no gaps and no duplicates, the last
// published revision of each package has the label, and a collection leaves exactly the content
// that revisions refer to. If deletedSome is true, numbers may have gaps. A test that calls it must
// not run in parallel with others, because it collects the content of all namespaces.
func (e *environment) checkConsistent(t *testing.T, deletedSome bool) {
	t.Helper()
	store, err := content.New(e.config, clocktesting.NewFakePassiveClock(time.Now().Add(2*content.Grace)))
	if err != nil {
		t.Fatal(err)
	}
	revisions := e.storedRevisions(t, e.namespace)
	numbers := map[string][]int{}
	for i := range revisions {
		cr := &revisions[i]
		for _, digest := range []string{cr.Content.Digest, cr.Content.Base, cr.Content.UpstreamDigest} {
			if digest == "" {
				continue
			}
			if _, err := store.Get(t.Context(), digest); err != nil {
				t.Errorf("%s: %v", cr.Name, err)
			}
		}
		checkKptfile(t, store, cr)
		key := cr.Spec.RepositoryName + "." + cr.Spec.PackageName
		if cr.Spec.Lifecycle.Published() != (cr.Spec.Revision > 0) {
			t.Errorf("%s is %s with revision %d", cr.Name, cr.Spec.Lifecycle, cr.Spec.Revision)
		}
		if cr.Spec.Revision > 0 {
			numbers[key] = append(numbers[key], cr.Spec.Revision)
		}
	}
	for name, got := range numbers {
		slices.Sort(got)
		for i, n := range got {
			if i > 0 && got[i-1] == n || n != i+1 && !deletedSome {
				t.Errorf("package %s has revisions %v", name, got)
				break
			}
		}
	}
	testenv.Eventually(t, testTimeout, func() (bool, string) { return e.checkLatestLabels(t) })
	e.checkCollection(t, store)
}

// checkKptfile fails the test unless Kptfile and revision agree.
func checkKptfile(t *testing.T, store *content.Store, cr *storev1alpha1.PackageRevision) {
	t.Helper()
	files, err := store.Get(t.Context(), cr.Content.Digest)
	if err != nil {
		return // reported by the caller
	}
	kptfile, err := kpt.ParseKptfile(files[kpt.KptfileName])
	if err != nil {
		t.Errorf("%s: %v", cr.Name, err)
		return
	}
	saidGates, saidConditions := kptfile.ReadinessGates(), kptfile.Conditions()
	if cr.Content.Imported { // the server says of the pipeline that it does not know, whatever the Kptfile says
		isPipelines := func(conditionType string) bool { return conditionType == porchv1alpha1.ConditionPipelinePassed }
		cr = cr.DeepCopy()
		cr.Spec.ReadinessGates = slices.DeleteFunc(cr.Spec.ReadinessGates, func(g porchv1alpha1.ReadinessGate) bool { return isPipelines(g.ConditionType) })
		cr.Status.Conditions = slices.DeleteFunc(cr.Status.Conditions, func(c porchv1alpha1.Condition) bool { return isPipelines(c.Type) })
		saidGates = slices.DeleteFunc(saidGates, func(g kpt.ReadinessGate) bool { return isPipelines(g.ConditionType) })
		saidConditions = slices.DeleteFunc(saidConditions, func(c kpt.Condition) bool { return isPipelines(c.Type) })
	}
	said := []any{saidGates, saidConditions}
	gates, conditions := []kpt.ReadinessGate{}, []kpt.Condition{}
	for _, gate := range cr.Spec.ReadinessGates {
		gates = append(gates, kpt.ReadinessGate{ConditionType: gate.ConditionType})
	}
	for _, c := range cr.Status.Conditions {
		if c.Type == porchv1alpha1.ConditionPipelinePassed && c.Status == porchv1alpha1.ConditionFalse {
			c.Message = "see the PackageRevision" // the Kptfile goes to git
		}
		conditions = append(conditions, kpt.Condition{Type: c.Type, Status: string(c.Status), Reason: c.Reason, Message: c.Message})
	}
	want, err := json.Marshal([]any{gates, conditions})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := json.Marshal(said); err != nil || string(got) != string(want) {
		t.Errorf("%s: the Kptfile says %s, the revision %s (%v)", cr.Name, got, want, err)
	}
	if int(cr.Content.Files) != len(files) {
		t.Errorf("%s: %d files, said to be %d", cr.Name, len(files), cr.Content.Files)
	}
}

// checkLatestLabels reports whether exactly the last published revision of each package has the
// label.
func (e *environment) checkLatestLabels(t *testing.T) (bool, string) {
	t.Helper()
	last := map[string]int{}
	revisions := e.storedRevisions(t, e.namespace)
	for i := range revisions {
		cr := &revisions[i]
		key := cr.Spec.RepositoryName + "." + cr.Spec.PackageName
		if cr.DeletionTimestamp == nil {
			last[key] = max(last[key], cr.Spec.Revision)
		}
	}
	for i := range revisions {
		cr := &revisions[i]
		want := cr.Spec.Revision > 0 && cr.Spec.Revision == last[cr.Spec.RepositoryName+"."+cr.Spec.PackageName]
		if got := cr.Labels[porchv1alpha1.LatestRevisionLabel] == "true"; got != want {
			return false, fmt.Sprintf("%s, revision %d: labelled as latest %t", cr.Name, cr.Spec.Revision, got)
		}
	}
	return true, ""
}

// checkCollection deletes unused content, and fails the test if content without a reference
// remains, or content with one is deleted.
func (e *environment) checkCollection(t *testing.T, store *content.Store) {
	t.Helper()
	named := map[string]bool{}
	all := e.storedRevisions(t, metav1.NamespaceAll)
	for i := range all {
		for _, digest := range []string{all[i].Content.Digest, all[i].Content.Base, all[i].Content.UpstreamDigest} {
			named[digest] = true
		}
	}
	if _, err := store.Collect(t.Context(), func(context.Context) (map[string]bool, error) { return named, nil }); err != nil {
		t.Fatal(err)
	}
	chunks, err := e.dynamic.Resource(storev1alpha1.ContentChunks).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	left := map[string]bool{}
	for i := range chunks.Items {
		digest, _ := chunks.Items[i].Object["digest"].(string)
		left[digest] = true
		if !named[digest] {
			t.Errorf("content %s is left without an owner", strings.TrimPrefix(digest, "sha256:"))
		}
	}
	for digest := range named {
		if digest != "" && !left[digest] {
			t.Errorf("content %s was collected, and is named", digest)
		}
	}
}
