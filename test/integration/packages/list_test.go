package packages

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
)

// createMany creates n stored revisions.
func (e *environment) createMany(t *testing.T, n int) {
	t.Helper()
	e.copyMany(t, e.make(t, e.revision("upstream", "first", "v1")).Name, n-1)
}

// copyMany stores n copies of a revision, each of another package.
func (e *environment) copyMany(t *testing.T, name string, n int) {
	t.Helper()
	stored := e.dynamic.Resource(storev1alpha1.PackageRevisions).Namespace(e.namespace)
	template, err := stored.Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	template.SetResourceVersion("")
	template.SetUID("")
	template.SetManagedFields(nil)
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(8)
	for i := range n {
		group.Go(func() error {
			obj := template.DeepCopy()
			obj.SetName(fmt.Sprintf("upstream.p%04d.v1", i))
			spec, _ := obj.Object["spec"].(map[string]any)
			spec["packageName"] = fmt.Sprintf("p%04d", i)
			_, err := stored.Create(ctx, obj, metav1.CreateOptions{})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

// TestListsAreCurrent: the result of a write through one replica is in the next list of another
// one, while others write. No list is older than the list before it.
func TestListsAreCurrent(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	const all, writers, writes, each = 300, 4, 8, 6
	e.createMany(t, all)
	replicas := []*user{e.admin, newUser(t, e.start(t, "--leader-elect=false").config), newUser(t, e.start(t, "--leader-elect=false").config)}
	list := func(ctx context.Context, u *user) (map[string]*porchv1alpha1.PackageRevision, int, error) {
		out, err := u.revisions(e.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, 0, err
		}
		byName := make(map[string]*porchv1alpha1.PackageRevision, len(out.Items))
		for i := range out.Items {
			byName[out.Items[i].Name] = &out.Items[i]
		}
		version, err := strconv.Atoi(out.ResourceVersion)
		return byName, version, err
	}
	group, ctx := errgroup.WithContext(t.Context())
	for w := range writers {
		group.Go(func() error {
			last := 0
			for n := range writes {
				through, other := replicas[(w+n)%len(replicas)], replicas[(w+n+1+n%2)%len(replicas)]
				name := fmt.Sprintf("upstream.p%04d.v1", w*each+n%each)
				value := fmt.Sprint(n)
				pr, err := through.revisions(e.namespace).Patch(ctx, name, types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{"n":%q}}}`, value), metav1.PatchOptions{})
				if err != nil {
					return err
				}
				made := e.revision("upstream", fmt.Sprintf("new-%d-%d", w, n), "v1")
				if made, err = through.create(ctx, made); err != nil {
					return err
				}
				got, version, err := list(ctx, other)
				if err != nil {
					return err
				}
				switch there := got[name]; {
				case there == nil || there.ResourceVersion != pr.ResourceVersion || there.Labels["n"] != value:
					t.Errorf("%s was written at %s, and is listed as %+v", name, pr.ResourceVersion, there)
				case got[made.Name] == nil || got[made.Name].UID != made.UID:
					t.Errorf("%s was created, and is not listed", made.Name)
				case version < last:
					t.Errorf("a list of %d after one of %d", version, last)
				}
				last = version
				if err := through.revisions(e.namespace).Delete(ctx, made.Name, metav1.DeleteOptions{}); err != nil {
					return err
				}
				if got, _, err = list(ctx, other); err != nil {
					return err
				}
				if got[made.Name] != nil || len(got) < all {
					t.Errorf("%s was deleted, and is listed among %d", made.Name, len(got))
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

// TestPages: all pages of a list have one resourceVersion, whichever replica serves them, and
// whatever is written in between.
func TestPages(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	const all = 700
	e.createMany(t, all)
	replicas := []*user{newUser(t, e.start(t, "--leader-elect=false").config), newUser(t, e.start(t, "--leader-elect=false").config)}
	var writing sync.WaitGroup
	defer writing.Wait()
	var stop atomic.Bool
	defer stop.Store(true)
	writing.Go(func() {
		for n := 0; !stop.Load(); n++ {
			_, err := e.admin.revisions(e.namespace).Patch(t.Context(), fmt.Sprintf("upstream.p%04d.v1", n%50*10), types.MergePatchType,
				fmt.Appendf(nil, `{"metadata":{"labels":{"n":"%d"}}}`, n), metav1.PatchOptions{})
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	for name, o := range map[string]metav1.ListOptions{"Large": {Limit: 300}, "Small": {Limit: 100}, "Selected": {Limit: 300, FieldSelector: "spec.lifecycle=Draft"}} {
		for round := range 3 {
			var moment string
			seen := map[string]bool{}
			for pages := 0; ; pages++ {
				page := must[*porchv1alpha1.PackageRevisionList](t)(replicas[(round+pages)%2].revisions(e.namespace).List(t.Context(), o))
				if moment == "" {
					moment = page.ResourceVersion
				}
				if page.ResourceVersion != moment {
					t.Errorf("%s: a page of %s behind one of %s", name, page.ResourceVersion, moment)
				}
				limit, _ := strconv.Atoi(moment)
				for i := range page.Items {
					if v, _ := strconv.Atoi(page.Items[i].ResourceVersion); v > limit {
						t.Errorf("%s: %s at %d in a list of %s", name, page.Items[i].Name, v, moment)
					}
					seen[page.Items[i].Name] = true
				}
				if int64(len(page.Items)) > o.Limit {
					t.Errorf("%s: a page of %d", name, len(page.Items))
				}
				if o.Continue = page.Continue; o.Continue == "" {
					break
				}
			}
			if len(seen) != all {
				t.Errorf("%s: %d of %d", name, len(seen), all)
			}
		}
	}
	// A table is complete unless the limit is small.
	for limit, want := range map[string]int{"500": all, "300": all, "100": 100} {
		table := &metav1.Table{}
		err := replicas[0].rest.Get().Namespace(e.namespace).Resource("packagerevisions").Param("limit", limit).
			SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json").Do(t.Context()).Into(table)
		if err != nil || len(table.Rows) != want || (table.Continue == "") != (want == all) {
			t.Errorf("a table with limit %s: %v, %d rows, continue %q", limit, err, len(table.Rows), table.Continue)
		}
	}
	if _, err := replicas[0].revisions(e.namespace).List(t.Context(), metav1.ListOptions{Limit: 300, Continue: "bm8gdG9rZW4"}); !apierrors.IsBadRequest(err) {
		t.Errorf("an invalid token: %v", err)
	}
	// A compacted version cannot be listed; the client must begin again with the first page.
	gone := "eyJwYWNrYWdlcyI6IjEiLCJmcm9tIjozMDB9" // of resourceVersion 1
	if _, err := replicas[0].revisions(e.namespace).List(t.Context(), metav1.ListOptions{Limit: 300, Continue: gone}); err != nil && !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
		t.Errorf("an expired list: %v", err)
	}
	// Errors of the API server are not changed.
	if _, err := replicas[0].revisions(e.namespace).List(t.Context(), metav1.ListOptions{ResourceVersion: "x"}); !apierrors.IsBadRequest(err) && !apierrors.IsInvalid(err) {
		t.Errorf("an invalid resourceVersion: %v", err)
	}
	list := must[*porchv1alpha1.PackageRevisionList](t)(replicas[0].revisions(e.namespace).List(t.Context(), metav1.ListOptions{ResourceVersion: "0"}))
	if len(list.Items) != all {
		t.Errorf("from the cache: %d", len(list.Items))
	}
	// A deletion with a limit deletes no more, also if a table is requested.
	stop.Store(true)
	writing.Wait()
	const some = 260
	err := replicas[0].rest.Delete().Namespace(e.namespace).Resource("packagerevisions").Param("limit", strconv.Itoa(some)).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json").Do(t.Context()).Error()
	if left := e.storedRevisions(t, e.namespace); err != nil || len(left) != all-some {
		t.Errorf("%d are left of %d after %d were to be deleted: %v", len(left), all, some, err)
	}
}

// TestPagesOfFiles: lists of files that are larger than a response may be. A table needs no files.
// A list with a limit has pages of bounded size. Without a limit, the error says what to do.
func TestPagesOfFiles(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	const all, maxBytes, file = 501, 1 << 20, 100 << 10
	first := e.make(t, e.revision("upstream", "first", "v1"))
	e.write(t, first.Name, map[string]string{"large.txt": strings.Repeat("a line of a large file\n", file/23)})
	e.copyMany(t, first.Name, all-1)
	replica := newUser(t, e.start(t, "--leader-elect=false", "--max-list-bytes="+strconv.Itoa(maxBytes)).config)
	size := func(prr *porchv1alpha1.PackageRevisionResources) int {
		n := 0
		for path, text := range prr.Spec.Resources {
			n += len(path) + len(text)
		}
		return n
	}
	one := must[*porchv1alpha1.PackageRevisionResources](t)(replica.resources(e.namespace).Get(t.Context(), first.Name, metav1.GetOptions{}))
	fit := maxBytes / size(one)

	for limit, table := range map[string]*metav1.Table{"500": {}, "": {}} {
		request := replica.rest.Get().Namespace(e.namespace).Resource("packagerevisionresources").
			SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json")
		if limit != "" {
			request = request.Param("limit", limit)
		}
		if err := request.Do(t.Context()).Into(table); err != nil || len(table.Rows) != all || table.Continue != "" {
			t.Fatalf("a table with limit %q: %v, %d rows", limit, err, len(table.Rows))
		}
		for _, row := range table.Rows {
			if n, ok := row.Cells[len(row.Cells)-1].(int64); !ok || int(n) != len(one.Spec.Resources) || len(row.Cells) != len(table.ColumnDefinitions) {
				t.Fatalf("a row %v", row.Cells)
			}
		}
	}
	for _, limit := range []int64{500, 100, 3} {
		seen, version := map[string]bool{}, ""
		for o := (metav1.ListOptions{Limit: limit}); ; {
			page := must[*porchv1alpha1.PackageRevisionResourcesList](t)(replica.resources(e.namespace).List(t.Context(), o))
			bytes := 0
			for i := range page.Items {
				bytes += size(&page.Items[i])
				seen[page.Items[i].Name] = true
			}
			if version == "" {
				version = page.ResourceVersion
			}
			o.Continue = page.Continue
			if want := min(fit, int(limit)); bytes > maxBytes || page.ResourceVersion != version || o.Continue != "" && len(page.Items) != want {
				t.Fatalf("limit %d: a page of %d revisions and %d bytes at %s, want %d at %s", limit, len(page.Items), bytes, page.ResourceVersion, want, version)
			}
			if o.Continue == "" {
				break
			}
		}
		if len(seen) != all {
			t.Errorf("limit %d: %d of %d", limit, len(seen), all)
		}
	}
	_, err := replica.resources(e.namespace).List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsRequestEntityTooLargeError(err) || !strings.Contains(err.Error(), "exceed 1 MiB: set a limit") || !strings.Contains(err.Error(), "spec.repository=NAME,spec.packageName=NAME") {
		t.Errorf("without a limit: %v", err)
	}
	some := must[*porchv1alpha1.PackageRevisionResourcesList](t)(replica.resources(e.namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "spec.repository=upstream,spec.packageName=p0007"}))
	if len(some.Items) != 1 || size(&some.Items[0]) != size(one) {
		t.Errorf("selected: %d", len(some.Items))
	}
}

// TestManagedFields: served objects have managedFields. Stored objects have none from the
// first update on, because the API server would spend half of the time of a list on them.
func TestManagedFields(t *testing.T) {
	e := newEnvironment(t)
	pr := e.move(t, e.make(t, e.revision("upstream", "managed", "v1")), published)
	managers := func(entries []metav1.ManagedFieldsEntry) (out []string) {
		for _, entry := range entries {
			out = append(out, entry.Manager+" "+entry.Subresource)
		}
		return out
	}
	for _, stored := range e.storedRevisions(t, e.namespace) {
		if got := managers(stored.ManagedFields); len(got) > 0 {
			t.Errorf("stored with the managers %q", got)
		}
	}
	if got := managers(pr.ManagedFields); len(got) != 2 || !strings.HasSuffix(got[1], " approval") {
		t.Errorf("served with the managers %q, want those of its creation and approval", got)
	}
}
