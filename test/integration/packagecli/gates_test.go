package packagecli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/test/testenv"
)

func (a *author) patch(name string, kind types.PatchType, patch string, args ...any) {
	a.t.Helper()
	_, err := a.dynamic.Resource(porchv1alpha1.ResourcePackageRevisions).Namespace(a.namespace).
		Patch(a.t.Context(), name, kind, fmt.Appendf(nil, patch, args...), metav1.PatchOptions{})
	if err != nil {
		a.t.Fatal(err)
	}
}

func (a *author) label(name, key, value string) {
	a.t.Helper()
	a.patch(name, types.MergePatchType, `{"metadata":{"labels":{%q:%q}}}`, key, value)
}

// meetGate makes a condition True. Other conditions stay.
func (a *author) meetGate(name, condition string) {
	a.t.Helper()
	a.patch(name, types.JSONPatchType, `[{"op":"add","path":"/status/conditions/-","value":{"type":%q,"status":"True","reason":"Done"}}]`, condition)
}

// A gate that is not met is named, and --wait waits for it.
func TestGates(t *testing.T) {
	a := newAuthor(t)
	a.ok("init", "web", "--repository", "edge", "--gate", "Reviewed")
	a.fails(1, []string{"propose", "edge.web.v1"}, "Reviewed (no such condition)")
	a.fails(1, []string{"propose", "edge.web.v1", "--wait", "--timeout", "200ms"}, "after 200ms", "Reviewed")
	if at := a.lifecycle("edge.web.v1"); at != "Draft" {
		t.Errorf("refused, it is %s", at)
	}
	type answer struct {
		out, errOut string
		code        int
	}
	answered := make(chan answer, 1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() {
		out, errOut, code := a.program(ctx, append(a.flags(), "package", "propose", "edge.web.v1", "--wait")...)
		answered <- answer{out, errOut, code}
	}()
	a.meetGate("edge.web.v1", "Reviewed")
	if got := <-answered; got.code != 0 || got.out != "packagerevision.porch.kpt.dev/edge.web.v1 proposed\n" {
		t.Errorf("%+v", got)
	}
}

// The results of a function are shown, and the gate of the pipeline is not met until the package is
// repaired.
func TestRenderingFails(t *testing.T) {
	a := newAuthor(t)
	a.ok("init", "web", "--repository", "edge")
	a.ok("pull", "edge.web.v1", a.folder("web"))
	a.write("web/deployment.yaml", strings.Replace(deployment, "replicas: 1", "replicas: many", 1))
	a.write("web/Kptfile", a.read("web/Kptfile")+"pipeline:\n  mutators:\n  - image: set-namespace:v0.4\n    configMap: {namespace: shop}\n  validators:\n  - image: kubeconform:v0.1\n")
	a.fails(1, []string{"push", a.folder("web")}, `[PASS] "set-namespace:v0.4"`, `[FAIL] "kubeconform:v0.1"`, "[error] apps/v1/Deployment shop/web spec.replicas", "render revision \"edge.web.v1\": ")
	a.fails(1, []string{"propose", "edge.web.v1"}, "PackagePipelinePassed")
	a.fails(1, []string{"tree", "edge.web.v1", "-o", "xml"}, "allowed formats are: json,yaml")
	if got := a.ok("tree", "edge.web.v1"); !strings.Contains(got, "gate PackagePipelinePassed: False") {
		t.Errorf("tree:\n%s", got)
	}
	a.edit("web/deployment.yaml", "replicas: many", "replicas: 2")
	if got := a.ok("push", a.folder("web")); !strings.Contains(got, `[PASS] "kubeconform:v0.1"`) || !strings.Contains(got, "rendering changed these files") {
		t.Errorf("push says\n%s", got)
	}
	if got := a.read("web/deployment.yaml"); !strings.Contains(got, "namespace: shop") {
		t.Errorf("what the function did is not in the folder:\n%s", got)
	}
	a.ok("propose", "edge.web.v1")
}

// An invalid folder is refused with a reason, and the draft is not changed.
func TestBadPackages(t *testing.T) {
	kptfile := "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata: {name: web}\n"
	tests := map[string]struct {
		files kpt.Files
		text  string
	}{
		"a Kptfile that cannot be read": {kpt.Files{"Kptfile": "apiVersion: kpt.dev/v1\nkind: [\n"}, "Kptfile"},
		"no Kptfile's kind":             {kpt.Files{"Kptfile": "apiVersion: v1\nkind: ConfigMap\n"}, "Kptfile"},
		"an object twice": {
			kpt.Files{"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n", "b.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n"}, "ConfigMap",
		},
		"a billion nestedAliases": {
			kpt.Files{"a.yaml": "a: &a [x,x,x,x,x,x,x,x,x]\n" + nestedAliases(9)}, "a.yaml",
		},
		"binary": {kpt.Files{"logo": "\xff\xfe"}, "binary files are not supported"},
		"50 MiB": {kpt.Files{"large": strings.Repeat("x", 50<<20)}, "bytes"},
		"6 MiB in parts": {
			kpt.Files{"a": strings.Repeat("x", 3<<20), "b": strings.Repeat("y", 3<<20), "c": "z"}, "bytes",
		},
	}
	a := newAuthor(t)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			a := *a
			a.t = t
			pkg := strings.ToLower(strings.NewReplacer(" ", "-", "'", "").Replace(name))
			if pkg[0] < 'a' {
				pkg = "p" + pkg
			}
			revision := "edge." + pkg + ".v1"
			a.ok("init", pkg, "--repository", "edge")
			a.ok("pull", revision, a.folder(pkg))
			before := a.files(revision)
			a.write(pkg+"/Kptfile", kptfile)
			for path, content := range test.files {
				a.write(pkg+"/"+path, content)
			}
			a.fails(1, []string{"push", a.folder(pkg)}, test.text)
			if before.Digest() != a.files(revision).Digest() {
				t.Error("the draft was changed")
			}
		})
	}
}

