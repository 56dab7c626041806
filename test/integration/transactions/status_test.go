package transactions

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	pkgv1beta1 "github.com/starlinghq/starling/api/pkg/v1beta1"
	core "github.com/starlinghq/starling/pkg/core/xpkg"
	"github.com/starlinghq/starling/test/testxpkg"
)

// statusOf returns the status of a Transaction without what differs each time.
func statusOf(tx *pkgv1alpha1.Transaction) pkgv1alpha1.TransactionStatus {
	status := *tx.Status.DeepCopy()
	for n := range status.Conditions {
		status.Conditions[n].LastTransitionTime = metav1.Time{}
	}
	status.StartTime, status.CompletionTime = nil, nil
	return status
}

func diffStatus(want, got pkgv1alpha1.TransactionStatus) string {
	return cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.SortSlices(byType))
}

func byType(a, b metav1.Condition) bool { return a.Type < b.Type }

func condition(kind, status, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionStatus(status), Reason: reason, Message: message, ObservedGeneration: 1}
}

var (
	synced    = condition("Synced", "True", "ReconcileSuccess", "")
	validated = condition("Validated", "True", "AllValidationsPassed", "Pre-flight validation completed successfully")
	pending   = condition("Installed", "Unknown", "InstallationPending", "Installation pending validation completion")
	invalid   = condition("Ready", "False", "ValidationFailed", "Transaction validation failed")
	complete  = []metav1.Condition{
		validated, condition("Installed", "True", "InstallationComplete", "Package installation completed successfully"),
		condition("Ready", "True", "TransactionComplete", "Transaction completed successfully"), synced,
	}
)

func locked(kind, revision, source, version string, dependencies ...pkgv1beta1.Dependency) pkgv1beta1.LockPackage {
	version1 := "pkg.crossplane.io/v1"
	return pkgv1beta1.LockPackage{Name: revision, APIVersion: &version1, Kind: &kind, Source: source, Version: version, Dependencies: dependencies}
}

func requires(kind, source, constraint string) pkgv1beta1.Dependency {
	version1 := "pkg.crossplane.io/v1"
	return pkgv1beta1.Dependency{APIVersion: &version1, Kind: &kind, Package: source, Constraints: constraint}
}

// bucket returns the CustomResourceDefinition of buckets with these fields.
func bucket(fields ...string) *unstructured.Unstructured {
	return testxpkg.CRD("s3.aws.example.org", "Bucket", fields...)
}

