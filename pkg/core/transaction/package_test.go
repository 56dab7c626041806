package transaction_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	pkgv1beta1 "github.com/starlinghq/starling/api/pkg/v1beta1"
	"github.com/starlinghq/starling/pkg/core/transaction"
)

const source = "registry.example.com/org/p"

// pkg returns a Provider of generation 2, changed by the functions.
func pkg(change ...func(*pkgv1.Provider)) *pkgv1.Provider {
	p := &pkgv1.Provider{ObjectMeta: metav1.ObjectMeta{
		Name: "p", UID: "p-uid", Generation: 2, Finalizers: []string{pkgv1.PackageFinalizer}, Labels: map[string]string{pkgv1.LabelGeneration: "2"},
	}}
	p.Spec.Package = source + ":v2"
	for _, do := range change {
		do(p)
	}
	return p
}

func unhandled(p *pkgv1.Provider) { p.Labels[pkgv1.LabelGeneration] = "1" }
func deleted(p *pkgv1.Provider)   { p.DeletionTimestamp = &metav1.Time{Time: now} }

func revision(name string, active bool, number int64) *pkgv1.ProviderRevision {
	r := &pkgv1.ProviderRevision{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "r", Annotations: map[string]string{transaction.AnnotationDigest: "sha256:" + name}}}
	r.Spec.Package, r.Spec.Revision, r.Spec.DesiredState = source+":v1@sha256:"+name, number, pkgv1.RevisionInactive
	if active {
		r.Spec.DesiredState = pkgv1.RevisionActive
	}
	return r
}

// from is a revision of another source.
func from(source string, r *pkgv1.ProviderRevision) *pkgv1.ProviderRevision {
	r.Spec.Package = source + ":v1@sha256:" + r.Name
	return r
}

// pinned is a revision with a digest of the right form.
func pinned(r *pkgv1.ProviderRevision) *pkgv1.ProviderRevision {
	r.Spec.Package = source + ":v1@sha256:" + strings.Repeat("0", 64)
	return r
}

// awaiting is a revision whose objects are not installed.
func awaiting(r *pkgv1.ProviderRevision) *pkgv1.ProviderRevision {
	r.Status.Conditions = []metav1.Condition{{Type: pkgv1.RevisionConditionHealthy, Status: metav1.ConditionFalse, Reason: pkgv1.ReasonAwaitingActivation}}
	return r
}

func manual(p *pkgv1.Provider) {
	policy := pkgv1.ManualActivation
	p.Spec.RevisionActivationPolicy = &policy
}

// plan is a PackagePlan in short.
type plan struct {
	Create, Change, Source string
	Image                  string
	Retries                int64
	Handled                string
	Finalizer, Release     bool
	Synced, Installed      string
}

