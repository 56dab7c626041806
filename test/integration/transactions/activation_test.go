package transactions

import (
	"fmt"
	"strings"
	"testing"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/transaction"
	core "github.com/starlinghq/starling/pkg/core/xpkg"
	"github.com/starlinghq/starling/test/testenv"
	"github.com/starlinghq/starling/test/testxpkg"
)

// TestActivation: with manual activation nothing is installed until a user activates a revision, by
// a Transaction. An earlier revision can be activated again, and an active one deactivated, unless
// another package requires it. What is active is what the Lock lists, and controls the objects.
func TestActivation(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	const crd = "buckets.s3.aws.example.org"
	source := h.registry.Source("org/s3")
	names := map[string]string{}
	for tag, fields := range map[string][]string{"v1.0.0": {"region"}, "v1.1.0": {"region", "size"}} {
		names[tag] = core.RevisionName("s3", h.push(t, "org/s3", tag, testxpkg.Provider("s3", bucket(fields...))))
	}
	h.push(t, "org/platform", "v1.0.0", testxpkg.Requires(testxpkg.Configuration("platform"), pkgv1.KindProvider, source, "*"))
	h.run(t)

	revision := func(tag string) *pkgv1.ProviderRevision {
		return testenv.Get[pkgv1.ProviderRevision](t, h.Client.Resource(pkgv1.ProviderRevisions), names[tag])
	}
	// set sets the state of a revision as a user does, and returns the Transaction that follows,
	// when it has ended or failed.
	set := func(tag, state string) *pkgv1alpha1.Transaction {
		t.Helper()
		before := h.transactions(t)
		h.Patch(t, pkgv1.ProviderRevisions, "", names[tag], `{"spec":{"desiredState":"`+state+`"}}`)
		var created *pkgv1alpha1.Transaction
		testenv.Eventually(t, testenv.Patience, func() (bool, string) {
			for name, tx := range h.transactions(t) {
				if before[name] == nil {
					created = tx
				}
			}
			return created != nil && (transaction.Ended(created) || created.Status.Failures > 0), fmt.Sprintf("%s %s: %+v", tag, state, created)
		})
		return created
	}
	// installed checks which version the Lock has, which revision is active, and that it controls
	// the CRD.
	installed := func(when, tag string) {
		t.Helper()
		var versions []string
		for _, l := range h.free(t).Packages {
			if l.Source == source {
				versions = append(versions, strings.Split(l.Version, "@")[0])
			}
		}
		if got := strings.Join(versions, " "); got != tag {
			t.Errorf("%s: the Lock has %q, want %q", when, got, tag)
		}
		controller := ""
		if found, err := h.Client.Resource(crds).Get(t.Context(), crd, getOptions); err == nil {
			if owner := transaction.ControllerOf(found); owner != nil {
				controller = owner.Name
			}
		}
		if controller != names[tag] {
			t.Errorf("%s: %q controls the CRD, want %q", when, controller, names[tag])
		}
		for version := range names {
			r := revision(version)
			if r == nil {
				continue
			}
			if active := r.Spec.DesiredState == pkgv1.RevisionActive && !transaction.Awaits(r); active != (version == tag) {
				t.Errorf("%s: revision of %s: state %s, conditions %+v", when, version, r.Spec.DesiredState, r.Status.Conditions)
			}
		}
		h.shows(t, tag)
	}

	const limit = "revisionHistoryLimit: 2"
	h.apply(t, "Provider", "s3", "org/s3", "v1.0.0", "revisionActivationPolicy: Manual", limit)
	first := h.becomes(t, "s3", "True", "TransactionComplete")
	if message := conditionOf(t, first.Status.Conditions, "Installed", "InstallationComplete"); !strings.Contains(message, "set spec.desiredState of the revision to Active") {
		t.Errorf("message %q", message)
	}
	installed("applied", "")
	if tx := set("v1.0.0", "Active"); !transaction.Succeeded(tx) || tx.Spec.Change != pkgv1alpha1.ChangeTypeInstall || tx.Labels[pkgv1.LabelPackage] != "s3" {
		t.Errorf("%+v", tx)
	}
	installed("activated", "v1.0.0")

	h.apply(t, "Provider", "s3", "org/s3", "v1.1.0", "revisionActivationPolicy: Manual", limit)
	h.becomes(t, "s3", "True", "TransactionComplete")
	installed("new revision", "v1.0.0")
	set("v1.1.0", "Active")
	installed("new revision is activated", "v1.1.0")
	set("v1.0.0", "Active")
	installed("earlier revision is activated", "v1.0.0")

	set("v1.0.0", "Inactive")
	installed("deactivated", "")
	h.exists(t, crds, crd) // it stays
	set("v1.1.0", "Active")
	installed("activated after a deactivation", "v1.1.0")

	// What another package requires stays installed.
	h.apply(t, "Configuration", "platform", "org/platform", "v1.0.0")
	h.becomes(t, "platform", "True", "TransactionComplete")
	refused := set("v1.1.0", "Inactive")
	if message := conditionOf(t, refused.Status.Conditions, "Validated", "MissingDependency"); !strings.Contains(message, "platform requires s3") {
		t.Errorf("message %q", message)
	}
	h.Delete(t, pkgv1.Configurations, "", "platform")
	h.gone(t, pkgv1.Configurations, "platform")
	h.Delete(t, pkgv1alpha1.Transactions, "", refused.Name)
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		return len(h.lock(t).Packages) == 0, fmt.Sprintf("%+v", h.lock(t).Packages)
	})
	installed("deactivated again", "")

	// With automatic activation the package says which revision is active.
	h.apply(t, "Provider", "s3", "org/s3", "v1.1.0", "revisionActivationPolicy: Automatic", limit)
	h.becomes(t, "s3", "True", "TransactionComplete")
	installed("automatic", "v1.1.0")
	set("v1.1.0", "Inactive")
	installed("deactivated, automatic", "v1.1.0")
	set("v1.0.0", "Active")
	installed("earlier revision is activated, automatic", "v1.1.0")
}

// shows waits until the status of the package s3 says that this version is installed, "" for none.
func (h *hub) shows(t *testing.T, tag string) {
	t.Helper()
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		p := testenv.Get[pkgv1.Provider](t, h.Client.Resource(pkgv1.Providers), "s3")
		for _, c := range p.Status.Conditions {
			if c.Type == "Installed" {
				right := c.Reason == "InactivePackageRevision"
				if tag != "" {
					right = c.Status == "True" && strings.Contains(p.Status.CurrentIdentifier, ":"+tag+"@")
				}
				return right, fmt.Sprintf("%+v", p.Status)
			}
		}
		return false, "no condition"
	})
}
