// Package transactions tests against a real API server how packages are installed, updated,
// replaced and deleted. The registry is one on loopback. The controller runs in the test process,
// or in a process of its own where the test kills it.
package transactions

import (
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	pkgv1beta1 "github.com/starlinghq/starling/api/pkg/v1beta1"
	"github.com/starlinghq/starling/test/testenv"
)

func TestMain(m *testing.M) {
	testenv.Main(m, testenv.Options{Spaces: []string{"wds1"}, Parallel: 6})
}

var installed sync.Once

// newSpace returns a space with the APIs of packages.
func newSpace(t *testing.T) *testenv.Space {
	t.Helper()
	space := testenv.Shared(t).Space(t, "wds1")
	installed.Do(func() { space.Install(t, testenv.APIs(t, "pkg.crossplane.io_")...) })
	return space
}

const image = "registry.example.com/org/package"

// TestSpecs: the API server accepts what the documentation of Crossplane shows, and refuses what no
// transaction could carry out.
func TestSpecs(t *testing.T) {
	space := newSpace(t)
	const snapshot = `{apiVersion: pkg.crossplane.io/v1, kind: Provider, metadata: {name: p}, spec: {package: "` + image + `:v1", unknown: {a: 1}}}`
	cases := map[string]struct {
		resource schema.GroupVersionResource
		kind     string
		spec     string
		want     string
	}{
		"Provider":             {pkgv1.Providers, "Provider", `{package: "xpkg.crossplane.io/crossplane-contrib/provider-aws-s3:v1.0.0"}`, ""},
		"DigestOnly":           {pkgv1.Providers, "Provider", `{package: "` + image + `@sha256:` + strings.Repeat("a", 64) + `"}`, ""},
		"TagAndDigest":         {pkgv1.Functions, "Function", `{package: "` + image + `:v1@sha256:` + strings.Repeat("a", 64) + `"}`, ""},
		"Port":                 {pkgv1.Configurations, "Configuration", `{package: "127.0.0.1:5000/a/b:v1", packagePullPolicy: Always, revisionActivationPolicy: Manual}`, ""},
		"OlderFunction":        {pkgv1beta1.GroupVersion.WithResource("functions"), "Function", `{package: "` + image + `:v1"}`, ""},
		"NoTag":                {pkgv1.Providers, "Provider", `{package: "` + image + `"}`, "must be a fully qualified image"},
		"NoRegistry":           {pkgv1.Providers, "Provider", `{package: "org/package:v1"}`, "must be a fully qualified image"},
		"HostWithoutDot":       {pkgv1.Providers, "Provider", `{package: "localhost:5000/package:v1"}`, "must be a fully qualified image"},
		"ShortDigest":          {pkgv1.Providers, "Provider", `{package: "` + image + `@sha256:abc"}`, "must be a fully qualified image"},
		"NoPackage":            {pkgv1.Configurations, "Configuration", `{}`, "spec.package"},
		"UnknownPolicy":        {pkgv1.Providers, "Provider", `{package: "` + image + `:v1", packagePullPolicy: Sometimes}`, "Unsupported value"},
		"Install":              {pkgv1alpha1.Transactions, "Transaction", `{change: Install, install: {package: ` + snapshot + `}}`, ""},
		"Delete":               {pkgv1alpha1.Transactions, "Transaction", `{change: Delete, delete: {source: "` + image + `"}, retryLimit: 0}`, ""},
		"Replace":              {pkgv1alpha1.Transactions, "Transaction", `{change: Replace, replace: {source: "` + image + `", package: ` + snapshot + `}}`, ""},
		"InstallOfNothing":     {pkgv1alpha1.Transactions, "Transaction", `{change: Install}`, "install is required"},
		"InstallAndDelete":     {pkgv1alpha1.Transactions, "Transaction", `{change: Install, install: {package: ` + snapshot + `}, delete: {source: a}}`, "delete is required"},
		"ReplaceOfNothing":     {pkgv1alpha1.Transactions, "Transaction", `{change: Replace, delete: {source: a}}`, "replace is required"},
		"UnknownChange":        {pkgv1alpha1.Transactions, "Transaction", `{change: Rollback}`, "Unsupported value"},
		"NegativeLimit":        {pkgv1alpha1.Transactions, "Transaction", `{change: Delete, delete: {source: a}, retryLimit: -1}`, "retryLimit"},
		"ImageConfig":          {pkgv1beta1.ImageConfigs, "ImageConfig", `{matchImages: [{prefix: reg.example.com/}], rewriteImage: {prefix: other.example.com/}}`, ""},
		"Verification":         {pkgv1beta1.ImageConfigs, "ImageConfig", `{matchImages: [{prefix: a}], verification: {provider: Cosign, cosign: {authorities: [{name: a, keyless: {identities: [{issuer: i}]}}]}}}`, ""},
		"ImageConfigOfNothing": {pkgv1beta1.ImageConfigs, "ImageConfig", `{matchImages: []}`, "matchImages"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			text := "{apiVersion: " + tc.resource.GroupVersion().String() + ", kind: " + tc.kind + ", metadata: {name: " + strings.ToLower(name) + "}, spec: " + tc.spec + "}"
			_, err := space.Client.Resource(tc.resource).Create(t.Context(), testenv.Parse(t, text), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
			switch {
			case tc.want == "" && err != nil:
				t.Error(err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("error %v, want one that says %q", err, tc.want)
			}
		})
	}
}

// TestSpecOfATransactionIsImmutable: also the copy of the package in it, which has no schema.
func TestSpecOfATransactionIsImmutable(t *testing.T) {
	space := newSpace(t)
	space.Apply(t, `{apiVersion: pkg.crossplane.io/v1alpha1, kind: Transaction, metadata: {name: immutable}, spec: {change: Install, install: {package: {
		apiVersion: pkg.crossplane.io/v1, kind: Provider, metadata: {name: p}, spec: {package: "`+image+`:v1", revisionHistoryLimit: 1}}}}}`)
	for _, patch := range []string{
		`{"spec":{"install":{"package":{"spec":{"package":"` + image + `:v2"}}}}}`,
		`{"spec":{"install":{"package":{"spec":{"revisionHistoryLimit":2}}}}}`,
		`{"spec":{"install":{"package":{"metadata":{"name":"q"}}}}}`,
		`{"spec":{"retryLimit":7}}`,
	} {
		_, err := space.Client.Resource(pkgv1alpha1.Transactions).Patch(t.Context(), "immutable", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		if err == nil || !strings.Contains(err.Error(), "spec is immutable") {
			t.Errorf("patch %s: error %v, want one that says that spec is immutable", patch, err)
		}
	}
}

// TestLockOfOlderClients: they write null for the type of packages that have a kind.
func TestLockOfOlderClients(t *testing.T) {
	space := newSpace(t)
	space.Create(t, pkgv1beta1.Locks, "", "older", map[string]any{"packages": []any{map[string]any{
		"name": "p-1", "apiVersion": "pkg.crossplane.io/v1", "kind": "Provider", "type": nil, "source": image, "version": "v1",
		"dependencies": []any{map[string]any{"package": image + "2", "type": nil, "constraints": ">=v1"}},
	}}})
	lock := testenv.Into[pkgv1beta1.Lock](t, space.Get(t, pkgv1beta1.Locks, "", "older"))
	if len(lock.Packages) != 1 || lock.Packages[0].Type != nil {
		t.Errorf("packages %+v", lock.Packages)
	}
}

// TestObjectsOfCrossplane: the API server stores each field of objects of Crossplane as it is, also
// of their status.
func TestObjectsOfCrossplane(t *testing.T) {
	space := newSpace(t)
	file, err := os.ReadFile("testdata/crossplane.yaml")
	if err != nil {
		t.Fatal(err)
	}
	strict := metav1.FieldValidationStrict
	for text := range strings.SplitSeq(string(file), "\n---\n") {
		want := testenv.Parse(t, text)
		resource := want.GroupVersionKind().GroupVersion().WithResource(strings.ToLower(want.GetKind()) + "s")
		objects := space.Client.Resource(resource)
		got, err := objects.Create(t.Context(), want, metav1.CreateOptions{FieldValidation: strict})
		if err == nil && want.Object["status"] != nil {
			got.Object["status"] = want.Object["status"]
			got, err = objects.UpdateStatus(t.Context(), got, metav1.UpdateOptions{FieldValidation: strict})
		}
		if err != nil {
			t.Errorf("%s %s: %v", want.GetKind(), want.GetName(), err)
			continue
		}
		for _, field := range []string{"spec", "packages", "status"} {
			if sent, stored := encode(t, want.Object[field]), encode(t, got.Object[field]); sent != stored {
				t.Errorf("%s of %s %s (-sent +stored):\n%s", field, want.GetKind(), want.GetName(), cmp.Diff(sent, stored))
			}
		}
	}
}
