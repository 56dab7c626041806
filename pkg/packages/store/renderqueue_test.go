package store

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/render"
)

// singleContent is a Content with one set of files.
type singleContent struct {
	Content
	files kpt.Files
}

func (k singleContent) Get(context.Context, string) (kpt.Files, error) { return k.files, nil }

// TestRenderQueue checks that everything that merges or renders waits for its turn.
func TestRenderQueue(t *testing.T) {
	files := kpt.Files{"Kptfile": "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: a\n"}
	upstream := &storev1alpha1.PackageRevision{ObjectMeta: metav1.ObjectMeta{Name: "r.u.v1", Namespace: "n"}}
	upstream.Spec = porchv1alpha1.PackageRevisionSpec{RepositoryName: "r", PackageName: "u", WorkspaceName: "v1", Revision: 1, Lifecycle: porchv1alpha1.LifecyclePublished}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var answer any
		switch {
		case r.Method != http.MethodGet:
			t.Errorf("%s %s: something is written", r.Method, r.URL)
		case strings.HasSuffix(r.URL.Path, "/r.u.v1"):
			answer = upstream
		case strings.HasSuffix(r.URL.Path, "/packagerevisions"):
			answer = &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"}}
		}
		if answer == nil {
			http.NotFound(w, r) // Repositories are not served
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	s, err := New(Config{
		Space: &rest.Config{Host: server.URL}, Content: singleContent{files: files}, Clock: clocktesting.NewFakePassiveClock(time.Unix(0, 0)), RenderQueueTimeout: time.Millisecond,
		Render: func(context.Context, kpt.Files) (render.Result, error) {
			t.Error("rendered")
			return render.Result{}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if !s.renders.semaphore.TryAcquire(s.renders.size) {
		t.Fatal("the limiter is in use")
	}
	draft := &storev1alpha1.PackageRevision{ObjectMeta: metav1.ObjectMeta{Name: "r.a.v1", Namespace: "n"}}
	draft.Spec = porchv1alpha1.PackageRevisionSpec{RepositoryName: "r", PackageName: "a", WorkspaceName: "v1", Lifecycle: porchv1alpha1.LifecycleDraft}
	create := func(task porchv1alpha1.Task) func(context.Context) error {
		return func(ctx context.Context) error {
			pr := &porchv1alpha1.PackageRevision{ObjectMeta: metav1.ObjectMeta{Namespace: "n"}}
			pr.Spec = porchv1alpha1.PackageRevisionSpec{RepositoryName: "r", PackageName: "b", WorkspaceName: "v1", Tasks: []porchv1alpha1.Task{task}}
			_, err := s.Create(ctx, pr, "user", false)
			return err
		}
	}
	for name, do := range map[string]func(context.Context) error{
		"Init": create(porchv1alpha1.Task{Type: porchv1alpha1.TaskTypeInit, Init: &porchv1alpha1.PackageInitTaskSpec{}}),
		"Clone": create(porchv1alpha1.Task{Type: porchv1alpha1.TaskTypeClone, Clone: &porchv1alpha1.PackageCloneTaskSpec{
			Upstream: porchv1alpha1.UpstreamPackage{UpstreamRef: &porchv1alpha1.PackageRevisionRef{Name: upstream.Name}},
		}}),
		"Files": func(ctx context.Context) error {
			_, err := s.UpdateFiles(ctx, draft, &porchv1alpha1.PackageRevisionResources{Spec: porchv1alpha1.PackageRevisionResourcesSpec{Resources: files}}, "user", false)
			return err
		},
		"Gates": func(ctx context.Context) error {
			wanted := Serve(draft.DeepCopy())
			wanted.Spec.ReadinessGates = []porchv1alpha1.ReadinessGate{{ConditionType: "Mine"}}
			_, err := s.Update(ctx, draft.DeepCopy(), wanted, "user", false)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := do(t.Context()); !apierrors.IsTooManyRequests(err) {
				t.Errorf("while the limiter is in use: %v", err)
			}
		})
	}
}
