// Package packagecli tests `kubectl starling package` against a package-server behind a real API
// server.
package packagecli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/dynamic"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/packages/cli"
	"github.com/starlinghq/starling/pkg/plugin"
	"github.com/starlinghq/starling/test/testenv"
)

func TestMain(m *testing.M) {
	testenv.Main(m, testenv.Options{Packages: true})
}

// author is a user with a namespace and repositories.
type author struct {
	t         *testing.T
	fleet     *testenv.Fleet
	namespace string
	dynamic   dynamic.Interface
	dir       string
}

var namespaces atomic.Int64 //nolint:gochecknoglobals // names of a test binary

// newAuthor creates a namespace with the repositories catalog and edge.
func newAuthor(t *testing.T) *author {
	t.Helper()
	fleet := testenv.Shared(t)
	d, err := dynamic.NewForConfig(fleet.Config(t, "wds1"))
	if err != nil {
		t.Fatal(err)
	}
	a := &author{t: t, fleet: fleet, namespace: fmt.Sprintf("cli-%d", namespaces.Add(1)), dynamic: d, dir: t.TempDir()}
	create := func(resource schema.GroupVersionResource, object map[string]any) {
		t.Helper()
		obj := &unstructured.Unstructured{Object: object}
		var client dynamic.ResourceInterface = d.Resource(resource)
		if obj.GetNamespace() != "" {
			client = d.Resource(resource).Namespace(obj.GetNamespace())
		}
		if _, err := client.Create(t.Context(), obj, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	create(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": a.namespace},
	})
	for _, name := range []string{"catalog", "edge"} {
		create(schema.GroupVersionResource{Group: "config.porch.kpt.dev", Version: "v1alpha1", Resource: "repositories"}, map[string]any{
			"apiVersion": "config.porch.kpt.dev/v1alpha1", "kind": "Repository",
			"metadata": map[string]any{"name": name, "namespace": a.namespace},
			"spec":     map[string]any{"type": "hub", "deployment": name == "edge"},
		})
	}
	return a
}

// run runs a command of `kubectl starling package`.
func (a *author) run(args ...string) (out, errOut string, code int) {
	a.t.Helper()
	return a.program(a.t.Context(), append(append(a.flags(), "package"), args...)...)
}

// flags returns the flags for the author's namespace.
func (a *author) flags() []string {
	return []string{"--kubeconfig", a.fleet.Kubeconfig(), "--context", "wds1", "--namespace", a.namespace}
}

func (a *author) program(ctx context.Context, args ...string) (out, errOut string, code int) {
	var stdout, stderr bytes.Buffer
	cmd := cli.NewCommand(genericiooptions.IOStreams{In: strings.NewReader(""), Out: &stdout, ErrOut: &stderr})
	cmd.SetArgs(args)
	code = plugin.Report(&stderr, cmd.ExecuteContext(ctx))
	return stdout.String(), stderr.String(), code
}

// ok runs a command that must succeed and returns what it printed.
func (a *author) ok(args ...string) string {
	a.t.Helper()
	out, errOut, code := a.run(args...)
	if code != 0 {
		a.t.Fatalf("%v: exit code %d\n%s%s", args, code, out, errOut)
	}
	return out
}

// fails runs a command that must exit with the code and print each of the texts.
func (a *author) fails(code int, args []string, texts ...string) {
	a.t.Helper()
	out, errOut, got := a.run(args...)
	if got != code {
		a.t.Errorf("%v: exit code %d, want %d\n%s%s", args, got, code, out, errOut)
	}
	for _, text := range texts {
		if !strings.Contains(out+errOut, text) {
			a.t.Errorf("%v: does not say %q:\n%s%s", args, text, out, errOut)
		}
	}
}

// folder returns the folder of a package.
func (a *author) folder(name string) string { return filepath.Join(a.dir, name) }

func (a *author) write(path, content string) {
	a.t.Helper()
	file := filepath.Join(a.dir, path)
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		a.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

func (a *author) read(path string) string {
	a.t.Helper()
	content, err := os.ReadFile(filepath.Join(a.dir, path))
	if err != nil {
		a.t.Fatal(err)
	}
	return string(content)
}

// edit replaces a text in a file.
func (a *author) edit(path, old, with string) {
	a.t.Helper()
	before := a.read(path)
	if !strings.Contains(before, old) {
		a.t.Fatalf("%s does not hold %q:\n%s", path, old, before)
	}
	a.write(path, strings.Replace(before, old, with, 1))
}

// files returns the files of a revision on the server.
func (a *author) files(name string) kpt.Files {
	a.t.Helper()
	obj, err := a.dynamic.Resource(porchv1alpha1.ResourcePackageRevisionResources).Namespace(a.namespace).Get(a.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		a.t.Fatal(err)
	}
	files, _, err := unstructured.NestedStringMap(obj.Object, "spec", "resources")
	if err != nil {
		a.t.Fatal(err)
	}
	return files
}

func (a *author) revision(name string) *unstructured.Unstructured {
	a.t.Helper()
	obj, err := a.dynamic.Resource(porchv1alpha1.ResourcePackageRevisions).Namespace(a.namespace).Get(a.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		a.t.Fatal(err)
	}
	return obj
}

func (a *author) lifecycle(name string) string {
	a.t.Helper()
	at, _, err := unstructured.NestedString(a.revision(name).Object, "spec", "lifecycle")
	if err != nil {
		a.t.Fatal(err)
	}
	return at
}

// publish creates and publishes a package with these files and those of an empty package.
func (a *author) publish(repository, name string, files kpt.Files) {
	a.t.Helper()
	revision := repository + "." + name + ".v1"
	a.ok("init", name, "--repository", repository)
	dir := "publish-" + revision
	a.ok("pull", revision, a.folder(dir))
	for path, content := range files {
		a.write(dir+"/"+path, content)
	}
	a.ok("push", a.folder(dir))
	a.ok("propose", revision)
	a.ok("approve", revision)
}
