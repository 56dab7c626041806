package report

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	pkgv1beta1 "github.com/starlinghq/starling/api/pkg/v1beta1"
	"github.com/starlinghq/starling/pkg/core/transaction"
	"github.com/starlinghq/starling/test/golden"
)

var began = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

const reg = "registry.example.org/org/"

// install is a Transaction that Provider/s3 has created.
func install(more ...func(*pkgv1alpha1.Transaction)) *pkgv1alpha1.Transaction {
	tx := &pkgv1alpha1.Transaction{
		ObjectMeta: metav1.ObjectMeta{
			Name: "tx-s3-1", UID: "1", CreationTimestamp: metav1.NewTime(began), Annotations: map[string]string{},
			Labels:          map[string]string{pkgv1.LabelGeneration: "1", pkgv1.LabelPackage: "s3", pkgv1.LabelPackageType: "Provider"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "pkg.crossplane.io/v1", Kind: "Provider", Name: "s3", UID: "p"}},
		},
		Spec: pkgv1alpha1.TransactionSpec{Change: pkgv1alpha1.ChangeTypeInstall, Install: &pkgv1alpha1.InstallSpec{Package: pkgv1alpha1.PackageSnapshot{
			APIVersion: "pkg.crossplane.io/v1", Kind: "Provider", Metadata: pkgv1alpha1.PackageMetadata{Name: "s3", UID: "p"},
			Spec: runtime.RawExtension{Raw: []byte(`{"package":"` + reg + `s3:v2.0.0"}`)},
		}}},
	}
	for _, change := range more {
		change(tx)
	}
	return tx
}

// byUser makes it a Transaction that a user created.
func byUser(tx *pkgv1alpha1.Transaction) { tx.Labels, tx.OwnerReferences = nil, nil }

func once(tx *pkgv1alpha1.Transaction) { tx.Spec.RetryLimit = new(int64(1)) }

func remove(tx *pkgv1alpha1.Transaction) {
	tx.Spec = pkgv1alpha1.TransactionSpec{Change: pkgv1alpha1.ChangeTypeDelete, Delete: &pkgv1alpha1.DeleteSpec{Source: reg + "s3"}}
}

func validateOnly(tx *pkgv1alpha1.Transaction) { tx.Annotations[pkgv1.AnnotationValidateOnly] = "true" }

// started is what has happened when a Transaction has the Lock.
func started(tx *pkgv1alpha1.Transaction) { at(tx, 1).Started(7) }

func resolved(tx *pkgv1alpha1.Transaction) {
	tx.Status.ProposedLockPackages = []pkgv1beta1.LockPackage{{Source: reg + "family"}, {Source: reg + "s3"}}
}

func validated(tx *pkgv1alpha1.Transaction) { at(tx, 2).Validated() }

func at(tx *pkgv1alpha1.Transaction, seconds int) transaction.Recorder {
	return transaction.Record(tx, began.Add(time.Duration(seconds)*time.Second))
}

func invalid(reason, message string) func(*pkgv1alpha1.Transaction) {
	return func(tx *pkgv1alpha1.Transaction) {
		at(tx, 3).Invalid(&transaction.FailedError{Reason: reason, Message: message})
	}
}

func notInstalled(reason, message string) func(*pkgv1alpha1.Transaction) {
	return func(tx *pkgv1alpha1.Transaction) {
		at(tx, 3).NotInstalled(&transaction.FailedError{Reason: reason, Message: message})
	}
}

