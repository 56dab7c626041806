package transactions

import (
	"testing"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	"github.com/starlinghq/starling/test/testxpkg"
)

// TestPinADependency: a user installs what another package requires under a name of their own,
// before that package or after it, as tools do that apply what is in git.
func TestPinADependency(t *testing.T) {
	t.Parallel()
	const crd = "providerconfigs.aws.example.org"
	configuration := func(h *hub, t *testing.T) {
		t.Helper()
		h.apply(t, "Configuration", "platform", "org/platform", "v1.0.0")
		h.becomes(t, "platform", "True", "TransactionComplete")
	}
	provider := func(tag string) func(*hub, *testing.T) {
		return func(h *hub, t *testing.T) {
			t.Helper()
			h.apply(t, "Provider", "family", "org/family", tag, "commonLabels: {app: platform}")
			h.becomes(t, "family", "True", "TransactionComplete")
		}
	}
	for name, steps := range map[string][]func(*hub, *testing.T){
		"AfterIt":             {configuration, provider("v1.1.0")},
		"AfterItOlder":        {configuration, provider("v1.0.0"), provider("v1.1.0")},
		"BeforeIt":            {provider("v1.1.0"), configuration},
		"BeforeItAndUpgraded": {provider("v1.0.0"), configuration, provider("v1.1.0")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHub(t)
			for tag, fields := range map[string][]string{"v1.0.0": {"account"}, "v1.1.0": {"account", "role"}} {
				h.push(t, "org/family", tag, testxpkg.Provider("family", testxpkg.CRD("aws.example.org", "ProviderConfig", fields...)))
			}
			h.push(t, "org/platform", "v1.0.0", testxpkg.Requires(testxpkg.Configuration("platform"), pkgv1.KindProvider, h.registry.Source("org/family"), ">=v1.0.0"))
			h.run(t)
			for _, step := range steps {
				step(h, t)
			}
			if got := h.sources(t); got != "org/family:v1.1.0 org/platform:v1.0.0" {
				t.Errorf("the Lock lists %s", got)
			}
			h.gone(t, pkgv1.Providers, "org-family")
			h.controlled(t, crd)
			if got := h.exists(t, crds, crd).GetLabels()["app"]; got != "platform" {
				t.Errorf("%s has label app=%q", crd, got)
			}
			h.healthy(t, "family", "True", "HealthyPackageRevision")

			// Either is deleted, and the other one stays until its turn.
			h.Delete(t, pkgv1.Providers, "", "family")
			h.becomes(t, "family", "False", "ValidationFailed")
			h.Delete(t, pkgv1.GroupVersion.WithResource("configurations"), "", "platform")
			h.gone(t, pkgv1.GroupVersion.WithResource("configurations"), "platform")
			h.gone(t, pkgv1.Providers, "family")
			h.gone(t, crds, crd)
			if got := h.sources(t); got != "" {
				t.Errorf("the Lock lists %s", got)
			}
		})
	}
}
