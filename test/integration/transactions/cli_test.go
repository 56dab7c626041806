package transactions

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/transaction/report"
	"github.com/starlinghq/starling/pkg/plugin"
	"github.com/starlinghq/starling/pkg/transactions/cli"
	"github.com/starlinghq/starling/test/testenv"
	"github.com/starlinghq/starling/test/testxpkg"
)

// commands runs commands of `kubectl starling tx`.
type commands struct {
	*testing.T
	*hub
}

func (c commands) run(ctx context.Context, args ...string) (out, errOut string, code int) {
	var stdout, stderr bytes.Buffer
	flags := genericclioptions.NewConfigFlags(true)
	flags.WrapConfigFn = func(*rest.Config) *rest.Config { return rest.CopyConfig(c.Config) }
	cmd := cli.NewCommand(flags, genericiooptions.IOStreams{In: strings.NewReader(""), Out: &stdout, ErrOut: &stderr})
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs(args)
	code = plugin.Report(&stderr, cmd.ExecuteContext(ctx))
	return stdout.String(), stderr.String(), code
}

// gives runs a command that must exit with the code and print each of the texts.
func (c commands) gives(code int, args []string, texts ...string) string {
	c.Helper()
	out, errOut, got := c.run(c.Context(), args...)
	if got != code {
		c.Errorf("%v: exit code %d, want %d\n%s%s", args, got, code, out, errOut)
	}
	for _, text := range texts {
		if !strings.Contains(out+errOut, text) {
			c.Errorf("%v does not say %q:\n%s%s", args, text, out, errOut)
		}
	}
	return out
}