// TestExamples installs packages as in the examples of the API, and compares the whole status. Its
// parts share one Lock.
func TestExamples(t *testing.T) { //nolint:tparallel // they come one after the other
	t.Parallel()
	h := newHub(t)
	source := h.registry.Source
	existing := h.push(t, "org/provider-gcp-compute", "v2.0.0", testxpkg.Provider("provider-gcp-compute"))
	family := h.push(t, "org/provider-family-aws", "v1.1.0", testxpkg.Provider("provider-family-aws", testxpkg.CRD("aws.example.org", "ProviderConfig", "account")))
	requiring := func(constraint string) *core.Package {
		return testxpkg.Requires(testxpkg.Provider("provider-aws-s3", bucket("region")), pkgv1.KindProvider, source("org/provider-family-aws"), constraint)
	}
	s3 := h.push(t, "org/provider-aws-s3", "v1.0.0", requiring(">=v1.1.0"))
	h.run(t)

	h.apply(t, "Provider", "provider-gcp-compute", "org/provider-gcp-compute", "v2.0.0")
	h.becomes(t, "provider-gcp-compute", "True", "TransactionComplete")

	t.Run("Complete", func(t *testing.T) {
		h.apply(t, "Provider", "provider-aws-s3", "org/provider-aws-s3", "v1.0.0")
		got := h.becomes(t, "provider-aws-s3", "True", "TransactionComplete")
		gcp := locked("Provider", core.RevisionName("provider-gcp-compute", existing), source("org/provider-gcp-compute"), "v2.0.0@"+existing)
		aws := locked("Provider", core.RevisionName("org-provider-family-aws", family), source("org/provider-family-aws"), "v1.1.0@"+family)
		own := locked("Provider", core.RevisionName("provider-aws-s3", s3), source("org/provider-aws-s3"), "v1.0.0@"+s3, requires("Provider", source("org/provider-family-aws"), ">=v1.1.0"))
		want := pkgv1alpha1.TransactionStatus{
			TransactionNumber: 2, Conditions: complete, ProposedLockPackages: []pkgv1beta1.LockPackage{aws, own, gcp},
			Warnings: []string{notStarted("Provider org-provider-family-aws, Provider provider-aws-s3 define")},
			Changes: []pkgv1alpha1.PackageChange{
				{Source: aws.Source, To: aws.Version, Created: []string{"CustomResourceDefinition.apiextensions.k8s.io/providerconfigs.aws.example.org"}},
				{Source: own.Source, To: own.Version, Created: []string{"CustomResourceDefinition.apiextensions.k8s.io/buckets.s3.aws.example.org"}},
			},
		}
		if diff := diffStatus(want, statusOf(got)); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(got.Status.ProposedLockPackages, h.lock(t).Packages, cmpopts.EquateEmpty()); diff != "" {
			t.Error("the Lock is not what was proposed:", diff)
		}
		if got.Status.StartTime == nil || got.Status.CompletionTime == nil {
			t.Error("no start or completion time")
		}
	})

	cases := map[string]struct {
		pkg     *core.Package
		reason  string
		message string
	}{
		"MissingDependency": {
			pkg:     testxpkg.Requires(testxpkg.Provider("missing"), pkgv1.KindProvider, source("org/provider-family-aws"), ">=v1.2.0"),
			reason:  "MissingDependency",
			message: "Package missing requires provider-family-aws >=v1.2.0, but no compatible version found. The highest version in " + source("org/provider-family-aws") + " is v1.1.0",
		},
		"MissingRepository": {
			pkg:     testxpkg.Requires(testxpkg.Provider("orphan"), pkgv1.KindProvider, source("org/nothing"), ">=v1.2.0"),
			reason:  "MissingDependency",
			message: "Package orphan requires nothing >=v1.2.0, but no compatible version found. Repository " + source("org/nothing") + " was not found",
		},
		"CRDConflict": {
			pkg:    testxpkg.Provider("conflict", bucket("region", "size")),
			reason: "CRDConflict",
		},
		"InvalidConstraint": {
			pkg:    testxpkg.Requires(testxpkg.Provider("malformed"), pkgv1.KindProvider, source("org/provider-family-aws"), ">>1"),
			reason: "InvalidPackage",
		},
		"ReservedGroup": {
			pkg:     testxpkg.Provider("reserved", testxpkg.CRD("control.kubestellar.io", "BindingPolicy", "x")),
			reason:  "CRDConflict",
			message: "package reserved has CRD bindingpolicys.control.kubestellar.io, but only Starling may define kinds of group control.kubestellar.io",
		},
		"UnservedKind": {
			pkg: testxpkg.Configuration("unserved", &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "apiextensions.crossplane.io/v1", "kind": "Composition", "metadata": map[string]any{"name": "c"},
			}}),
			reason: "MissingDependency",
			message: "Package unserved requires kind Composition.apiextensions.crossplane.io, which is not served here. It is one of Crossplane's own. " +
				"Install it from the directory cluster/crds of Crossplane: kubectl apply --server-side --filename apiextensions.crossplane.io_compositions.yaml",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			name := strings.ToLower(name)
			if tc.message != "" {
				name = strings.Fields(tc.message)[1]
			}
			h.push(t, "org/"+name, "v1.0.0", tc.pkg)
			before := h.lock(t)
			h.apply(t, tc.pkg.Kind, name, "org/"+name, "v1.0.0")
			defer h.Remove(t, pkgv1.GroupVersion.WithResource(strings.ToLower(tc.pkg.Kind)+"s"), "", name)
			got := h.becomes(t, name, "False", "ValidationFailed")
			status := statusOf(got)
			want := pkgv1alpha1.TransactionStatus{
				Failures: status.Failures, TransactionNumber: status.TransactionNumber, ProposedLockPackages: status.ProposedLockPackages,
				Conditions: []metav1.Condition{condition("Validated", "False", tc.reason, tc.message), pending, invalid, synced},
			}
			for _, c := range status.Conditions {
				if tc.message == "" && c.Type == "Validated" {
					t.Log(c.Message)
					want.Conditions[0].Message = c.Message
				}
			}
			if diff := diffStatus(want, status); diff != "" {
				t.Error(diff)
			}
			if status.Failures == 0 || status.TransactionNumber < 3 {
				t.Errorf("failures %d, number %d", status.Failures, status.TransactionNumber)
			}
			if after := h.lock(t); cmp.Diff(before.Packages, after.Packages) != "" {
				t.Errorf("the Lock lists %v, want %v", after.Packages, before.Packages)
			}
		})
	}
}