// Links in a folder are refused, and their targets are not read.
func TestLinks(t *testing.T) {
	a := newAuthor(t)
	a.ok("init", "web", "--repository", "edge")
	a.ok("pull", "edge.web.v1", a.folder("web"))
	before := a.files("edge.web.v1")
	a.write("outside/secret", "hunter2")
	for _, link := range []string{"../outside/secret", "../outside", "README.md"} {
		name := filepath.Join(a.folder("web"), "link")
		if err := os.Symlink(link, name); err != nil {
			t.Fatal(err)
		}
		a.fails(1, []string{"push", a.folder("web")}, "link\": it is a symbolic link")
		a.fails(2, []string{"diff", "-f", a.folder("web")}, "link\": it is a symbolic link")
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	if before.Digest() != a.files("edge.web.v1").Digest() {
		t.Error("the draft was changed")
	}
}

func nestedAliases(depth int) string {
	var text strings.Builder
	for i := range depth {
		from, to := string(rune('a'+i)), string(rune('b'+i))
		fmt.Fprintf(&text, "%s: &%s [%s]\n", to, to, strings.TrimSuffix(strings.Repeat("*"+from+",", 9), ","))
	}
	return text.String()
}

// An endless function is killed and reported. The draft is not changed, and the edit stays in the
// folder.
func TestRunaway(t *testing.T) {
	a := newAuthor(t)
	a.ok("init", "web", "--repository", "edge")
	a.ok("pull", "edge.web.v1", a.folder("web"))
	before := a.files("edge.web.v1")
	a.write("web/deployment.yaml", deployment)
	a.write("web/Kptfile", a.read("web/Kptfile")+"pipeline:\n  mutators:\n  - image: starlark:v0.5\n    configMap:\n      source: |\n        def f():\n          for i in range(1000000000):\n            for j in range(1000000000):\n              pass\n        f()\n")
	a.fails(1, []string{"push", a.folder("web")}, "starlark:v0.5")
	if before.Digest() != a.files("edge.web.v1").Digest() {
		t.Error("the draft was changed")
	}
	// A function that needs a gigabyte of memory.
	kptfile, _, _ := strings.Cut(a.read("web/Kptfile"), "def f()")
	a.write("web/Kptfile", kptfile+"x = []\n        for i in range(10000000): x.append('x' * 1000000 + str(i))\n")
	a.fails(1, []string{"push", a.folder("web")}, "starlark:v0.5", "memory")
	if before.Digest() != a.files("edge.web.v1").Digest() {
		t.Error("the draft was changed")
	}
	if a.read("web/deployment.yaml") != deployment {
		t.Error("the edit is lost")
	}
}

// TestRights: a user without the right to approve gets an error that names the user; one with the
// right can approve.
func TestRights(t *testing.T) {
	a := newAuthor(t)
	rbac := schema.GroupVersion{Group: "rbac.authorization.k8s.io", Version: "v1"}
	grant := func(user string, rules ...any) {
		role := map[string]any{"apiVersion": rbac.String(), "kind": "Role", "metadata": map[string]any{"name": user}, "rules": rules}
		binding := map[string]any{
			"apiVersion": rbac.String(), "kind": "RoleBinding", "metadata": map[string]any{"name": user},
			"roleRef":  map[string]any{"apiGroup": rbac.Group, "kind": "Role", "name": user},
			"subjects": []any{map[string]any{"apiGroup": rbac.Group, "kind": "User", "name": user}},
		}
		for resource, object := range map[string]map[string]any{"roles": role, "rolebindings": binding} {
			if _, err := a.dynamic.Resource(rbac.WithResource(resource)).Namespace(a.namespace).
				Create(t.Context(), &unstructured.Unstructured{Object: object}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	rule := func(verbs []any, resources ...any) any {
		return map[string]any{"apiGroups": []any{porchv1alpha1.GroupName}, "resources": resources, "verbs": verbs}
	}
	writes := rule([]any{"get", "list", "watch", "create", "update"}, "packagerevisions", "packagerevisionresources")
	grant("ann", writes)
	grant("bob", rule([]any{"get", "list"}, "packagerevisions"), rule([]any{"update"}, "packagerevisions/approval"))
	for user, what := range map[string]authorizationv1.ResourceAttributes{
		"ann": {Verb: "create", Group: porchv1alpha1.GroupName, Resource: "packagerevisions", Namespace: a.namespace},
		"bob": {Verb: "update", Group: porchv1alpha1.GroupName, Resource: "packagerevisions", Subresource: "approval", Namespace: a.namespace},
	} {
		testenv.Allowed(t, a.fleet.Config(t, "wds1"), true, user, what)
	}
	a.ok("init", "web", "--repository", "edge", "--as", "ann")
	a.ok("propose", "edge.web.v1", "--as", "ann")
	a.fails(1, []string{"approve", "edge.web.v1", "--as", "ann"}, "Error from server (Forbidden): approve revision \"edge.web.v1\": ", `User "ann" cannot update resource "packagerevisions/approval"`)
	a.ok("approve", "edge.web.v1", "--as", "bob")
	if by, _, _ := unstructured.NestedString(a.revision("edge.web.v1").Object, "status", "publishedBy"); by != "bob" {
		t.Errorf("published by %q", by)
	}
	a.fails(1, []string{"init", "db", "--repository", "edge", "--as", "bob"}, `User "bob" cannot create resource "packagerevisions"`)
}

// Many revisions are changed at once by a label. Completions are the revisions that can be changed.
func TestMany(t *testing.T) {
	a := newAuthor(t)
	const n = 20
	var names []string
	for i := range n {
		pkg := fmt.Sprintf("p%02d", i)
		a.ok("init", pkg, "--repository", "edge")
		names = append(names, "edge."+pkg+".v1")
		if i > 0 {
			a.label(names[i], "team", "shop")
		}
	}
	out := a.ok("propose", "-l", "team=shop")
	if got := strings.Count(out, " proposed\n"); got != n-1 {
		t.Errorf("%d proposed:\n%s", got, out)
	}
	complete := func(want []string, args ...string) {
		t.Helper()
		out, errOut, _ := a.program(t.Context(), slices.Concat([]string{"__complete"}, a.flags(), []string{"package"}, args)...)
		got := strings.Split(strings.TrimSpace(out), "\n")
		got = slices.DeleteFunc(got, func(line string) bool { return strings.HasPrefix(line, ":") })
		if !slices.Equal(got, want) {
			t.Errorf("%v: offers %q, want %q\n%s", args, got, want, errOut)
		}
	}
	complete(names[:1], "propose", "")
	complete(names[2:], "approve", names[1], "")
	complete([]string{"catalog", "edge"}, "init", "x", "--repository", "")
	complete([]string{"fast-forward", "force-delete-replace"}, "upgrade", "x", "--strategy", "f")
	out = a.ok("approve", "-l", "team=shop", "-o", "wide")
	if got := strings.Count(out, "Published"); got != n-1 {
		t.Errorf("%d published:\n%s", got, out)
	}
	if _, errOut, code := a.run("approve", "-l", "team=shop"); code != 0 || errOut != "No revisions that can be approved found in "+a.namespace+" namespace.\n" {
		t.Errorf("%d: %s", code, errOut)
	}
}

// A dry run is checked and rendered, and nothing is stored.
func TestDryRun(t *testing.T) {
	a := newAuthor(t)
	if got := a.ok("init", "web", "--repository", "edge", "--dry-run", "server"); got != "packagerevision.porch.kpt.dev/edge.web.v1 created (server dry run)\n" {
		t.Errorf("init says %q", got)
	}
	a.fails(1, []string{"tree", "edge.web.v1"}, "NotFound")
	a.ok("init", "web", "--repository", "edge")
	a.ok("pull", "edge.web.v1", a.folder("web"))
	before := a.files("edge.web.v1")
	kptfile := a.read("web/Kptfile") + "pipeline:\n  mutators:\n  - image: set-namespace:v0.4\n    configMap: {namespace: shop}\n"
	a.write("web/Kptfile", kptfile)
	a.write("web/deployment.yaml", deployment)
	a.fails(0, []string{"push", a.folder("web"), "--dry-run", "server"}, `[PASS] "set-namespace:v0.4"`, "pushed (server dry run): 1 added, 1 changed, 0 removed")
	if a.read("web/deployment.yaml") != deployment || a.read("web/Kptfile") != kptfile {
		t.Error("the folder was changed")
	}
	if before.Digest() != a.files("edge.web.v1").Digest() {
		t.Error("the draft was changed")
	}
	a.ok("propose", "edge.web.v1", "--dry-run", "server")
	if at := a.lifecycle("edge.web.v1"); at != "Draft" {
		t.Errorf("it is %s", at)
	}
	a.fails(1, []string{"propose", "edge.web.v1", "--dry-run", "client"}, `invalid dry-run value "client"; must be "none" or "server"`)
	a.ok("push", a.folder("web"))
}