// TestCommands: a plan says what the Transaction of a package then does, or why it fails, and
// changes nothing; explain and tree say what is the case.
func TestCommands(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	c := commands{t, h}
	source := h.registry.Source
	h.push(t, "org/family", "v1.1.0", testxpkg.Provider("family", testxpkg.CRD("aws.example.org", "Account", "id")))
	for tag, fields := range map[string][]string{"v1.0.0": {"region"}, "v1.1.0": {"region", "size"}, "v2.0.0": {"size"}} {
		h.push(t, "org/s3", tag, testxpkg.Requires(testxpkg.Provider("s3", bucket(fields...)), pkgv1.KindProvider, source("org/family"), ">=v1.1.0"))
	}
	h.push(t, "community/s3", "v1.0.0", testxpkg.Provider("s3", bucket("region", "size")))
	h.push(t, "org/impossible", "v1.0.0", testxpkg.Requires(testxpkg.Configuration("impossible"), pkgv1.KindProvider, source("org/family"), ">=v9"))

	c.gives(0, []string{"tree"}, "No packages are installed")
	c.gives(1, []string{"explain", "provider/s3"}, `providers.pkg.crossplane.io "s3" not found`)

	// Without a controller, a plan waits.
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	_, errOut, code := c.run(ctx, "plan", "provider", "s3", "--package", source("org/s3")+":v1.0.0")
	if code != 1 || !strings.Contains(errOut, "is not started") {
		t.Errorf("plan without controller: exit code %d: %s", code, errOut)
	}
	if left := h.transactions(t); len(left) > 0 {
		t.Errorf("left %v", left)
	}
	stop := h.run(t)

	write := func(tag string) (path string) {
		t.Helper()
		path = filepath.Join(t.TempDir(), "s3.yaml")
		err := os.WriteFile(path, []byte("apiVersion: pkg.crossplane.io/v1\nkind: Provider\nmetadata: {name: s3}\nspec: {package: '"+source("org/s3")+":"+tag+"'}\n"), 0o600)
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	manifest := write("v1.0.0")
	c.gives(2, []string{"plan", "-f", manifest}, "would change 2 packages", "+ "+source("org/family")+" v1.1.0\n", "+ CustomResourceDefinition.apiextensions.k8s.io/buckets.s3.aws.example.org")
	text := c.gives(2, []string{"plan", "-f", manifest, "-o", "json"})
	plan := report.Plan{}
	if err := json.Unmarshal([]byte(text), &plan); err != nil || plan.Outcome != report.Changes || len(plan.Packages) != 2 {
		t.Errorf("%v: %s", err, text)
	}
	c.gives(1, []string{"plan", "configuration", "impossible", "--package", source("org/impossible") + ":v1.0.0"}, "MissingDependency", "The highest version in "+source("org/family")+" is v1.1.0.")
	c.gives(1, []string{"plan", "provider/s3", "--package", source("org/s3") + ":v7"}, "would fail")
	if lock := h.lock(t); len(lock.Packages) > 0 {
		t.Errorf("plans have installed %v", lock.Packages)
	}

	h.apply(t, "Provider", "s3", "org/s3", "v1.0.0")
	h.becomes(t, "s3", "True", "TransactionComplete")
	c.gives(0, []string{"plan", "-f", manifest}, "nothing would change")
	c.gives(0, []string{"explain", "provider/s3"}, "State: complete", "[x] Committed")
	c.gives(0, []string{"tree"}, "Provider/s3 v1.0.0", "└── Provider/org-family v1.1.0 (required: >=v1.1.0)")
	c.gives(0, []string{"tree", "providers/org-family"}, "Required by:", "Provider/s3 v1.0.0 requires >=v1.1.0")
	c.gives(1, []string{"tree", "provider/none"}, "Provider/none is not installed")

	h.Apply(t, "{apiVersion: s3.aws.example.org/v1, kind: Bucket, metadata: {name: logs}, spec: {region: eu}}")
	c.gives(2, []string{"plan", "provider", "s3", "--package", source("org/s3") + ":v1.1.0", "-o", "wide"}, "v1.0.0@sha256:", "~ CustomResourceDefinition", "Installed afterwards:")
	c.gives(1, []string{"plan", "provider", "s3", "--package", source("org/s3") + ":v2.0.0"}, "SchemaIncompatible", "logs", `pkg.crossplane.io/allow-breaking-crds: "buckets.s3.aws.example.org"`)
	c.gives(1, []string{"plan", "--delete", "provider/org-family"}, "MissingDependency", "Delete or change")
	h.apply(t, "Provider", "second", "org/s3", "v1.0.0") // of the same source
	h.becomes(t, "second", "False", "ValidationFailed")
	c.gives(0, []string{"plan", "--delete", "provider/second"}, "nothing would change", "that is of Provider/s3, and stays")
	h.Delete(t, pkgv1.Providers, "", "second")
	h.gone(t, pkgv1.Providers, "second")
	c.gives(1, []string{"plan", "--delete", "provider/s3"}, "ResourcesInUse", "1 object")
	h.Patch(t, pkgv1.Providers, "", "s3", `{"metadata":{"annotations":{"pkg.crossplane.io/allow-deletion-of-resources":"true"}}}`)
	c.gives(2, []string{"plan", "--delete", "provider/s3"}, "- "+source("org/s3"), "deletes 1 object of users: buckets.s3.aws.example.org logs")
	h.Patch(t, pkgv1.Providers, "", "s3", `{"metadata":{"annotations":{"pkg.crossplane.io/allow-deletion-of-resources":null}}}`)
	c.gives(1, []string{"plan", "--replace", source("org/s3"), "--with", source("org/family") + ":v1.1.0"}, "would fail")
	c.gives(2, []string{"plan", "--replace", source("org/s3"), "--with", source("community/s3") + ":v1.0.0", "--name", "community"}, "Provider/community", "- "+source("org/s3"))

	c.gives(2, []string{"plan", "--replace", "provider/s3", "--with", source("community/s3") + ":v1.0.0", "-o", "yaml"}, "outcome: Changes", "source: "+source("org/s3"))
	c.gives(1, []string{"plan", "--replace", "provider/none", "--with", source("community/s3") + ":v1.0.0"}, "Provider/none is not installed")

	// The annotations of the package count.
	h.Patch(t, pkgv1.Providers, "", "s3", `{"metadata":{"annotations":{"pkg.crossplane.io/allow-breaking-crds":"buckets.s3.aws.example.org"}}}`)
	c.gives(2, []string{"plan", "provider", "s3", "--package", source("org/s3") + ":v2.0.0"}, "~ "+source("org/s3")+" v1.0.0 -> v2.0.0")
	breaking := write("v2.0.0")
	c.gives(2, []string{"plan", "-f", breaking}, "~ "+source("org/s3")+" v1.0.0 -> v2.0.0")
	// An apply would remove an annotation that the last one has set.
	h.Patch(t, pkgv1.Providers, "", "s3", `{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":`+
		`"{\"metadata\":{\"annotations\":{\"pkg.crossplane.io/allow-breaking-crds\":\"buckets.s3.aws.example.org\"}}}"}}}`)
	c.gives(1, []string{"plan", "-f", breaking}, "SchemaIncompatible")
	h.Patch(t, pkgv1.Providers, "", "s3", `{"metadata":{"annotations":{"pkg.crossplane.io/allow-breaking-crds":null}}}`)
	h.apply(t, "Provider", "s3", "org/s3", "v2.0.0")
	tx := h.becomes(t, "s3", "False", "ValidationFailed")
	c.gives(0, []string{"explain", tx.Name}, "[!] Validated  SchemaIncompatible", "logs", "kubectl annotate provider s3 pkg.crossplane.io/allow-breaking-crds=buckets.s3.aws.example.org")
	testenv.Eventually(t, testenv.Patience, func() (bool, string) { // it is tried again every few seconds
		tree := c.gives(0, []string{"tree"}, "Not installed yet:")
		return strings.Contains(tree, "(installed: v1.0.0), transaction "+tx.Name+": ValidationFailed"), tree
	})

	// The commands are right: the next Transaction succeeds.
	h.Patch(t, pkgv1.Providers, "", "s3", `{"metadata":{"annotations":{"pkg.crossplane.io/allow-breaking-crds":"buckets.s3.aws.example.org"}}}`)
	if err := h.Client.Resource(pkgv1alpha1.Transactions).Delete(t.Context(), tx.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	h.becomes(t, "s3", "True", "TransactionComplete")

	c.gives(2, []string{"plan", "provider", "s3", "--package", source("org/s3") + ":v1.1.0", "--keep"}, "Kept transaction plan-")
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		var plans []string
		for name := range h.transactions(t) {
			if strings.HasPrefix(name, "plan-") {
				plans = append(plans, name)
			}
		}
		return len(plans) == 1, strings.Join(plans, ", ")
	})
	stop()
}
