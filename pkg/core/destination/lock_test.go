package destination_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	pkgv1beta1 "github.com/starlinghq/starling/api/pkg/v1beta1"
	"github.com/starlinghq/starling/pkg/core/destination"
	"github.com/starlinghq/starling/pkg/core/objref"
)

func locked(names ...string) []pkgv1beta1.LockPackage {
	var all []pkgv1beta1.LockPackage
	for _, name := range names {
		all = append(all, pkgv1beta1.LockPackage{Name: name, Source: "x/" + name, Version: "v1"})
	}
	return all
}

// TestCommit: each space replaces its own packages and leaves the others alone.
func TestCommit(t *testing.T) {
	t.Parallel()
	const a, b = "aaaa", "bbbb"
	var lock *pkgv1beta1.Lock
	commit := func(space types.UID, tx string, names ...string) {
		t.Helper()
		if after := destination.Commit(lock, "east", space, tx, locked(names...)); after != nil {
			lock = after
		}
	}
	want := func(tx string, annotations map[string]string, names ...string) {
		t.Helper()
		annotations["pkg.crossplane.io/last-transaction"] = tx
		if diff := cmp.Diff(&pkgv1beta1.Lock{
			TypeMeta:   metav1.TypeMeta{APIVersion: "pkg.crossplane.io/v1beta1", Kind: "Lock"},
			ObjectMeta: metav1.ObjectMeta{Name: "east", Annotations: annotations}, Packages: locked(names...),
		}, lock); diff != "" {
			t.Error(diff)
		}
	}
	const ofA, ofB = "packages.pkg.crossplane.io/aaaa", "packages.pkg.crossplane.io/bbbb"
	commit(b, "b/0")
	if lock != nil {
		t.Fatal("a space without packages created the Lock")
	}
	commit(a, "a/1", "s3", "family")
	want("a/1", map[string]string{ofA: "family,s3"}, "family", "s3")
	commit(b, "b/1", "family", "ec2")
	want("b/1", map[string]string{ofA: "family,s3", ofB: "ec2,family"}, "ec2", "family", "s3")
	commit(b, "b/2", "ec2", "family")
	want("b/1", map[string]string{ofA: "family,s3", ofB: "ec2,family"}, "ec2", "family", "s3") // no change
	commit(a, "a/2")
	want("a/2", map[string]string{ofB: "ec2,family"}, "ec2", "family")
	commit(b, "b/3", "ec2")
	want("b/3", map[string]string{ofB: "ec2"}, "ec2")
	if got := destination.ForeignPackages(lock, b); len(got) != 0 {
		t.Errorf("foreign packages %v", got)
	}
	if diff := cmp.Diff(locked("ec2"), destination.ForeignPackages(lock, a)); diff != "" {
		t.Error(diff)
	}
}

// TestRecordWithoutATransaction: what a policy changes is no transaction's.
func TestRecordWithoutATransaction(t *testing.T) {
	t.Parallel()
	installed := []pkgv1beta1.LockPackage{{Name: "s3-1", Source: pkg, Version: "v1"}}
	lock := destination.Commit(nil, "east", "mine", "wds1/tx-1", installed)
	if !destination.Records(lock, "mine") || destination.Records(lock, "other") || destination.Records(nil, "mine") {
		t.Errorf("Records is wrong for %+v", lock)
	}
	gone := destination.Commit(lock, "east", "mine", "", nil)
	if gone == nil || len(gone.Packages) > 0 || destination.Records(gone, "mine") || gone.Annotations[pkgv1beta1.AnnotationLastTransaction] != "wds1/tx-1" {
		t.Errorf("without packages %+v", gone)
	}
	if again := destination.Commit(gone, "east", "mine", "", nil); again != nil {
		t.Errorf("written without need: %+v", again)
	}
}

// TestPresent: a cluster has the packages of which policies carry a CRD there, and no others.
func TestPresent(t *testing.T) {
	t.Parallel()
	in := &destination.Input{
		Unchanged: []destination.Owned{
			{Package: pkg, Name: "buckets.example.org", Labels: parse("app=a")}, {Package: "x/family", Name: "accounts.example.org", Labels: parse("tier=1")},
		},
		Policies: []destination.Policy{
			policy(t, "all", "app=a", "env=prod"), policy(t, "tier", "tier=1", "env=test"),
			{Name: "kept", Clusters: map[string]bool{"east": true}, Objects: map[objref.Ref]bool{ref("accounts.example.org"): true}},
		},
		Clusters: []destination.Cluster{
			{Name: "east", Labels: parse("env=prod")}, {Name: "west", Labels: parse("env=prod")}, {Name: "lab", Labels: parse("env=test")}, {Name: "idle"},
		},
	}
	want := map[string][]string{"east": {pkg, "x/family"}, "west": {pkg}, "lab": {"x/family"}, "idle": nil}
	if diff := cmp.Diff(want, in.Present()); diff != "" {
		t.Error(diff)
	}
}
