package store

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/render"
	"github.com/starlinghq/starling/pkg/packages/functionrunner"
	"github.com/starlinghq/starling/test/golden"
)

// TestTexts has the errors that users get, and the condition of the pipeline.
func TestTexts(t *testing.T) {
	var texts []golden.Text
	add := func(heading, text string) { texts = append(texts, golden.Text{Heading: heading, Text: text}) }
	addError := func(heading string, err error) {
		t.Helper()
		if err == nil {
			t.Errorf("%s: no error", heading)
			return
		}
		add(heading+": "+string(apierrors.ReasonForError(err)), err.Error())
	}
	revision := func(change func(*porchv1alpha1.PackageRevision)) *porchv1alpha1.PackageRevision {
		pr := &porchv1alpha1.PackageRevision{Spec: porchv1alpha1.PackageRevisionSpec{RepositoryName: "edge", PackageName: "web", WorkspaceName: "v2"}}
		change(pr)
		return pr
	}
	clone := []porchv1alpha1.Task{{Type: porchv1alpha1.TaskTypeClone, Clone: &porchv1alpha1.PackageCloneTaskSpec{
		Upstream: porchv1alpha1.UpstreamPackage{UpstreamRef: &porchv1alpha1.PackageRevisionRef{Name: "catalog.web.v1"}},
	}}}

	named := revision(func(pr *porchv1alpha1.PackageRevision) { pr.Name = "edge.web.v2" })
	addError("create with a name", validateAndDefault(revision(func(pr *porchv1alpha1.PackageRevision) { pr.Name = "web" })))
	addError("create with labels", validateAndDefault(revision(func(pr *porchv1alpha1.PackageRevision) {
		pr.Labels = map[string]string{porchv1alpha1.LatestRevisionLabel: "true", fencedLabel: ""}
	})))
	neighbour := func(self bool) neighbourFinder {
		return func(key layoutKey) ([]neighbour, error) {
			if key.self == self {
				return []neighbour{{name: "edge.web.v1", uid: "1"}}, nil
			}
			return nil, nil
		}
	}
	_, err := checkNeighbours(named, "", neighbour(false))
	addError("create within another package", err)
	_, err = checkNeighbours(revision(func(pr *porchv1alpha1.PackageRevision) { pr.Name, pr.Spec.Tasks = named.Name, clone }), "", neighbour(true))
	addError("clone into an existing package", err)
	addError("edit another package", samePackage(named, &storev1alpha1.PackageRevision{
		ObjectMeta: metav1.ObjectMeta{Name: "catalog.db.v1"}, Spec: porchv1alpha1.PackageRevisionSpec{RepositoryName: "catalog", PackageName: "db"},
	}, "edit.sourceRef"))

	addError("no Kptfile", second(rendering(passes).renderDraft(t.Context(), "edge.web.v2", draft{files: kpt.Files{"a.yaml": "a: 1\n"}})))
	files := kpt.Files{kpt.KptfileName: kpt.NewKptfile("web", "").String()}
	addError("a function is killed", second(rendering(func(files kpt.Files) (render.Result, error) {
		return render.Result{Files: files}, &functionrunner.KilledError{Image: "starlark:v0.5", Reason: "it took longer than 10s"}
	}).renderDraft(t.Context(), "edge.web.v2", draft{files: files})))
	for _, failed := range []error{nil, errors.New("pipeline.validators[0]: kubeconform:v0.1: web.yaml: spec.replicas is of type string, want integer")} {
		rendered, err := rendering(func(files kpt.Files) (render.Result, error) {
			return render.Result{Files: files}, failed
		}).renderDraft(t.Context(), "edge.web.v2", draft{files: files})
		if err != nil {
			t.Fatal(err)
		}
		c := rendered.conditions[0]
		add(fmt.Sprintf("%s=%s/%s", c.Type, c.Status, c.Reason), c.Message)
	}

	limiter := newRenderLimiter(1, time.Millisecond)
	if !limiter.semaphore.TryAcquire(limiter.size) {
		t.Fatal("the limiter is in use")
	}
	addError("busy", second(limiter.acquire(t.Context())))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	addError("timeout", second(limiter.acquire(ended)))

	stored := schema.GroupResource{Group: storev1alpha1.GroupName, Resource: "packagerevisions"}
	addError("stored object not found", TranslateError(apierrors.NewNotFound(stored, "edge.web.v2"), "edge.web.v2"))
	addError("stored object changed", TranslateError(apierrors.NewConflict(stored, "edge.web.v2", errors.New("x")), "edge.web.v2"))
	addError("stored object forbidden", TranslateError(apierrors.NewForbidden(stored, "edge.web.v2", errors.New("RBAC")), "edge.web.v2"))
	addError("stored object invalid", TranslateError(apierrors.NewInvalid(schema.GroupKind{Group: storev1alpha1.GroupName, Kind: "PackageRevision"}, "edge.web.v2", field.ErrorList{
		field.TooLong(field.NewPath("spec", "tasks"), "", 64),
	}), "edge.web.v2"))

	golden.Texts(t, texts...)
}

func second[T any](_ T, err error) error { return err }
