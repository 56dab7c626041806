package packages

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/packages/content"
	"github.com/starlinghq/starling/pkg/packages/store"
	"github.com/starlinghq/starling/test/testenv"
)

// crashPoints are the writes before or after which replicas are killed, as testenv.Proxy names
// them, by operation and progress. The content of a new revision may be stored already, so that no
// write stores it.
var crashPoints = map[string]string{
	"create/content-is-stored":   "before POST packagerevisions",
	"create/revision-is-stored":  "POST packagerevisions",
	"update/content-is-stored":   "(POST|PUT|PATCH) contentchunks",
	"update/revision-is-stored":  "(PUT|PATCH) packagerevisions",
	"propose/revision-is-stored": "(PUT|PATCH) packagerevisions",
	"approve/number-is-assigned": "(POST|PUT|PATCH) packagenumbers",
	"approve/revision-is-stored": "(PUT|PATCH) packagerevisions",
	"delete/label-is-moved":      "(PUT|PATCH) packagerevisions",
	"delete/revision-is-deleted": "DELETE packagerevisions",
}

// TestCrashBetweenWrites: a replica is killed at each point between two writes. The stored objects
// are consistent, another replica can repeat the operation, and nothing is done twice.
func TestCrashBetweenWrites(t *testing.T) {
	e := newEnvironment(t)
	ctx := t.Context()
	for point, write := range crashPoints {
		name := strings.ReplaceAll(point, "/", "-")
		kind, _, _ := strings.Cut(point, "/")
		t.Run(name, func(t *testing.T) {
			// A package with one published revision and one draft.
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
			victim := e.startAndKill(t, write, "--leader-elect=false", "--collect-every=1h")
			err := operation(newUser(t, victim.config))
			if _, answered := errors.AsType[*apierrors.StatusError](err); err == nil || answered {
				t.Fatalf("the replica answered before it was killed: %v", err)
			}
			victim.wait(t)
			e.checkConsistent(t, before == deletionProposed)

			// Another replica repeats the operation, or refuses it because it was done.
			err = operation(e.admin)
			switch {
			case err == nil:
			case apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err): // created, or deleted
			case apierrors.IsInvalid(err) && point == "approve/revision-is-stored" && strings.Contains(err.Error(), "from Published"):
			default:
				t.Errorf("once more: %v", err)
			}
			e.checkOutcome(t, name, first, second)
			e.checkConsistent(t, before == deletionProposed)
		})
	}
}

// checkOutcome fails the test unless the operation was carried out once.
func (e *environment) checkOutcome(t *testing.T, name string, first, second *porchv1alpha1.PackageRevision) {
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

// TestCrashBeforeRecheck: a package is created around one that is being cloned. The replica that
// clones is killed before it checks the layout again. No client received the clone, so it is
// deleted.
func TestCrashBeforeRecheck(t *testing.T) {
	e := newEnvironment(t)
	ctx := t.Context()
	slow := e.make(t, e.revision("upstream", "slow", "v1"))
	e.write(t, slow.Name, map[string]string{
		"Kptfile": "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: slow\npipeline:\n  mutators:\n  - image: starlark:v0.5.0\n    configPath: run.yaml\n",
		"run.yaml": "apiVersion: fn.kpt.dev/v1alpha1\nkind: StarlarkRun\nmetadata:\n  name: run\n  annotations:\n    config.kubernetes.io/local-config: \"true\"\nsource: |\n  def count():\n    for i in range(8000000):\n" +
			"      pass\n  count()\n",
	})
	slow = e.move(t, slow, published)
	var victim *replica
	var outer, inner string
	for attempt := 0; inner == ""; attempt++ {
		if attempt == 20 {
			t.Fatal("the package was never created while the clone was under way")
		}
		if victim == nil {
			victim = e.startAndKill(t, crashPoints["create/revision-is-stored"], "--leader-elect=false")
		}
		name := fmt.Sprintf("around%d", attempt)
		cloning := make(chan error)
		go func() {
			clone := e.revision("upstream", name+"/inside", "v1")
			clone.Spec.Tasks = []porchv1alpha1.Task{task(porchv1alpha1.TaskTypeClone, slow.Name)}
			_, err := newUser(t, victim.config).create(ctx, clone)
			cloning <- err
		}()
		around, err := e.admin.create(ctx, e.revision("upstream", name, "v1"))
		cloneErr := <-cloning
		_, answered := errors.AsType[*apierrors.StatusError](cloneErr)
		switch {
		case err == nil && cloneErr != nil && !answered:
			outer, inner = around.Name, "upstream."+name+".inside.v1"
		case err == nil && apierrors.IsInvalid(cloneErr): // the package existed first
		case apierrors.IsInvalid(err) && !answered: // the clone existed first
			victim.wait(t)
			victim = nil
		default:
			t.Fatalf("a package: %v; a clone inside of it: %v", err, cloneErr)
		}
	}
	victim.wait(t)
	testenv.Eventually(t, 30*time.Second, func() (bool, string) {
		_, err := e.admin.revisions(e.namespace).Get(t.Context(), inner, metav1.GetOptions{})
		return apierrors.IsNotFound(err), fmt.Sprintf("%s is there: %v", inner, err)
	})
	if _, err := e.admin.revisions(e.namespace).Get(t.Context(), outer, metav1.GetOptions{}); err != nil {
		t.Errorf("the package that was created first: %v", err)
	}
	e.checkConsistent(t, false)
}

// TestPackagesInPackages: a package within another one is deleted only if it is a draft that was
// not changed since its creation.
func TestPackagesInPackages(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	stored := e.dynamic.Resource(storev1alpha1.PackageRevisions).Namespace(e.namespace)
	other := e.make(t, e.revision("upstream", "other/inside", "v1"))
	template := must[*unstructured.Unstructured](t)(stored.Get(t.Context(), other.Name, metav1.GetOptions{}))
	digest, _, _ := unstructured.NestedString(template.Object, "content", "digest")
	files := must[kpt.Files](t)(must[*content.Store](t)(content.New(e.config, clock.RealClock{})).Get(t.Context(), digest))
	inside := map[string]string{}
	for _, name := range []string{"touched", "untouched"} {
		e.make(t, e.revision("upstream", name, "v1"))
		cr := &storev1alpha1.PackageRevision{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(template.Object, cr); err != nil {
			t.Fatal(err)
		}
		cr.ObjectMeta = metav1.ObjectMeta{Name: "upstream." + name + ".inside.v1", Namespace: e.namespace}
		cr.Spec.PackageName = name + "/inside"
		if err := store.SetContent(cr, files, cr.Content.Digest); err != nil { // sets the labels of its path
			t.Fatal(err)
		}
		obj := must[map[string]any](t)(runtime.DefaultUnstructuredConverter.ToUnstructured(cr))
		must[*unstructured.Unstructured](t)(stored.Create(t.Context(), &unstructured.Unstructured{Object: obj}, metav1.CreateOptions{}))
		inside[name] = cr.Name
		if name == "touched" {
			e.write(t, cr.Name, map[string]string{"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n"})
		}
	}
	testenv.Eventually(t, 30*time.Second, func() (bool, string) {
		_, err := e.admin.revisions(e.namespace).Get(t.Context(), inside["untouched"], metav1.GetOptions{})
		return apierrors.IsNotFound(err), fmt.Sprintf("%s is there: %v", inside["untouched"], err)
	})
	if _, err := e.admin.revisions(e.namespace).Get(t.Context(), inside["touched"], metav1.GetOptions{}); err != nil {
		t.Errorf("a draft that was changed after its creation is gone: %v", err)
	}
}
