package transactions

import (
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	pkgv1beta1 "github.com/starlinghq/starling/api/pkg/v1beta1"
	core "github.com/starlinghq/starling/pkg/core/xpkg"
	"github.com/starlinghq/starling/test/testenv"
	"github.com/starlinghq/starling/test/testxpkg"
)

// The examples of the specification are about this package.
const (
	exampleGroup = "s3.aws.crossplane.io"
	exampleCRD   = "buckets." + exampleGroup
	exampleRepo  = "crossplane-contrib/provider-aws-s3"
	familyRepo   = "crossplane-contrib/provider-family-aws"
	olderRepo    = "acme/provider-family-aws" // without a suitable version
	gcpRepo      = "crossplane-contrib/provider-gcp-compute"
)

var (
	policies   = schema.GroupVersion{Group: "admissionregistration.k8s.io", Version: "v1"}
	inProgress = condition("Ready", "Unknown", "TransactionInProgress", "Transaction is currently executing")
)

// refuseCRD makes the API server refuse the CustomResourceDefinition of the examples, and returns
// when it does.
func (h *hub) refuseCRD(t *testing.T) {
	t.Helper()
	h.Apply(t, `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, metadata: {name: no-buckets}, spec: {
		matchConstraints: {resourceRules: [{apiGroups: [apiextensions.k8s.io], apiVersions: ["*"], operations: [CREATE], resources: [customresourcedefinitions]}]},
		validations: [{expression: "object.metadata.name != '`+exampleCRD+`'", message: no more buckets}]}}`)
	h.Apply(t, `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, metadata: {name: no-buckets}, spec: {
		policyName: no-buckets, validationActions: [Deny]}}`)
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		_, err := h.Client.Resource(crds).Create(t.Context(), testxpkg.CRD(exampleGroup, "Bucket", "x"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return apierrors.IsInvalid(err), "the admission policy is not active"
	})
}

// states returns the statuses that a Transaction had so far, one after the other, as a watch shows
// them.
func (h *hub) states(t *testing.T, name string) func() []pkgv1alpha1.TransactionStatus {
	t.Helper()
	watch, err := h.Client.Resource(pkgv1alpha1.Transactions).Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(watch.Stop)
	var mutex sync.Mutex
	var seen []pkgv1alpha1.TransactionStatus
	go func() {
		for event := range watch.ResultChan() {
			obj, ok := event.Object.(*unstructured.Unstructured)
			if !ok {
				continue
			}
			status := statusOf(testenv.Into[pkgv1alpha1.Transaction](t, obj))
			mutex.Lock()
			if len(status.Conditions) > 0 && (len(seen) == 0 || diffStatus(seen[len(seen)-1], status) != "") {
				seen = append(seen, status)
			}
			mutex.Unlock()
		}
	}()
	return func() []pkgv1alpha1.TransactionStatus {
		mutex.Lock()
		defer mutex.Unlock()
		return slices.Clone(seen)
	}
}

