package repositories

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/packages/remote"
)

// TestLoss: what follows if a repository no longer has what was exported to it.
func TestLoss(t *testing.T) {
	const commit = "c01dbee"
	v1, v2 := revision("web", "v1", 1, "web/v1", "1"), revision("web", "v2", 2, "web/v2", "2")
	imported := revision("db", "v1", 1, "db/v1", "3")
	imported.Content.Imported = true
	onBranch := func(pkg string) *storev1alpha1.PackageRevision {
		cr := revision(pkg, "main", -1, "main", commit)
		cr.Content.Imported = true
		return cr
	}
	branch := &remote.Ref{Name: "main", ID: commit, Branch: true}
	with := func(cr *storev1alpha1.PackageRevision, digest string) *storev1alpha1.PackageRevision {
		cr.Content.Digest = digest
		return cr
	}
	importedAs := func(pkg string, number int, digest string) *storev1alpha1.PackageRevision {
		cr := with(revision(pkg, "imported", number, fmt.Sprintf("%s/v%d", pkg, number), "4"), digest)
		cr.Content.Imported = true
		return cr
	}
	for name, tc := range map[string]struct {
		listing remote.Listing
		here    []*storev1alpha1.PackageRevision
		result  result
		// request and observed are the annotation, and what the status says of it.
		request, observed string
		disabled          bool
		want              loss
	}{
		"Nothing":           {listing: remote.Listing{Branch: branch, Tags: []remote.Ref{tag("web/v1", "1"), tag("web/v2", "2")}}, here: list(v1, v2)},
		"Tag":               {listing: remote.Listing{Branch: branch, Tags: []remote.Ref{tag("web/v2", "2")}}, here: list(v1, v2), want: loss{tags: []string{"web/v1"}}},
		"TagAsked":          {listing: remote.Listing{Branch: branch, Tags: []remote.Ref{tag("web/v2", "2")}}, here: list(v1, v2), request: "x", want: loss{again: list(v1)}},
		"TagAskedBefore":    {listing: remote.Listing{Branch: branch, Tags: []remote.Ref{tag("web/v2", "2")}}, here: list(v1, v2), request: "x", observed: "x", want: loss{tags: []string{"web/v1"}}},
		"ImportedTag":       {listing: remote.Listing{Branch: branch, Tags: []remote.Ref{tag("web/v1", "1")}}, here: list(v1, imported)},
		"ImportedTagAsked":  {listing: remote.Listing{Branch: branch, Tags: []remote.Ref{tag("web/v1", "1")}}, here: list(v1, imported), request: "x"},
		"Unread":            {listing: remote.Listing{Branch: branch, Unread: map[string]error{"web": errors.New("forbidden")}}, here: list(v1)},
		"Deleting":          {listing: remote.Listing{Branch: branch}, here: list(deleting(revision("web", "v3", 3, "web/v3", "3")))},
		"Disabled":          {listing: remote.Listing{Branch: branch}, here: list(v1), disabled: true},
		"NoBranchYet":       {listing: remote.Listing{Tags: []remote.Ref{tag("web/v1", "1")}}, here: list(v1)},
		"BranchDeleted":     {listing: remote.Listing{Tags: []remote.Ref{tag("web/v1", "1")}}, here: list(v1), result: result{commit: commit}, want: loss{reason: "BranchMissing"}},
		"BranchNotOurs":     {listing: remote.Listing{Tags: []remote.Ref{tag("db/v1", "3")}}, here: list(imported), result: result{commit: commit}},
		"BranchAsked":       {listing: remote.Listing{Tags: []remote.Ref{tag("web/v1", "1")}}, here: list(v1, v2), result: result{commit: commit}, request: "x", want: loss{branch: commit}},
		"Rewritten":         {listing: remote.Listing{Branch: branch, Tags: []remote.Ref{tag("web/v1", "1")}}, here: list(v1), result: result{rewritten: "x"}, want: loss{reason: "HistoryRewritten"}},
		"RewrittenAsked":    {listing: remote.Listing{Branch: branch}, here: list(v1), result: result{rewritten: "x"}, request: "x", want: loss{reason: "HistoryRewritten"}},
		"NeverExported":     {listing: remote.Listing{Empty: true}, here: list(revision("web", "w", 1, "", ""))},
		"Emptied":           {listing: remote.Listing{Empty: true}, here: list(v1, v2, onBranch("web")), result: result{commit: commit}, want: loss{again: list(v1, v2), emptied: true}},
		"EmptiedSaid":       {listing: remote.Listing{Empty: true}, here: list(onBranch("web"), revision("web", "w", 1, "", "")), result: result{commit: commit}, want: loss{emptied: true}},
		"EmptiedOfOthers":   {listing: remote.Listing{Empty: true}, here: list(v1, onBranch("web"), onBranch("db")), result: result{commit: commit}, want: loss{reason: "BranchMissing"}},
		"EmptiedOfAChange":  {listing: remote.Listing{Empty: true}, here: list(v1, with(onBranch("web"), "sha256:hotfix")), result: result{commit: commit}, want: loss{reason: "BranchMissing"}},
		"EmptiedOfANewer":   {listing: remote.Listing{Empty: true}, here: list(v1, importedAs("web", 2, "sha256:2"), with(onBranch("web"), "sha256:2")), result: result{commit: commit}, want: loss{reason: "BranchMissing"}},
		"ReCreated":         {listing: remote.Listing{Tags: []remote.Ref{tag("web/v1", "1")}}, here: list(v1, onBranch("web")), want: loss{reason: "BranchMissing"}},
		"ReCreatedAsked":    {listing: remote.Listing{Tags: []remote.Ref{tag("web/v1", "1")}}, here: list(v1, onBranch("web")), request: "x", want: loss{reason: "BranchMissing"}},
		"EmptiedOfOthersOK": {listing: remote.Listing{Empty: true}, here: list(v1, onBranch("web"), onBranch("db")), result: result{commit: commit}, request: "x", want: loss{again: list(v1), emptied: true}},
	} {
		t.Run(name, func(t *testing.T) {
			repo := &configv1alpha1.Repository{ObjectMeta: metav1.ObjectMeta{Name: "r", Annotations: map[string]string{configv1alpha1.ExportAgainAnnotation: tc.request}}}
			repo.Spec.Type, repo.Spec.Git = configv1alpha1.RepositoryTypeGit, &configv1alpha1.GitRepository{Branch: "main"}
			repo.Status.ObservedExportAgain = tc.observed
			if tc.disabled {
				repo.Spec.Export = configv1alpha1.ExportDisabled
			}
			got := lossOf(repo, &tc.listing, newRevisions(tc.here), &tc.result)
			if (got.message == "") != (got.reason == "") {
				t.Errorf("reason %q, message %q", got.reason, got.message)
			}
			got.message = ""
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(loss{}), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func list(all ...*storev1alpha1.PackageRevision) []*storev1alpha1.PackageRevision { return all }

// TestNewestFirst: what the push that creates a branch again has.
func TestNewestFirst(t *testing.T) {
	sorted, packages := newestFirst(list(revision("a", "v1", 1, "", ""), revision("a", "v2", 2, "", ""), revision("b", "v1", 1, "", ""), revision("b", "v10", 10, "", ""), revision("b", "v9", 9, "", "")))
	if diff := cmp.Diff([]string{"r.a.v2", "r.b.v10", "r.a.v1", "r.b.v1", "r.b.v9"}, names(sorted)); diff != "" || packages != 2 {
		t.Errorf("%d packages, (-want +got):\n%s", packages, diff)
	}
}
