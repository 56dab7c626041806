package packages

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/upgrade"
)

// TestGatesOfOtherContent: a gate that was met for other content is not met, however the content
// was changed, until its condition is set again.
func TestGatesOfOtherContent(t *testing.T) {
	e := newEnvironment(t)
	v1 := e.make(t, e.revision("upstream", "web", "v1"))
	e.write(t, v1.Name, map[string]string{"deployment.yaml": deployment})
	v1 = e.move(t, v1, published)
	v2 := e.make(t, e.revision("upstream", "web", "v2"), task(porchv1alpha1.TaskTypeEdit, v1.Name))
	v2.Spec.ReadinessGates = append(v2.Spec.ReadinessGates, porchv1alpha1.ReadinessGate{ConditionType: "SignedUpstream"})
	v2.Status.Conditions = append(v2.Status.Conditions, porchv1alpha1.Condition{Type: "SignedUpstream", Status: "True"})
	v2 = must[*porchv1alpha1.PackageRevision](t)(e.admin.revisions(e.namespace).Update(t.Context(), v2, metav1.UpdateOptions{}))
	e.write(t, v2.Name, map[string]string{"deployment.yaml": deployment + "  paused: true\n"})
	e.set(t, v2.Name, "SignedUpstream", "two")
	v2 = e.move(t, v2, published)

	mine := e.revision("edge", "web", "a")
	mine.Spec.ReadinessGates = []porchv1alpha1.ReadinessGate{{ConditionType: "Scanned"}, {ConditionType: "Reviewed"}}
	mine = e.make(t, mine, task(porchv1alpha1.TaskTypeClone, v1.Name))
	propose := func() error {
		return e.admin.rest.Patch(types.MergePatchType).Namespace(e.namespace).Resource("packagerevisions").Name(mine.Name).
			Body([]byte(`{"spec":{"lifecycle":"Proposed"}}`)).Param("dryRun", "All").Do(t.Context()).Error()
	}
	for name, change := range map[string]func(){
		"Push": func() {
			e.write(t, mine.Name, map[string]string{"note.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: note\n"})
		},
		"Metadata": func() {
			patch := `{"spec":{"packageMetadata":{"labels":{"tier":"one"}}}}`
			if err := e.admin.rest.Patch(types.MergePatchType).Namespace(e.namespace).Resource("packagerevisions").Name(mine.Name).Body([]byte(patch)).Do(t.Context()).Error(); err != nil {
				t.Fatal(err)
			}
		},
		"MergedUpstream": func() {
			files := e.files(t, mine.Name)
			merged, err := upgrade.Merge(porchv1alpha1.ResourceMerge, e.files(t, v1.Name), e.storedRevision(t, v2.Name), e.files(t, v2.Name), files, nil)
			if err != nil {
				t.Fatal(err)
			}
			kptfile, err := kpt.ParseKptfile(merged.Files[kpt.KptfileName])
			if err != nil {
				t.Fatal(err)
			}
			before, err := kpt.ParseKptfile(files[kpt.KptfileName])
			if err != nil {
				t.Fatal(err)
			}
			if err := kptfile.SetConditions(before.Conditions()); err != nil {
				t.Fatal(err)
			}
			merged.Files[kpt.KptfileName] = kptfile.String()
			e.write(t, mine.Name, merged.Files)
		},
	} {
		e.set(t, mine.Name, "Scanned", name)
		e.set(t, mine.Name, "Reviewed", name)
		if err := propose(); err != nil {
			t.Fatalf("%s: all gates are met: %v", name, err)
		}
		digest := e.storedRevision(t, mine.Name).Status.ContentDigest
		change()
		now := e.storedRevision(t, mine.Name)
		if now.Status.ContentDigest == digest {
			t.Fatalf("%s: the content is the same", name)
		}
		for _, c := range now.Status.Conditions {
			if c.Type == "Scanned" && (c.Status != porchv1alpha1.ConditionUnknown || c.Reason != porchv1alpha1.ReasonContentChanged) {
				t.Errorf("%s: condition %+v", name, c)
			}
		}
		for _, gate := range now.Spec.ReadinessGates {
			if gate.ConditionType == "SignedUpstream" {
				t.Errorf("%s: the package has the gate of its upstream", name)
			}
		}
		if err := propose(); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "Scanned (Unknown: ContentChanged: the content has changed since this condition was True") {
			t.Errorf("%s: propose with gates of other content: %v", name, err)
		}
	}

	// Conditions that are set with the content are about it.
	text := e.files(t, mine.Name)[kpt.KptfileName]
	kptfile, err := kpt.ParseKptfile(text)
	if err != nil {
		t.Fatal(err)
	}
	conditions := kptfile.Conditions()
	for i := range conditions {
		if conditions[i].Reason == porchv1alpha1.ReasonContentChanged {
			conditions[i] = kpt.Condition{Type: conditions[i].Type, Status: "True", Reason: "Done"}
		}
	}
	if err := kptfile.SetConditions(conditions); err != nil {
		t.Fatal(err)
	}
	e.write(t, mine.Name, map[string]string{"other.txt": "other", kpt.KptfileName: kptfile.String()})
	if err := propose(); err != nil {
		t.Errorf("conditions that were set with the content: %v", err)
	}
	e.checkConsistent(t, false)
}

// set makes a condition True by an update of the revision. The content stays.
func (e *environment) set(t *testing.T, name, condition, reason string) {
	t.Helper()
	pr := must[*porchv1alpha1.PackageRevision](t)(e.admin.revisions(e.namespace).Get(t.Context(), name, metav1.GetOptions{}))
	set := porchv1alpha1.Condition{Type: condition, Status: porchv1alpha1.ConditionTrue, Reason: "Done", Message: fmt.Sprint("for ", reason)}
	found := false
	for i := range pr.Status.Conditions {
		if pr.Status.Conditions[i].Type == condition {
			pr.Status.Conditions[i], found = set, true
		}
	}
	if !found {
		pr.Status.Conditions = append(pr.Status.Conditions, set)
	}
	must[*porchv1alpha1.PackageRevision](t)(e.admin.revisions(e.namespace).Update(t.Context(), pr, metav1.UpdateOptions{}))
}