// TestSpecifiedStatuses: the examples in the section "Transaction Status Examples" of the
// specification, with its names, one after the other. The whole status is compared, and these
// differences are intended:
//
//   - There is the condition Synced, which the specification wants at every return and its examples
//     do not show.
//   - A message of the examples may be followed by what is needed to repair the failure.
//   - A status has failures, and changes if it got so far: fields that the specification has, or
//     that are ours.
//   - The first example names the revision of a dependency after the last segment of its repository
//     only. Crossplane's package manager, whose names the specification keeps elsewhere, has the
//     whole path in it, because two organizations may have a provider of one name.
//   - proposedLockPackages have dependencies first, as the specification has them within a
//     transaction. It shows no order for those that stay; ours is by source.
//
// Digests such as "existing123" are not digests, so no test can have them.
func TestSpecifiedStatuses(t *testing.T) { //nolint:tparallel // they come one after the other
	t.Parallel()
	h := newHub(t)
	source := h.registry.Source
	e := examples{hub: h, gcp: h.push(t, gcpRepo, "v2.0.0", testxpkg.Provider("provider-gcp-compute"))}
	s3 := func(dependency, constraint string) *core.Package {
		return testxpkg.Requires(testxpkg.Provider("provider-aws-s3", testxpkg.CRD(exampleGroup, "Bucket", "region")), pkgv1.KindProvider, source(dependency), constraint)
	}
	e.family = h.push(t, familyRepo, "v1.1.0", testxpkg.Provider("provider-family-aws", testxpkg.CRD("aws.crossplane.io", "ProviderConfig", "account")))
	e.s3 = h.push(t, exampleRepo, "v1.0.0", s3(familyRepo, ">=v1.1.0"))
	other := h.push(t, "acme/provider-buckets", "v1.0.0", testxpkg.Provider("provider-buckets", testxpkg.CRD(exampleGroup, "Bucket", "size")))
	h.push(t, olderRepo, "v1.0.0", testxpkg.Provider("provider-family-aws"))
	h.push(t, exampleRepo, "v0.8.0", s3(olderRepo, ">=v1.1.0"))
	conflicting := h.push(t, exampleRepo, "v0.9.0", s3("acme/provider-buckets", "*"))

	var once sync.Once
	var forbid func()
	h.Config = testenv.AfterWrite(h.Config, "PUT transactions/status", func() {
		for _, tx := range h.transactions(t) {
			if tx.Name == "installation-failure" && meta.IsStatusConditionTrue(tx.Status.Conditions, "Validated") {
				once.Do(forbid)
			}
		}
	})
	h.run(t)
	h.apply(t, "Provider", "provider-gcp-compute", gcpRepo, "v2.0.0")
	h.becomes(t, "provider-gcp-compute", "True", "TransactionComplete")

	t.Run("ValidationFailureMissingDependency", func(t *testing.T) {
		e.check(t, e.install(t, "missing-dependency", "v0.8.0"), pkgv1alpha1.TransactionStatus{
			Failures: 1, TransactionNumber: 2,
			Conditions: []metav1.Condition{
				condition("Validated", "False", "MissingDependency", "Package provider-aws-s3 requires provider-family-aws >=v1.1.0, but no compatible version found. "+
					"The highest version in "+source(olderRepo)+" is v1.0.0"),
				pending, invalid, synced,
			},
		})
	})

	t.Run("ValidationFailureCRDConflict", func(t *testing.T) {
		e.check(t, e.install(t, "crd-conflict", "v0.9.0"), pkgv1alpha1.TransactionStatus{
			Failures: 1, TransactionNumber: 3,
			ProposedLockPackages: []pkgv1beta1.LockPackage{
				locked("Provider", core.RevisionName("acme-provider-buckets", other), source("acme/provider-buckets"), "v1.0.0@"+other),
				locked("Provider", core.RevisionName("provider-aws-s3", conflicting), source(exampleRepo), "v0.9.0@"+conflicting, requires("Provider", source("acme/provider-buckets"), "*")),
				e.lockedGCP(),
			},
			Conditions: []metav1.Condition{
				condition("Validated", "False", "CRDConflict", "Multiple packages install incompatible versions of CRD "+exampleCRD), pending, invalid, synced,
			},
		})
	})

	failed := condition("Ready", "False", "InstallationFailed", "Transaction installation failed")
	t.Run("InstallationFailure", func(t *testing.T) {
		// The validation has passed, and then somebody forbids the CRD.
		forbid = func() { h.refuseCRD(t) }
		e.check(t, e.install(t, "installation-failure", "v1.0.0"), pkgv1alpha1.TransactionStatus{
			Failures: 1, TransactionNumber: 4, ProposedLockPackages: e.proposed(), Changes: e.changes(false),
			Warnings: []string{notStarted("Provider crossplane-contrib-provider-family-aws, Provider provider-aws-s3 define"), "a part of the change may be written: see the condition Healthy of the packages. If it is, clusters keep what they had until a transaction has installed the package or removed it"},
			Conditions: []metav1.Condition{
				validated, condition("Installed", "False", "CRDInstallationFailed", "Failed to install CRD "+exampleCRD+": create customresourcedefinitions.apiextensions.k8s.io "+
					exampleCRD+`: customresourcedefinitions.apiextensions.k8s.io "`+exampleCRD+`" is forbidden: ValidatingAdmissionPolicy 'no-buckets' with binding 'no-buckets' denied request: no more buckets`),
				failed, synced,
			},
		})
		for _, resource := range []string{"validatingadmissionpolicybindings", "validatingadmissionpolicies"} {
			h.Remove(t, policies.WithResource(resource), "", "no-buckets")
		}
		testenv.Eventually(t, testenv.Patience, func() (bool, string) {
			_, err := h.Client.Resource(crds).Create(t.Context(), testxpkg.CRD(exampleGroup, "Bucket", "x"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err == nil, "the admission policy is still active"
		})
	})

	t.Run("InstallationInProgressAndCompleteSuccess", func(t *testing.T) {
		const name = "install-provider-aws-s3"
		states := h.states(t, name)
		tx := e.install(t, name, "v1.0.0")
		number := pkgv1alpha1.TransactionStatus{TransactionNumber: 5}
		started := number
		started.Conditions = []metav1.Condition{condition("Validated", "Unknown", "ValidationPending", "Validation has not ended"), pending, inProgress}
		installing := number
		installing.ProposedLockPackages, installing.Changes = e.proposed(), e.changes(true)
		// The family was installed before the CRD was refused.
		installing.Warnings = []string{
			"Provider/crossplane-contrib-provider-family-aws is installed, but was not in the Lock; it is added", notStarted("Provider provider-aws-s3 defines"),
		}
		installing.Conditions = []metav1.Condition{validated, condition("Installed", "Unknown", "InstallationInProgress", "Package installation in progress"), inProgress, synced}
		installed := *installing.DeepCopy()
		installed.Conditions[1] = complete[1]
		ended := *installing.DeepCopy()
		ended.Conditions = complete
		if !e.check(t, tx, ended) {
			return
		}
		want := []pkgv1alpha1.TransactionStatus{started, installing, installed, ended}
		testenv.Eventually(t, testenv.Patience, func() (bool, string) {
			diff := cmp.Diff(want, states(), cmpopts.EquateEmpty(), cmpopts.SortSlices(byType))
			return diff == "", diff
		})
		if tx.Status.StartTime == nil || tx.Status.CompletionTime.Before(tx.Status.StartTime) {
			t.Errorf("started at %s, completed at %s", tx.Status.StartTime, tx.Status.CompletionTime)
		}
		if diff := cmp.Diff(e.proposed(), h.free(t).Packages, cmpopts.EquateEmpty()); diff != "" {
			t.Error("the Lock is not what was proposed:", diff)
		}
	})
}

// examples are the packages of the examples, with their digests.
type examples struct {
	*hub
	gcp, family, s3 string
}

// install installs provider-aws-s3 by a Transaction as the specification shows it, tries once, and
// returns the Transaction when it has ended.
func (e *examples) install(t *testing.T, name, tag string) *pkgv1alpha1.Transaction {
	t.Helper()
	e.Apply(t, `{apiVersion: pkg.crossplane.io/v1alpha1, kind: Transaction, metadata: {name: `+name+`}, spec: {change: "Install", retryLimit: 1, install: {package: {
		apiVersion: "pkg.crossplane.io/v1", kind: "Provider", metadata: {name: "provider-aws-s3"}, spec: {package: "`+e.registry.Source(exampleRepo)+":"+tag+`"}}}}}`)
	return e.ends(t, name)
}

func (e *examples) check(t *testing.T, tx *pkgv1alpha1.Transaction, want pkgv1alpha1.TransactionStatus) bool {
	t.Helper()
	diff := diffStatus(want, statusOf(tx))
	if diff != "" {
		t.Error(diff)
	}
	return diff == ""
}

func (e *examples) lockedGCP() pkgv1beta1.LockPackage {
	return locked("Provider", core.RevisionName("provider-gcp-compute", e.gcp), e.registry.Source(gcpRepo), "v2.0.0@"+e.gcp)
}

// proposed are the packages of the first example: the requested one, its dependency, and one that
// stays.
func (e *examples) proposed() []pkgv1beta1.LockPackage {
	source := e.registry.Source
	return []pkgv1beta1.LockPackage{
		locked("Provider", core.RevisionName("crossplane-contrib-provider-family-aws", e.family), source(familyRepo), "v1.1.0@"+e.family),
		locked("Provider", core.RevisionName("provider-aws-s3", e.s3), source(exampleRepo), "v1.0.0@"+e.s3, requires("Provider", source(familyRepo), ">=v1.1.0")),
		e.lockedGCP(),
	}
}

// changes are those of the installation of provider-aws-s3.
func (e *examples) changes(familyIsInstalled bool) []pkgv1alpha1.PackageChange {
	const crd = "CustomResourceDefinition.apiextensions.k8s.io/"
	proposed := e.proposed()
	changes := []pkgv1alpha1.PackageChange{{Source: proposed[1].Source, To: proposed[1].Version, Created: []string{crd + exampleCRD}}}
	if familyIsInstalled {
		return changes
	}
	return slices.Insert(changes, 0, pkgv1alpha1.PackageChange{Source: proposed[0].Source, To: proposed[0].Version, Created: []string{crd + "providerconfigs.aws.crossplane.io"}})
}
