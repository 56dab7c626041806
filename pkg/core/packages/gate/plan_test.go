package gate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/gate"
)

const uid = types.UID("served")

var now = time.Unix(1000, 0)

// revision returns revision "edge1.web.v2" of a package, as a draft with the gate.
func revision(content string, change ...func(*storev1alpha1.PackageRevision)) *storev1alpha1.PackageRevision {
	r := &storev1alpha1.PackageRevision{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "edge1.web.v2", UID: "stored"}}
	r.Spec.RepositoryName, r.Spec.PackageName, r.Spec.WorkspaceName, r.Spec.Lifecycle = "edge1", "web", "v2", porchv1alpha1.LifecycleDraft
	r.Spec.ReadinessGates = []porchv1alpha1.ReadinessGate{{ConditionType: "PackagePipelinePassed"}, {ConditionType: "PackageTransactionValidated"}}
	r.Status.Conditions = []porchv1alpha1.Condition{{Type: "PackagePipelinePassed", Status: "True"}}
	r.Status.ContentDigest = content
	for _, f := range change {
		f(r)
	}
	return r
}

func published(number int, content string) *storev1alpha1.PackageRevision {
	return revision(content, func(r *storev1alpha1.PackageRevision) {
		r.Name, r.Spec.Lifecycle, r.Spec.Revision = fmt.Sprint("edge1.web.p", number), porchv1alpha1.LifecyclePublished, number
	})
}

// transactionFor returns the Transaction that is created for a revision, with a status.
func transactionFor(t *testing.T, r *storev1alpha1.PackageRevision, status func(*pkgv1alpha1.TransactionStatus), others ...*storev1alpha1.PackageRevision) *pkgv1alpha1.Transaction {
	t.Helper()
	plan, err := gate.PlanGate(&gate.State{Revision: r, UID: uid, Package: others})
	if err != nil {
		t.Fatal(err)
	}
	status(&plan.Create.Status)
	return plan.Create
}

func with(status metav1.ConditionStatus, reason, message string, ended bool) func(*pkgv1alpha1.TransactionStatus) {
	return func(s *pkgv1alpha1.TransactionStatus) {
		s.Conditions = []metav1.Condition{{Type: "Validated", Status: status, Reason: reason, Message: message}}
		if ended {
			s.CompletionTime = &metav1.Time{Time: now}
		}
	}
}

