package report

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	pkgv1beta1 "github.com/starlinghq/starling/api/pkg/v1beta1"
	"github.com/starlinghq/starling/test/golden"
)

const digest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

func planned(changes ...pkgv1alpha1.PackageChange) *pkgv1alpha1.Transaction {
	return install(byUser, validateOnly, once, started, func(tx *pkgv1alpha1.Transaction) {
		tx.Status.Changes = changes
		tx.Status.ProposedLockPackages = []pkgv1beta1.LockPackage{{Source: reg + "family", Version: "v1.1.0@" + digest}, {Source: reg + "s3", Version: "v2.0.0@" + digest}}
		at(tx, 3).OnlyValidated()
	})
}

func TestPlan(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	for _, tc := range []struct {
		name string
		tx   *pkgv1alpha1.Transaction
		want Outcome
		wide bool
	}{
		{"nothing changes", planned(), NoChanges, false},
		{"changes", planned(
			pkgv1alpha1.PackageChange{Source: reg + "family", To: "v1.1.0@" + digest, Created: []string{"CustomResourceDefinition.apiextensions.k8s.io/accounts.example.org"}},
			pkgv1alpha1.PackageChange{
				Source: reg + "s3", From: "v1.0.0@" + digest, To: "v2.0.0@" + digest,
				Created: []string{"CustomResourceDefinition.apiextensions.k8s.io/objects.example.org"},
				Updated: []string{"CustomResourceDefinition.apiextensions.k8s.io/buckets.example.org", "… and 3 more"},
			},
			pkgv1alpha1.PackageChange{Source: reg + "old", From: digest, Deleted: []string{"CustomResourceDefinition.apiextensions.k8s.io/olds.example.org"}},
			pkgv1alpha1.PackageChange{Source: reg + "same", From: "v1.0.0@" + digest, To: "v1.0.0@" + digest},
			pkgv1alpha1.PackageChange{Source: reg + "moved", From: "v1.0.0@" + digest, To: "v1.0.0@" + strings.Replace(digest, "e3", "f3", 1)},
		), Changes, false},
		{"changes, wide, with a warning", func() *pkgv1alpha1.Transaction {
			tx := planned(pkgv1alpha1.PackageChange{Source: reg + "s3", From: "v1.0.0@" + digest, To: "v2.0.0@" + digest})
			tx.Status.Warnings = []string{"buckets.example.org v1: field spec.size was removed"}
			return tx
		}(), Changes, true},
		{"refused", install(byUser, validateOnly, once, started, resolved, invalid("SchemaIncompatible", "buckets.example.org v1: field spec.region was removed (1 object: logs)")), Refused, false},
		{"no answer", install(byUser, validateOnly, once, started, func(tx *pkgv1alpha1.Transaction) {
			at(tx, 3).Interrupted(cmpError("list tags of "+reg+"s3: 503 Service Unavailable"), true)
		}), Refused, false},
		{"replacement", func() *pkgv1alpha1.Transaction {
			tx := planned()
			tx.Spec.Change, tx.Spec.Replace = pkgv1alpha1.ChangeTypeReplace, &pkgv1alpha1.ReplaceSpec{Source: reg + "vendor-s3", Package: tx.Spec.Install.Package}
			tx.Spec.Install = nil
			return tx
		}(), NoChanges, false},
		{"deletion that users must allow", install(byUser, validateOnly, once, remove, started, invalid("ResourcesInUse", "the deletion of package s3 would delete 1 object of buckets.example.org (logs)")), Refused, false},
	} {
		plan := NewPlan(tc.tx)
		if diff := cmp.Diff(tc.want, plan.Outcome); diff != "" {
			t.Errorf("%s: outcome (-want +got):\n%s", tc.name, diff)
		}
		out.WriteString("## " + tc.name + "\n")
		plan.Draw(&out, tc.wide)
		out.WriteString("\n")
	}
	golden.Compare(t, "plan", strings.TrimRight(out.String(), "\n")+"\n")
}

type cmpError string

func (e cmpError) Error() string { return string(e) }
