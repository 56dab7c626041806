package packages

import (
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/pkg/packages"
)

// TestKilledBetweenWrites: a replica is killed at each point between two writes. What it had done is whole, what was asked of it can
// be asked of another, and nothing is there twice.
func TestKilledBetweenWrites(t *testing.T) {
	e := newEnvironment(t)
	ctx := t.Context()
	for _, point := range packages.Points() {
		name := strings.ReplaceAll(point, "/", "-")
		kind, _, _ := strings.Cut(point, "/")
		t.Run(name, func(t *testing.T) {
			// A package with one published revision, and another on its way.
			first := e.move(t, e.make(t, e.revision("upstream", name, "v1")), published)
			second := e.make(t, e.revision("upstream", name, "v2"), task(porchv1alpha1.TaskTypeEdit, first.Name))
			e.write(t, second.Name, map[string]string{"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n"})
			third := e.revision("upstream", name, "v3")
			third.Spec.Tasks = []porchv1alpha1.Task{task(porchv1alpha1.TaskTypeEdit, first.Name)}
			before := map[string]porchv1alpha1.PackageRevisionLifecycle{
				"approve": proposed, "delete": deletionProposed, "create": draft, "update": draft, "propose": draft,
			}[kind]
			second = e.move(t, second, before)

			operation := func(u *user) error {
				switch kind {
				case "create":
					_, err := u.create(ctx, third)
					return err
				case "update":
					prr, err := u.resources(e.namespace).Get(ctx, second.Name, metav1.GetOptions{})
					if err != nil {
						return err
					}
					prr.Spec.Resources["b.yaml"] = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: b\n"
					_, err = u.resources(e.namespace).Update(ctx, prr, metav1.UpdateOptions{})
					return err
				case "propose", "approve":
					pr, err := u.revisions(e.namespace).Get(ctx, second.Name, metav1.GetOptions{})
					if err != nil {
						return err
					}
					if before == draft {
						pr.Spec.Lifecycle = proposed
						_, err = u.revisions(e.namespace).Update(ctx, pr, metav1.UpdateOptions{})
						return err
					}
					pr.Spec.Lifecycle = published
					_, err = u.approve(ctx, pr)
					return err
				default:
					return u.revisions(e.namespace).Delete(ctx, second.Name, metav1.DeleteOptions{})
				}
			}
			victim := e.start(t, []string{"STARLING_KILL_AT=" + point}, "--leader-elect=false", "--collect-every=1h")
			err := operation(newUser(t, victim.config))
			if _, answered := errors.AsType[*apierrors.StatusError](err); err == nil || answered {
				t.Fatalf("the replica answered, and was to be killed before that: %v", err)
			}
			victim.wait(t)
			e.consistent(t, before == deletionProposed)

			// Once more, of another replica: done now if it was not, refused or repeated without harm if it was.
			err = operation(e.admin)
			switch {
			case err == nil:
			case apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err): // created, or deleted
			case apierrors.IsInvalid(err) && point == packages.PointApproveRevision && strings.Contains(err.Error(), "from Published"):
			default:
				t.Errorf("once more: %v", err)
			}
			e.outcome(t, name, first, second)
			e.consistent(t, before == deletionProposed)
		})
	}
}

// outcome fails the test unless the operation was carried out, once.
func (e *environment) outcome(t *testing.T, name string, first, second *porchv1alpha1.PackageRevision) {
	t.Helper()
	list := must[*porchv1alpha1.PackageRevisionList](t)(e.admin.revisions(e.namespace).List(t.Context(), metav1.ListOptions{
		FieldSelector: "spec.packageName=" + name,
	}))
	got := map[string]porchv1alpha1.PackageRevision{}
	for _, pr := range list.Items {
		got[pr.Spec.WorkspaceName] = pr
	}
	want := 2
	switch kind, _, _ := strings.Cut(name, "-"); kind {
	case "create":
		want = 3
	case "delete":
		want = 1
	case "approve":
		if pr := got["v2"]; pr.Spec.Revision != 2 || pr.Spec.Lifecycle != published {
			t.Errorf("%s is %s with revision %d", pr.Name, pr.Spec.Lifecycle, pr.Spec.Revision)
		}
	case "propose":
		if pr := got["v2"]; pr.Spec.Lifecycle != proposed {
			t.Errorf("%s is %s", pr.Name, pr.Spec.Lifecycle)
		}
	case "update":
		prr := must[*porchv1alpha1.PackageRevisionResources](t)(e.admin.resources(e.namespace).Get(t.Context(), second.Name, metav1.GetOptions{}))
		if prr.Spec.Resources["b.yaml"] == "" || prr.Spec.Resources["a.yaml"] == "" {
			t.Errorf("files: %v", prr.Spec.Resources)
		}
	}
	if len(got) != want || got["v1"].UID != first.UID || len(list.Items) != want {
		t.Errorf("revisions: %d, want %d", len(list.Items), want)
	}
}