func TestPlanGate(t *testing.T) {
	t.Parallel()
	passed := with("True", "AllValidationsPassed", "", true)
	running := func(*pkgv1alpha1.TransactionStatus) {}
	missing := with("False", "MissingDependency", "Package web requires x", true)
	breaking := with("False", "SchemaIncompatible", "cluster edge1: it breaks", true)
	unanswered := func(s *pkgv1alpha1.TransactionStatus) {
		with("Unknown", "ValidationPending", "", true)(s)
		s.Conditions = append(s.Conditions, metav1.Condition{Type: "Synced", Status: "False", Message: "its1 does not answer"})
	}
	proposed := func(r *storev1alpha1.PackageRevision) { r.Spec.Lifecycle = porchv1alpha1.LifecycleProposed }
	without := func(r *storev1alpha1.PackageRevision) { r.Spec.ReadinessGates = r.Spec.ReadinessGates[:1] }
	incomplete := func(r *storev1alpha1.PackageRevision) {
		r.Status.Conditions = append(r.Status.Conditions, porchv1alpha1.Condition{Type: "PVOperationsComplete", Status: "False"})
	}
	allowed := func(r *storev1alpha1.PackageRevision) {
		r.Annotations = map[string]string{"pkg.crossplane.io/allow-breaking-crds": "buckets.example.org"}
	}
	failed := func(r *storev1alpha1.PackageRevision) { r.Status.Conditions[0].Status = "False" }
	released := func(tx *pkgv1alpha1.Transaction) *pkgv1alpha1.Transaction {
		delete(tx.Annotations, "pkg.crossplane.io/answers-gate")
		return tx
	}
	going := func(tx *pkgv1alpha1.Transaction) *pkgv1alpha1.Transaction {
		tx.DeletionTimestamp = &metav1.Time{Time: now}
		return tx
	}
	renamed := func(tx *pkgv1alpha1.Transaction, name string) *pkgv1alpha1.Transaction {
		tx.Name = name
		return tx
	}
	a, b := revision("a"), revision("b")
	nameOfB := transactionFor(t, b, running).Name
	v1, v2 := published(1, "one"), published(2, "two")
	type transactions = []*pkgv1alpha1.Transaction
	for name, tc := range map[string]struct {
		state gate.State
		// want is what is deleted, released and created, by the content that it is about, and the
		// condition.
		want string
	}{
		"Created":            {gate.State{Revision: a}, "create a; Unknown ValidationPending"},
		"Running":            {gate.State{Revision: a, Transactions: transactions{transactionFor(t, a, running)}}, "Unknown ValidationPending"},
		"Passed":             {gate.State{Revision: a, Transactions: transactions{transactionFor(t, a, passed)}}, "True AllValidationsPassed"},
		"Failed":             {gate.State{Revision: a, Transactions: transactions{transactionFor(t, a, breaking)}}, "False SchemaIncompatible"},
		"Proposed":           {gate.State{Revision: revision("a", proposed), Transactions: transactions{transactionFor(t, a, passed)}}, "True AllValidationsPassed"},
		"OtherContent":       {gate.State{Revision: b, Transactions: transactions{transactionFor(t, a, passed)}}, "release a; create b; Unknown ValidationPending"},
		"OtherContentRuns":   {gate.State{Revision: b, Transactions: transactions{transactionFor(t, a, running)}}, "delete a; Unknown ValidationPending"},
		"SameHash":           {gate.State{Revision: b, Transactions: transactions{renamed(transactionFor(t, a, passed), nameOfB)}}, "delete a; Unknown ValidationPending"},
		"AnotherUID":         {gate.State{Revision: a, UID: "other", Transactions: transactions{transactionFor(t, a, passed)}}, "release a; create a; Unknown ValidationPending"},
		"History":            {gate.State{Revision: b, Transactions: transactions{released(transactionFor(t, a, passed)), transactionFor(t, b, passed)}}, "True AllValidationsPassed"},
		"BackAgain":          {gate.State{Revision: a, Transactions: transactions{released(transactionFor(t, a, passed))}}, "True AllValidationsPassed"},
		"Deleted":            {gate.State{Transactions: transactions{transactionFor(t, a, passed), transactionFor(t, b, running)}}, "delete a; delete b"},
		"Published":          {gate.State{Revision: published(3, "a"), Transactions: transactions{transactionFor(t, a, passed)}}, "release a"},
		"WithoutTheGate":     {gate.State{Revision: revision("a", without)}, ""},
		"GateRemoved":        {gate.State{Revision: revision("a", without), Transactions: transactions{transactionFor(t, a, running)}}, "delete a"},
		"Incomplete":         {gate.State{Revision: revision("a", incomplete)}, ""},
		"IncompleteAndOther": {gate.State{Revision: revision("b", incomplete), Transactions: transactions{transactionFor(t, a, passed)}}, "release a"},
		"PipelineFailed":     {gate.State{Revision: revision("a", failed)}, ""},
		"UserDeletes":        {gate.State{Revision: a, Transactions: transactions{going(transactionFor(t, a, passed))}}, "True AllValidationsPassed"},
		"Replaces":           {gate.State{Revision: a, Package: []*storev1alpha1.PackageRevision{v1}, Transactions: transactions{transactionFor(t, a, passed, v1)}}, "True AllValidationsPassed"},
		"ReplacesAnother":    {gate.State{Revision: a, Package: []*storev1alpha1.PackageRevision{v1, v2}, Transactions: transactions{transactionFor(t, a, passed, v1)}}, "release a; create a; Unknown ValidationPending"},
		"Allowed":            {gate.State{Revision: revision("a", allowed), Transactions: transactions{transactionFor(t, a, breaking)}}, "release a; create a; Unknown ValidationPending"},
		"Installed":          {gate.State{Revision: a, Installed: true, Transactions: transactions{transactionFor(t, a, missing)}}, "delete a; Unknown ValidationPending"},
		"InstalledMeanwhile": {gate.State{Revision: a, Installed: true, Transactions: transactions{transactionFor(t, a, with("False", "VersionConflict", "", false))}}, "delete a; Unknown ValidationPending"},
		"NotInstalled":       {gate.State{Revision: a, Transactions: transactions{transactionFor(t, a, missing)}}, "False MissingDependency"},
		"InstalledInVain":    {gate.State{Revision: a, Installed: true, Transactions: transactions{transactionFor(t, a, breaking)}}, "False SchemaIncompatible"},
		"NoAnswer":           {gate.State{Revision: a, Now: now.Add(time.Minute), Transactions: transactions{transactionFor(t, a, unanswered)}}, "Unknown ValidationPending; again after 4m0s"},
		"NoAnswerForLong":    {gate.State{Revision: a, Now: now.Add(5 * time.Minute), Transactions: transactions{transactionFor(t, a, unanswered)}}, "delete a; Unknown ValidationPending"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.state.UID == "" {
				tc.state.UID = uid
			}
			plan, err := gate.PlanGate(&tc.state)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, brief(t, &plan)); diff != "" {
				t.Error(diff)
			}
			if plan.Condition == nil {
				return
			}
			// A second plan writes no condition.
			again := tc.state
			again.Revision = tc.state.Revision.DeepCopy()
			again.Revision.Status.Conditions = append(again.Revision.Status.Conditions, *plan.Condition)
			if plan, err = gate.PlanGate(&again); err != nil || plan.Condition != nil {
				t.Errorf("planned again: %v, %v", plan.Condition, err)
			}
		})
	}
}