func TestPlanPackage(t *testing.T) {
	running, failed, done := named("tx", "t"), ended(named("tx", "t")), ended(named("tx", "t"))
	transaction.Record(failed, now).Invalid(&transaction.FailedError{Reason: "MissingDependency", Message: "no"})
	transaction.Record(done, now).Complete()
	lock := &pkgv1beta1.Lock{Packages: []pkgv1beta1.LockPackage{{Name: "p-1", Source: source}}}
	const name1 = "tx-p-"
	cases := map[string]struct {
		state transaction.PackageState
		want  plan
	}{
		"New": {
			state: transaction.PackageState{Package: pkg(unhandled, func(p *pkgv1.Provider) { p.Finalizers = nil })},
			want:  plan{Create: name1, Change: "Install", Handled: "2", Finalizer: true, Synced: "ReconcileSuccess", Installed: "UnpackingPackage"},
		},
		"Handled": {
			state: transaction.PackageState{Package: pkg(), Transactions: []*pkgv1alpha1.Transaction{running}},
			want:  plan{Synced: "ReconcileSuccess", Installed: "UnpackingPackage"},
		},
		"Failed": {
			state: transaction.PackageState{Package: pkg(), Transactions: []*pkgv1alpha1.Transaction{failed}},
			want:  plan{Synced: "ReconcileError", Installed: "InactivePackageRevision"},
		},
		"Installed": {
			state: transaction.PackageState{Package: pkg(), Transactions: []*pkgv1alpha1.Transaction{done}, Revisions: []*pkgv1.ProviderRevision{revision("p-1", true, 1)}, Lock: lock},
			want:  plan{Synced: "ReconcileSuccess", Installed: "ActivePackageRevision"},
		},
		"UpdateFailed": {
			state: transaction.PackageState{Package: pkg(), Transactions: []*pkgv1alpha1.Transaction{failed}, Revisions: []*pkgv1.ProviderRevision{revision("p-1", true, 1)}, Lock: lock},
			want:  plan{Synced: "ReconcileError", Installed: "ActivePackageRevision"},
		},
		"UpdateFailedAndAnotherTransactionHasMadeIt": {
			state: transaction.PackageState{
				Package: pkg(func(p *pkgv1.Provider) { p.Spec.Package = source + ":v1" }), Transactions: []*pkgv1alpha1.Transaction{failed},
				Revisions: []*pkgv1.ProviderRevision{pinned(revision("p-1", true, 1))}, Lock: lock,
			},
			want: plan{Synced: "ReconcileSuccess", Installed: "ActivePackageRevision"},
		},
		"DeletionFailed": { // the version is the desired one
			state: transaction.PackageState{
				Package: pkg(deleted, func(p *pkgv1.Provider) { p.Spec.Package = source + ":v1" }), Transactions: []*pkgv1alpha1.Transaction{failed},
				Revisions: []*pkgv1.ProviderRevision{pinned(revision("p-1", true, 1))}, Lock: lock,
			},
			want: plan{Create: name1, Change: "Delete", Source: source, Retries: math.MaxInt64, Synced: "ReconcileError", Installed: "ActivePackageRevision"},
		},
		"MovedTagFailed": {
			state: transaction.PackageState{
				Package: pkg(func(p *pkgv1.Provider) { p.Spec.Package = source + ":v1" }), Transactions: []*pkgv1alpha1.Transaction{failed},
				Revisions: []*pkgv1.ProviderRevision{pinned(revision("p-1", true, 1))}, Lock: lock, Digest: "sha256:other",
			},
			want: plan{Create: name1, Change: "Install", Synced: "ReconcileError", Installed: "ActivePackageRevision"},
		},
		"LabelsFailed": { // the version is the desired one, and the labels are not
			state: transaction.PackageState{
				Package: pkg(func(p *pkgv1.Provider) {
					p.Spec.Package, p.Spec.CommonLabels = source+":v1", map[string]string{"a": "b"}
				}), Transactions: []*pkgv1alpha1.Transaction{failed}, Revisions: []*pkgv1.ProviderRevision{pinned(revision("p-1", true, 1))}, Lock: lock,
			},
			want: plan{Synced: "ReconcileError", Installed: "ActivePackageRevision"},
		},
		"Paused": {
			state: transaction.PackageState{Package: pkg(unhandled, func(p *pkgv1.Provider) { p.Annotations = map[string]string{pkgv1.AnnotationPaused: "true"} })},
			want:  plan{Synced: "ReconcilePaused", Installed: "UnpackingPackage"},
		},
		"TagHasMoved": {
			state: transaction.PackageState{Package: pkg(), Revisions: []*pkgv1.ProviderRevision{revision("p-1", true, 1)}, Digest: "sha256:other"},
			want:  plan{Create: name1, Change: "Install", Synced: "ReconcileSuccess", Installed: "ActivePackageRevision"},
		},
		"TagHasNotMoved": {
			state: transaction.PackageState{Package: pkg(), Revisions: []*pkgv1.ProviderRevision{revision("p-1", true, 1)}, Digest: "sha256:p-1"},
			want:  plan{Synced: "ReconcileSuccess", Installed: "ActivePackageRevision"},
		},
		"TagHasMovedDuringATransaction": {
			state: transaction.PackageState{
				Package: pkg(), Transactions: []*pkgv1alpha1.Transaction{running}, Revisions: []*pkgv1.ProviderRevision{revision("p-1", true, 1)}, Digest: "sha256:other",
			},
			want: plan{Synced: "ReconcileSuccess", Installed: "ActivePackageRevision"},
		},
		"RevisionIsInactive": { // until a user activates it
			state: transaction.PackageState{Package: pkg(manual), Revisions: []*pkgv1.ProviderRevision{awaiting(revision("p-1", false, 1))}},
			want:  plan{Synced: "ReconcileSuccess", Installed: "InactivePackageRevision"},
		},
		"RevisionIsActivated": {
			state: transaction.PackageState{Package: pkg(manual), Transactions: []*pkgv1alpha1.Transaction{done}, Revisions: []*pkgv1.ProviderRevision{awaiting(revision("p-1", true, 1))}},
			want:  plan{Create: name1, Change: "Install", Image: source + ":v1@sha256:p-1", Synced: "ReconcileSuccess", Installed: "InactivePackageRevision"},
		},
		"RevisionIsActivatedDuringATransaction": {
			state: transaction.PackageState{Package: pkg(manual), Transactions: []*pkgv1alpha1.Transaction{running}, Revisions: []*pkgv1.ProviderRevision{awaiting(revision("p-1", true, 1))}},
			want:  plan{Synced: "ReconcileSuccess", Installed: "UnpackingPackage"},
		},
		"OlderRevisionIsActivated": { // the newer one is active until it is installed
			state: transaction.PackageState{
				Package: pkg(manual), Revisions: []*pkgv1.ProviderRevision{awaiting(revision("p-0", true, 0)), revision("p-1", true, 1), awaiting(revision("p-2", false, 2))}, Lock: lock,
			},
			want: plan{Create: name1, Change: "Install", Image: source + ":v1@sha256:p-0", Synced: "ReconcileSuccess", Installed: "ActivePackageRevision"},
		},
		"RevisionIsActivatedAutomatically": { // the package says which one is active
			state: transaction.PackageState{Package: pkg(), Revisions: []*pkgv1.ProviderRevision{awaiting(revision("p-0", true, 0)), revision("p-1", true, 1)}, Lock: lock},
			want:  plan{Create: name1, Change: "Install", Image: source + ":v2", Synced: "ReconcileSuccess", Installed: "ActivePackageRevision"},
		},
		"RevisionIsDeactivated": {
			state: transaction.PackageState{Package: pkg(manual), Revisions: []*pkgv1.ProviderRevision{revision("p-1", false, 1)}, Lock: lock},
			want:  plan{Create: name1, Change: "Install", Image: source + ":v1@sha256:p-1", Synced: "ReconcileSuccess", Installed: "InactivePackageRevision"},
		},
		"RevisionIsDeactivatedForAnother": {
			state: transaction.PackageState{Package: pkg(manual), Revisions: []*pkgv1.ProviderRevision{revision("p-1", false, 1), awaiting(revision("p-2", true, 2))}, Lock: lock},
			want:  plan{Create: name1, Change: "Install", Image: source + ":v1@sha256:p-2", Synced: "ReconcileSuccess", Installed: "InactivePackageRevision"},
		},
		"DeletedBeforeItWasInstalled": {
			state: transaction.PackageState{Package: pkg(deleted)},
			want:  plan{Release: true, Synced: "ReconcileSuccess", Installed: "UnpackingPackage"},
		},
		"DeletedWhileItIsInstalled": {
			state: transaction.PackageState{Package: pkg(deleted), Transactions: []*pkgv1alpha1.Transaction{running}},
			want:  plan{Synced: "ReconcileSuccess", Installed: "UnpackingPackage"},
		},
		"Deleted": {
			state: transaction.PackageState{Package: pkg(deleted), Revisions: []*pkgv1.ProviderRevision{revision("p-1", true, 1)}, Lock: lock},
			want:  plan{Create: name1, Change: "Delete", Source: source, Retries: math.MaxInt64, Synced: "ReconcileSuccess", Installed: "ActivePackageRevision"},
		},
		"DeletedWithASourceOfBefore": { // the Lock says which one counts
			state: transaction.PackageState{
				Package: pkg(deleted), Lock: lock,
				Revisions: []*pkgv1.ProviderRevision{revision("p-1", true, 1), from("a.example.com/org/p", revision("p-0", false, 0))},
			},
			want: plan{Create: name1, Change: "Delete", Source: source, Retries: math.MaxInt64, Synced: "ReconcileSuccess", Installed: "ActivePackageRevision"},
		},
		"DeletedWithoutItsRevision": { // somebody deleted it
			state: transaction.PackageState{Package: pkg(deleted, func(p *pkgv1.Provider) { p.Status.CurrentRevision = "p-1" }), Lock: lock},
			want:  plan{Create: name1, Change: "Delete", Source: source, Retries: math.MaxInt64, Synced: "ReconcileSuccess", Installed: "UnpackingPackage"},
		},
		"DeletedByATransaction": { // which has not written the Lock yet
			state: transaction.PackageState{
				Package: pkg(deleted, func(p *pkgv1.Provider) { p.Status.CurrentRevision = "p-1" }), Lock: lock, Busy: true,
			},
			want: plan{Synced: "ReconcileSuccess", Installed: "UnpackingPackage"},
		},
		"DeletedAndNotInTheLock": { // an installation that did not end has left objects
			state: transaction.PackageState{Package: pkg(deleted), Revisions: []*pkgv1.ProviderRevision{revision("p-1", false, 1)}},
			want:  plan{Create: name1, Change: "Delete", Source: source, Retries: math.MaxInt64, Synced: "ReconcileSuccess", Installed: "InactivePackageRevision"},
		},
		"DeletedWithoutFinalizer": {
			state: transaction.PackageState{Package: pkg(deleted, func(p *pkgv1.Provider) { p.Finalizers = []string{"other"} }), Lock: lock},
			want:  plan{Synced: "ReconcileSuccess", Installed: "UnpackingPackage"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.state.Kind, tc.state.Now = "Provider", now
			got := transaction.PlanPackage(tc.state)
			short := plan{Handled: got.Handled, Finalizer: got.Finalizer, Release: got.Release}
			if tx := got.Create; tx != nil {
				short.Create, short.Change = tx.Name[:len(name1)], string(tx.Spec.Change)
				if tx.Spec.Delete != nil {
					short.Source, short.Retries = tx.Spec.Delete.Source, *tx.Spec.RetryLimit
				}
				if tx.Spec.Install != nil && tc.want.Image != "" {
					spec := pkgv1.ProviderSpec{}
					if err := json.Unmarshal(tx.Spec.Install.Package.Spec.Raw, &spec); err != nil {
						t.Fatal(err)
					}
					short.Image = spec.Package
				}
				if got.CreateAfter.Name == tx.Name || tx.Labels[pkgv1.LabelGeneration] != "2" || tx.OwnerReferences[0].UID != "p-uid" {
					t.Errorf("transaction %+v", tx.ObjectMeta)
				}
			}
			for _, c := range got.Status.Conditions {
				switch c.Type {
				case "Synced":
					short.Synced = c.Reason
				case "Installed":
					short.Installed = c.Reason
				}
				if !c.LastTransitionTime.Equal(&metav1.Time{Time: now}) {
					t.Errorf("condition %s has time %s", c.Type, c.LastTransitionTime)
				}
			}
			if diff := cmp.Diff(tc.want, short); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestRepeats: a Transaction that has succeeded is carried out again only if it makes the digest of
// the tag active: any other one would be repeated forever.
func TestRepeats(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*pkgv1.Provider)
		want   bool
	}{
		"Automatic":    {func(*pkgv1.Provider) {}, true},
		"Manual":       {manual, false},
		"ValidateOnly": {func(p *pkgv1.Provider) { p.Annotations = map[string]string{pkgv1.AnnotationValidateOnly: "true"} }, false},
	} {
		state := transaction.PackageState{Kind: "Provider", Package: pkg(c.change), Revisions: []*pkgv1.ProviderRevision{revision("p-1", true, 1)}, Digest: "sha256:other"}
		if plan := transaction.PlanPackage(state); plan.Create == nil || plan.Repeats != c.want {
			t.Errorf("%s: creates %v, repeats %t", name, plan.Create, plan.Repeats)
		}
	}
}

func TestSupersededBy(t *testing.T) {
	tx := named("tx", "t")
	tx.Labels = map[string]string{pkgv1.LabelGeneration: "2"}
	tx.Spec.Install = &pkgv1alpha1.InstallSpec{}
	tx.Spec.Install.Package.Metadata.UID = "p-uid"
	ofUser := tx.DeepCopy()
	ofUser.Labels = nil
	later := pkg(func(p *pkgv1.Provider) { p.Generation = 3 })
	other := pkg(func(p *pkgv1.Provider) { p.UID = "other" })
	for name, tc := range map[string]struct {
		tx   *pkgv1alpha1.Transaction
		p    *pkgv1.Provider
		want bool
	}{
		"current": {tx, pkg(), false}, "changed": {tx, later, true}, "deleted": {tx, pkg(deleted), true}, "gone": {tx, nil, true},
		"re-created": {tx, other, true}, "of a user": {ofUser, later, false},
	} {
		if why := transaction.SupersededBy(tc.tx, tc.p); (why != "") != tc.want {
			t.Errorf("%s: %q", name, why)
		}
	}
}

func TestOldRevisions(t *testing.T) {
	revisions := []*pkgv1.ProviderRevision{revision("p-3", false, 3), revision("p-1", false, 1), revision("p-4", true, 4), revision("p-2", false, 2)}
	zero, two := int64(0), int64(2)
	for limit, want := range map[*int64][]string{nil: {"p-1", "p-2"}, &zero: nil, &two: {"p-1"}} {
		var got []string
		for _, r := range transaction.OldRevisions(revisions, limit) {
			got = append(got, r.Name)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("limit %v: %s", limit, diff)
		}
	}
	if active := transaction.Active(revisions); active.Name != "p-4" {
		t.Errorf("active %s", active.Name)
	}
}

// TestActive: while an installation goes on, the revision that was installed is the active one.
func TestActive(t *testing.T) {
	installed := func(r *pkgv1.ProviderRevision) *pkgv1.ProviderRevision {
		r.Status.Conditions = []metav1.Condition{{Type: pkgv1.RevisionConditionHealthy, Status: metav1.ConditionTrue}}
		return r
	}
	for name, tc := range map[string]struct {
		revisions []*pkgv1.ProviderRevision
		want      string
	}{
		"installation": {[]*pkgv1.ProviderRevision{installed(revision("p-1", true, 1)), revision("p-2", true, 2)}, "p-1"},
		"installed":    {[]*pkgv1.ProviderRevision{installed(revision("p-1", true, 1)), installed(revision("p-2", true, 2))}, "p-2"},
		"first":        {[]*pkgv1.ProviderRevision{revision("p-1", true, 1)}, "p-1"},
		"awaiting":     {[]*pkgv1.ProviderRevision{awaiting(revision("p-1", true, 1)), revision("p-2", false, 2)}, ""},
	} {
		got := ""
		if active := transaction.Active(tc.revisions); active != nil {
			got = active.Name
		}
		if got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// TestGuarded: a revision that controls objects stays until another one does.
func TestGuarded(t *testing.T) {
	with := func(finalizer, deleting bool, r *pkgv1.ProviderRevision) *pkgv1.ProviderRevision {
		if finalizer {
			r.Finalizers = []string{"other", pkgv1.RevisionFinalizer}
		}
		if deleting {
			r.DeletionTimestamp = &metav1.Time{Time: now}
		}
		return r
	}
	guard, release, stay := transaction.Guarded([]*pkgv1.ProviderRevision{
		with(false, false, revision("new", false, 1)), with(true, false, revision("kept", true, 2)), with(true, true, revision("active", true, 3)),
		with(true, true, revision("inactive", false, 4)), with(true, true, awaiting(revision("not-installed", true, 5))), with(false, true, revision("released", true, 6)),
	})
	names := func(revisions []*pkgv1.ProviderRevision) (names []string) {
		for _, r := range revisions {
			names = append(names, r.Name)
		}
		return names
	}
	want := [][]string{{"new"}, {"inactive", "not-installed"}, {"active"}}
	if diff := cmp.Diff(want, [][]string{names(guard), names(release), names(stay)}); diff != "" {
		t.Error(diff)
	}
}