// situations are all that a Transaction may be in.
var situations = []struct {
	name  string
	facts *Facts
}{
	{"new", of(install())},
	{"not observed", of(install(func(tx *pkgv1alpha1.Transaction) { tx.CreationTimestamp = metav1.NewTime(began.Add(-time.Minute)) }))},
	{"TransactionBlocked", blockedBy(install(started, validated, func(tx *pkgv1alpha1.Transaction) { tx.Name = "tx-platform-1" }))},
	{"TransactionBlocked after a failure", of(install(started, invalid("CRDConflict", "something"), func(tx *pkgv1alpha1.Transaction) { at(tx, 9).Blocked("tx-platform-1") }))},
	{"ReconcilePaused", of(install(func(tx *pkgv1alpha1.Transaction) { at(tx, 1).Paused() }))},
	{"TransactionInProgress", of(install(started))},
	{"ReconcileError while it resolves", of(install(started, func(tx *pkgv1alpha1.Transaction) {
		at(tx, 3).Interrupted(errors.New("list tags of "+reg+"s3: 503 Service Unavailable"), true)
	}))},
	{"ReconcileError, and it has ended", of(install(once, started, func(tx *pkgv1alpha1.Transaction) {
		at(tx, 3).Interrupted(errors.New("list tags of "+reg+"s3: 503 Service Unavailable"), true)
	}))},
	{"MissingDependency", of(install(started, invalid("MissingDependency",
		"Package s3 requires family >=v3, but no compatible version found. The highest version in "+reg+"family is v2.1.0")))},
	{"MissingDependency of a deletion", of(install(remove, started, invalid("MissingDependency",
		"Package platform requires s3 >=v1, which would be removed: platform v1.0.0 (installed) requires s3 >=v1. Delete or change platform first")))},
	{"MissingDependency on clusters", of(install(started, resolved, invalid("MissingDependency",
		`cluster c1: CRD buckets.example.org would be removed, but 1 object of buckets.example.org (logs) needs it`)))},
	{"VersionConflict", of(install(once, started, invalid("VersionConflict",
		"no version of family fits all packages that require it: s3 v2.0.0 (wanted) requires family >=v2; platform v1.0.0 (installed) requires ec2 ^1; "+
			"ec2 v1.4.0 (installed) requires family <v2. Change the version of Provider/s3 or Configuration/platform")))},
	{"VersionConflict, a lower version", of(install(started, invalid("VersionConflict",
		"package family v2.0.0 does not fit: s3 requires <v2: s3 v2.0.0 (wanted) requires family <v2; family v2.0.0 (installed). "+
			"A lower version of family fits: allow downgrades, or change what requires it")))},
	{"VersionConflict on clusters", of(install(started, resolved, invalid("VersionConflict", "clusters c1, c2: package "+reg+"s3 requires Kubernetes >=1.31, not v1.29.2")))},
	{"CircularDependency", of(install(started, invalid("CircularDependency",
		"circular dependency: a -> b -> a: a v1.0.0 (wanted) requires b; b v1.0.0 requires a")))},
	{"InvalidPackage", of(install(started, invalid("InvalidPackage", "package "+reg+"s3:v2.0.0 has no package.yaml")))},
	{"CRDConflict", of(install(started, resolved, invalid("CRDConflict", "Multiple packages install incompatible versions of CRD buckets.example.org")))},
	{"CRDConflict with an installed package", listing("store-1234", of(install(started, resolved, invalid("CRDConflict",
		"CRD buckets.example.org of package s3 is already controlled by ProviderRevision store-1234 (UID u)"))))},
	{"SchemaIncompatible", of(install(started, resolved, invalid("SchemaIncompatible",
		"buckets.example.org v1: field spec.region was removed (2 objects: logs, media); accounts.example.org v1: field spec.id is required (1 object: main)")))},
	{"SchemaIncompatible on clusters", of(install(started, resolved, invalid("SchemaIncompatible",
		"cluster c1: buckets.example.org v1: field spec.region was removed (1 object: logs)")))},
	{"SchemaIncompatible, created by a user", of(install(byUser, once, started, resolved, invalid("SchemaIncompatible",
		"buckets.example.org v1: field spec.region was removed (1 object: logs)")))},
	{"ResourcesInUse", of(install(remove, started, invalid("ResourcesInUse",
		`the deletion of package s3 would delete 1 object of buckets.example.org (logs): delete them first, or allow it with the annotation pkg.crossplane.io/allow-deletion-of-resources: "true" on the package`)))},
	{"InstallationInProgress", of(install(started, resolved, validated))},
	{"CRDInstallationFailed", of(install(started, resolved, validated, notInstalled("CRDInstallationFailed", "Failed to install CRD buckets.example.org: not established within 30s")))},
	{"ObjectInstallationFailed", of(install(started, resolved, validated, notInstalled("ObjectInstallationFailed", "Failed to install Composition.apiextensions.crossplane.io/x: forbidden")))},
	{"PackageInstallationFailed", of(install(once, started, resolved, validated, notInstalled("PackageInstallationFailed", "Failed to install Provider org-family: forbidden")))},
	{"ReconcileError while it installs", of(install(started, resolved, validated, func(tx *pkgv1alpha1.Transaction) {
		at(tx, 3).Interrupted(errors.New("patch CustomResourceDefinition buckets.example.org: connection refused"), true)
	}))},
	{"installed, not committed", of(install(started, resolved, validated, func(tx *pkgv1alpha1.Transaction) { at(tx, 3).Installed("") }))},
	{"TransactionComplete", of(install(started, resolved, validated, func(tx *pkgv1alpha1.Transaction) {
		tx.Status.Warnings = []string{"buckets.example.org v1: field spec.size was removed"}
		at(tx, 3).Installed("nothing requires " + reg + "old; delete them if you do not need them")
		at(tx, 4).Complete()
	}))},
	{"ValidateOnly", of(install(byUser, validateOnly, started, resolved, func(tx *pkgv1alpha1.Transaction) { at(tx, 3).OnlyValidated() }))},
	{"Superseded", of(install(func(tx *pkgv1alpha1.Transaction) {
		at(tx, 3).Superseded("the package has changed since: generation 2 has a transaction of its own")
	}))},
	{"package without Transaction", &Facts{Kind: "Provider", Package: provider("s3", nil), Now: began}},
	{"package that nobody has seen", &Facts{Kind: "Provider", Package: provider("s3", nil), Now: began.Add(time.Hour)}},
	{"package that is paused", &Facts{Kind: "Provider", Package: provider("s3", map[string]string{pkgv1.AnnotationPaused: "true"}), Now: began.Add(time.Hour)}},
	{"package whose Transaction was collected", &Facts{Kind: "Provider", Package: installed(provider("s3", nil)), Now: began.Add(time.Hour)}},
}

