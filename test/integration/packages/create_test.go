package packages

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/render"
	"github.com/starlinghq/starling/pkg/packages/content"
	"github.com/starlinghq/starling/pkg/packages/store"
	"github.com/starlinghq/starling/test/testenv"
)

// TestCreationIsUndone: a revision that others may have seen is deleted only because it conflicts
// with one that was created while it was rendered. It is not deleted because its client has gone,
// and not after somebody changed it.
func TestCreationIsUndone(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	contents := must[*content.Store](t)(content.New(e.config, clock.RealClock{}))
	for name, tc := range map[string]struct {
		conflicts, clientLeaves, changed bool
		refused, stays                   bool
	}{
		"nothing":                 {stays: true},
		"clientleaves":            {clientLeaves: true, stays: true},
		"conflict":                {conflicts: true, refused: true},
		"conflict-clientleaves":   {conflicts: true, clientLeaves: true, refused: true},
		"conflict-changed":        {conflicts: true, changed: true, refused: true, stays: true},
		"clientleaves-andchanged": {clientLeaves: true, changed: true, stays: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pr := e.revision("upstream", name+"/inside", "v1")
			stored := "upstream." + name + ".inside.v1"
			client := e.dynamic.Resource(storev1alpha1.PackageRevisions).Namespace(e.namespace)
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			created := func() {
				if tc.clientLeaves {
					leave()
				}
				if !tc.changed {
					return
				}
				if _, err := client.Patch(t.Context(), stored, types.MergePatchType, []byte(`{"metadata":{"labels":{"mine":"yes"}}}`), metav1.PatchOptions{}); err != nil {
					t.Error(err)
				}
			}
			s := must[*store.Store](t)(store.New(store.Config{
				Space: testenv.AfterWrite(e.config, "POST packagerevisions", created), Content: contents, Clock: clock.RealClock{},
				Render: func(_ context.Context, files kpt.Files) (render.Result, error) {
					if tc.conflicts {
						e.make(t, e.revision("upstream", name, "v1"))
					}
					return render.Result{Files: files}, nil
				},
			}))
			made, err := s.Create(ctx, pr, "jane", false)
			if refused := err != nil; refused != tc.refused {
				t.Errorf("the creation returned %v", err)
			}
			if tc.refused && !tc.stays && !apierrors.IsInvalid(err) {
				t.Errorf("the creation returned %v, want Invalid", err)
			}
			left, err := client.Get(t.Context(), stored, metav1.GetOptions{})
			switch {
			case !tc.stays:
				if !apierrors.IsNotFound(err) {
					t.Errorf("%s: %v, want NotFound", stored, err)
				}
			case err != nil:
				t.Error(err)
			case made != nil && made.UID != left.GetUID():
				t.Errorf("%s has been created again", stored)
			case (left.GetLabels()["mine"] == "yes") != tc.changed:
				t.Errorf("labels %v", left.GetLabels())
			}
		})
	}
}
