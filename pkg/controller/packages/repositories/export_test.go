package repositories

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/packages/remote"
)

// picky is a repository that refuses some items, and every request that has one of them.
type picky struct {
	Remote
	refuses string
	// failure is the error; calls are the numbers of items in each request.
	failure error
	calls   []int
}

func (p *picky) Export(_ context.Context, exports []remote.Export) ([]remote.ExportResult, error) {
	p.calls = append(p.calls, len(exports))
	out := make([]remote.ExportResult, len(exports))
	for i := range exports {
		if exports[i].Package == p.refuses {
			return nil, p.failure
		}
		out[i].Ref.Name = exports[i].Package
	}
	return out, nil
}

func (p *picky) Remove(_ context.Context, tags []remote.Ref) error {
	p.calls = append(p.calls, len(tags))
	if slices.ContainsFunc(tags, func(tag remote.Ref) bool { return tag.Package == p.refuses }) {
		return p.failure
	}
	return nil
}

// TestEachExportFailsAlone: what the repository refuses does not prevent other exports. An error of
// the whole repository is not repeated for each.
func TestEachExportFailsAlone(t *testing.T) {
	exports := []remote.Export{{Package: "a"}, {Package: "bad"}, {Package: "c"}}
	repository := &picky{refuses: "bad", failure: errors.New("the hook says no")}
	done, err := (&pass{remote: repository}).exportAll(t.Context(), exports, false)
	if err != nil || done[0].Ref.Name != "a" || done[1].Problem != "the hook says no" || done[2].Ref.Name != "c" {
		t.Errorf("%+v, %v", done, err)
	}
	down := &picky{refuses: "bad", failure: remote.Errorf(remote.Unreachable, "no route")}
	if _, err := (&pass{remote: down}).exportAll(t.Context(), exports, false); err == nil || len(down.calls) != 1 {
		t.Errorf("%v after %d requests", err, len(down.calls))
	}
}

// TestEachRemovalFailsAlone is the same for tags.
func TestEachRemovalFailsAlone(t *testing.T) {
	tags := map[string]remote.Ref{"r.a.v1": {Package: "a"}, "r.bad.v1": {Package: "bad"}, "r.c.v1": {Package: "c"}}
	repository := &picky{refuses: "bad", failure: errors.New("protected")}
	kept := (&pass{remote: repository}).removeEach(t.Context(), tags, repository.failure)
	if got := slices.Sorted(maps.Keys(kept)); !slices.Equal(got, []string{"r.bad.v1"}) {
		t.Errorf("kept %q", got)
	}
	down := &picky{failure: remote.Errorf(remote.Unreachable, "no route")}
	if kept := (&pass{remote: down}).removeEach(t.Context(), tags, down.failure); len(kept) != 3 || len(down.calls) > 0 {
		t.Errorf("kept %d after %d requests", len(kept), len(down.calls))
	}
}

// TestUnreadTagsAreNotMissing: nothing is known about tags of a package that could not be read, and
// a problem that may pass is looked at again.
func TestUnreadTagsAreNotMissing(t *testing.T) {
	listing := &remote.Listing{
		Tags:   []remote.Ref{{Name: "web:v1", ID: "1", Package: "web", Number: 1}, {Name: "web:v2", ID: "2", Package: "web", Number: 2}},
		Unread: map[string]error{"db": errors.New("forbidden")},
	}
	findings := map[string]finding{"web:v1": {id: "1", problem: "broken", passing: true}, "web:v2": {id: "2", problem: "invalid"}}
	if got := slices.Sorted(maps.Keys(validFindings(&configv1alpha1.Repository{}, findings, listing, newRevisions(nil)))); !slices.Equal(got, []string{"web:v2"}) {
		t.Errorf("valid findings %q", got)
	}
	db := unreadRevision("db")
	db.External.Ref = "db:v1"
	gone := unreadRevision("gone")
	gone.External.Ref = "gone:v1"
	if got := refsOf(missing(listing, newRevisions([]*storev1alpha1.PackageRevision{db, gone}))); !slices.Equal(got, []string{"gone:v1"}) {
		t.Errorf("missing %q", got)
	}
}

func unreadRevision(pkg string) *storev1alpha1.PackageRevision {
	cr := &storev1alpha1.PackageRevision{}
	cr.Name = "r." + pkg + ".v1"
	cr.Spec.PackageName, cr.Spec.WorkspaceName, cr.Spec.Revision = pkg, "v1", 1
	return cr
}