func blockedBy(holder *pkgv1alpha1.Transaction) *Facts {
	f := of(install(func(tx *pkgv1alpha1.Transaction) { at(tx, 1).Blocked(holder.Name) }))
	f.Holder = holder
	return f
}

// listing lets the Lock list a package.
func listing(revision string, f *Facts) *Facts {
	f.Lock.Packages = append(f.Lock.Packages, pkgv1beta1.LockPackage{Name: revision, Source: reg + "store"})
	return f
}

func of(tx *pkgv1alpha1.Transaction) *Facts {
	lock := &pkgv1beta1.Lock{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
		pkgv1beta1.AnnotationCurrentTransaction: tx.Name, pkgv1beta1.AnnotationCurrentTransactionUID: string(tx.UID),
	}}}
	if ready := find(tx, pkgv1alpha1.TransactionConditionReady).Reason; tx.Status.CompletionTime != nil || tx.Status.TransactionNumber == 0 ||
		ready == pkgv1alpha1.ReasonValidationFailed || ready == pkgv1alpha1.ReasonTransactionBlocked {
		lock.Annotations = nil
	}
	return &Facts{Kind: "Provider", Transaction: tx, Lock: lock, Now: began.Add(5 * time.Second)}
}

func provider(name string, annotations map[string]string) *pkgv1.Provider {
	return &pkgv1.Provider{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations, CreationTimestamp: metav1.NewTime(began)}}
}

func installed(p *pkgv1.Provider) *pkgv1.Provider {
	p.Status.Conditions = []metav1.Condition{{Type: pkgv1.PackageConditionInstalled, Status: metav1.ConditionTrue, Reason: pkgv1.ReasonActivePackageRevision}}
	return p
}

func TestExplain(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	for _, s := range situations {
		out.WriteString("## " + s.name + "\n")
		e := Explain(s.facts)
		e.Draw(&out)
		out.WriteString("\n")
	}
	golden.Compare(t, "explain", strings.TrimRight(out.String(), "\n")+"\n")
}

// Every reason that a Transaction may have is explained, and every one that needs a user says what
// to do.
func TestAllReasons(t *testing.T) {
	t.Parallel()
	explained := map[string]bool{}
	for _, s := range situations {
		if s.facts.Transaction == nil {
			continue
		}
		for _, c := range s.facts.Transaction.Status.Conditions {
			explained[c.Reason] = true
		}
		e := Explain(s.facts)
		if e.Problem != nil && len(e.Problem.Next) == 0 {
			t.Errorf("%s: nothing to do", s.name)
		}
		broken := 0
		for _, step := range e.Steps {
			if step.State == Broken || step.State == Current {
				broken++
			}
		}
		if over := transaction.Succeeded(s.facts.Transaction) || s.name == pkgv1alpha1.ReasonSuperseded; broken > 1 || over != (broken == 0) {
			t.Errorf("%s: %d steps are current or broken", s.name, broken)
		}
	}
	for _, reason := range reasons(t) {
		if !explained[reason] {
			t.Errorf("reason %s is not explained", reason)
		}
	}
}

// reasons returns the values of all constants Reason* of the API of Transactions.
func reasons(t *testing.T) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.FromSlash("../../../../api/pkg/v1alpha1/conditions.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var values []string
	for _, decl := range file.Decls {
		constants, ok := decl.(*ast.GenDecl)
		if !ok || constants.Tok != token.CONST {
			continue
		}
		for _, spec := range constants.Specs {
			value, ok := spec.(*ast.ValueSpec)
			if !ok || !strings.HasPrefix(value.Names[0].Name, "Reason") {
				continue
			}
			literal, ok := value.Values[0].(*ast.BasicLit)
			if !ok {
				t.Fatalf("constant %s is no literal", value.Names[0].Name)
			}
			text, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			values = append(values, text)
		}
	}
	if len(values) == 0 {
		t.Fatal("no reasons found")
	}
	return values
}