// brief describes a plan.
func brief(t *testing.T, plan *gate.Plan) string {
	t.Helper()
	var all []string
	add := func(verb string, transactions ...*pkgv1alpha1.Transaction) {
		for _, tx := range transactions {
			s, err := gate.ParseSnapshot(&tx.Spec.Install.Package)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, verb+" "+s.ContentDigest)
		}
	}
	add("delete", plan.Delete...)
	add("release", plan.Release...)
	if plan.Create != nil {
		add("create", plan.Create)
	}
	if c := plan.Condition; c != nil {
		all = append(all, string(c.Status)+" "+c.Reason)
	}
	if plan.Again > 0 {
		all = append(all, "again after "+plan.Again.String())
	}
	return strings.Join(all, "; ")
}

// TestMessages: the message of the condition names the Transaction, and says what it says.
func TestMessages(t *testing.T) {
	t.Parallel()
	r := revision("a")
	for want, status := range map[string]func(*pkgv1alpha1.TransactionStatus){
		"transaction TX validates this content":     func(*pkgv1alpha1.TransactionStatus) {},
		"transaction TX: cluster edge1: it breaks":  with("False", "SchemaIncompatible", "cluster edge1: it breaks", false),
		"transaction TX has validated this content": with("True", "AllValidationsPassed", "all fine", true),
		"transaction TX has not validated this content yet: its1 does not answer": func(s *pkgv1alpha1.TransactionStatus) {
			s.Conditions = []metav1.Condition{{Type: "Synced", Status: "False", Message: "its1 does not answer"}}
		},
		"transaction TX has validated this content; warnings: a; b; c … and 1 more": func(s *pkgv1alpha1.TransactionStatus) {
			with("True", "AllValidationsPassed", "", true)(s)
			s.Warnings = []string{"a", "b", "c", "d"}
		},
	} {
		tx := transactionFor(t, r, status)
		plan, err := gate.PlanGate(&gate.State{Revision: r, UID: uid, Transactions: []*pkgv1alpha1.Transaction{tx}})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.ReplaceAll(plan.Condition.Message, tx.Name, "TX"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestTransaction: what is created validates only, has no owner, and valid names.
func TestTransaction(t *testing.T) {
	t.Parallel()
	r := revision("sha256:a", func(r *storev1alpha1.PackageRevision) { r.Name = "edge1." + strings.Repeat("long.", 20) + "v1" })
	tx := transactionFor(t, r, func(*pkgv1alpha1.TransactionStatus) {}, published(1, "sha256:one"))
	if problems := validation.IsDNS1123Subdomain(tx.Name); len(problems) > 0 || len(tx.Name) > 63 {
		t.Errorf("name %q: %v", tx.Name, problems)
	}
	for key, value := range tx.Labels {
		if problems := validation.IsValidLabelValue(value); len(problems) > 0 {
			t.Errorf("label %s: %q: %v", key, value, problems)
		}
	}
	if len(tx.OwnerReferences) > 0 || tx.Annotations["pkg.crossplane.io/validate-only"] != "true" {
		t.Errorf("%+v", tx.ObjectMeta)
	}
	want := `{"namespace":"default","repository":"edge1","packageName":"web","workspaceName":"v2","contentDigest":"sha256:a","replaces":"edge1.web.p1","replacesDigest":"sha256:one"}`
	if diff := cmp.Diff(want, string(tx.Spec.Install.Package.Spec.Raw)); diff != "" {
		t.Error(diff)
	}
	if key, ok := gate.RevisionOf(tx); !ok || key != (types.NamespacedName{Namespace: "default", Name: r.Name}) {
		t.Errorf("it is about %v, %v", key, ok)
	}
}
