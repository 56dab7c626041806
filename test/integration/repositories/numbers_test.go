package repositories

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/render"
	"github.com/starlinghq/starling/pkg/packages/store"
	"github.com/starlinghq/starling/test/testenv"
	"github.com/starlinghq/starling/test/testgit"
)

// store is what package-server approves with, through config.
func (e *environment) store(t *testing.T, config *rest.Config) *store.Store {
	t.Helper()
	s, err := store.New(store.Config{
		Space: config, Content: e.content(t), Clock: clock.RealClock{},
		Render: func(_ context.Context, files kpt.Files) (render.Result, error) {
			return render.Result{Files: files}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// propose makes a revision that waits for its approval.
func (e *environment) propose(t *testing.T, repo, pkg, workspace string) string {
	t.Helper()
	digest, err := e.content(t).Put(t.Context(), kpt.Files{"Kptfile": "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: x\n"})
	if err != nil {
		t.Fatal(err)
	}
	cr := &storev1alpha1.PackageRevision{
		ObjectMeta: metav1.ObjectMeta{Name: repo + "." + pkg + "." + workspace, Namespace: e.namespace},
		Spec:       porchv1alpha1.PackageRevisionSpec{RepositoryName: repo, PackageName: pkg, WorkspaceName: workspace, Lifecycle: porchv1alpha1.LifecycleProposed},
		Content:    storev1alpha1.Content{Digest: digest, Files: 1},
	}
	cr.APIVersion, cr.Kind = storev1alpha1.GroupVersion.String(), "PackageRevision"
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(cr)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.stored().Create(t.Context(), &unstructured.Unstructured{Object: object}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return cr.Name
}

// approve is one request for it, which may meet a conflict.
func (e *environment) approve(ctx context.Context, s *store.Store, name string) error {
	before, err := s.Get(ctx, e.namespace, name)
	if err != nil {
		return err
	}
	wanted := &porchv1alpha1.PackageRevision{}
	wanted.Spec.Lifecycle = porchv1alpha1.LifecyclePublished
	_, err = s.Approve(ctx, before, wanted, "jane", false)
	return err
}

// TestNumbersAreUnique: an import cannot choose its number, and an approval does not know tags. In
// any order, no number is given twice.
func TestNumbersAreUnique(t *testing.T) {
	t.Parallel()
	readOnly := func(url string) string {
		return fmt.Sprintf("{type: git, export: Disabled, %s, git: {repo: %q}}", everySecond, url)
	}
	t.Run("ApprovalInProgress", func(t *testing.T) {
		t.Parallel()
		e := newEnvironment(t)
		r := testgit.New(t)
		r.Package("web", "one")
		commit := r.Commit("main", "one")
		r.Tag("web/v1", commit)
		e.run(t)
		e.create(t, "up", readOnly(r.URL()))
		e.waitForRevisions(t, "up.web.main -1 one", "up.web.v1 1 one latest")

		name := e.propose(t, "up", "web", "mine")
		held, imported := make(chan struct{}), make(chan struct{})
		var once sync.Once
		s := e.store(t, testenv.AfterWrite(e.config, "(POST|PUT|PATCH) packagenumbers", func() {
			once.Do(func() {
				close(held)
				<-imported
			})
		}))
		failed := make(chan error, 1)
		go func() { failed <- e.approve(t.Context(), s, name) }()
		<-held
		r.Tag("web/v2", commit)
		e.waitForRevisions(t, "up.web.main -1 one", "up.web.mine 0 ", "up.web.v1 1 one", "up.web.v2 2 one latest")
		close(imported)
		if err := <-failed; !apierrors.IsConflict(err) {
			t.Errorf("the approval ended with %v, want a conflict", err)
		}
		if err := e.approve(t.Context(), s, name); err != nil {
			t.Fatal(err)
		}
		e.waitForRevisions(t, "up.web.main -1 one", "up.web.mine 3  latest", "up.web.v1 1 one", "up.web.v2 2 one")
	})
	t.Run("ImportInProgress", func(t *testing.T) {
		t.Parallel()
		e := newEnvironment(t)
		r := testgit.New(t)
		r.Package("web", "one")
		r.Tag("web/v4", r.Commit("main", "one"))
		reserved, approved := make(chan struct{}), make(chan struct{})
		var once sync.Once
		e.controllers = testenv.AfterWrite(e.controllers, "POST packagenumbers", func() {
			once.Do(func() {
				close(reserved)
				<-approved
			})
		})
		e.run(t)
		e.create(t, "up", readOnly(r.URL()))
		<-reserved
		s := e.store(t, e.config)
		if err := e.approve(t.Context(), s, e.propose(t, "up", "web", "mine")); err != nil {
			t.Fatal(err)
		}
		close(approved)
		e.waitForRevisions(t, "up.web.main -1 one", "up.web.mine 5  latest", "up.web.v4 4 one")
	})
	t.Run("Many", func(t *testing.T) {
		t.Parallel()
		const packageCount, approvals = 3, 6
		e := newEnvironment(t)
		r := testgit.New(t)
		for p := range packageCount {
			r.Package(fmt.Sprint("p", p), "one")
		}
		commit := r.Commit("main", "one")
		e.run(t)
		e.create(t, "up", readOnly(r.URL()))
		s := e.store(t, e.config)
		var names []string
		for p := range packageCount {
			for i := range approvals {
				names = append(names, e.propose(t, "up", fmt.Sprint("p", p), fmt.Sprint("w", i)))
			}
		}
		var approving sync.WaitGroup
		for worker := range 3 {
			approving.Go(func() {
				for i := worker; i < len(names); i += 3 {
					err := e.approve(t.Context(), s, names[i])
					for apierrors.IsConflict(err) {
						err = e.approve(t.Context(), s, names[i])
					}
					if err != nil {
						t.Errorf("approve %s: %v", names[i], err)
					}
				}
			})
		}
		for n := 1; n <= 2*approvals; n += 2 {
			for p := range packageCount {
				r.Tag(fmt.Sprintf("p%d/v%d", p, n), commit)
			}
		}
		approving.Wait()
		e.quiet(t)
		given := map[string]string{}
		published, imported := 0, 0
		all := e.revisions(t)
		for _, name := range slices.Sorted(maps.Keys(all)) {
			cr := all[name]
			if cr.Spec.Revision <= 0 {
				continue
			}
			published++
			if cr.Content.Imported {
				imported++
			}
			key := fmt.Sprintf("%s v%d", cr.Spec.PackageName, cr.Spec.Revision)
			if given[key] != "" {
				t.Errorf("%s is both %s and %s", key, given[key], name)
			}
			given[key] = name
		}
		t.Logf("%d imported among %d", imported, published)
		if published-imported != len(names) {
			t.Errorf("%d revisions have numbers, %d of them imported; %d were approved", published, imported, len(names))
		}
	})
}
