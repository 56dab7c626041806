package packagecli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/test/testenv"
)

const deployment = `# The shop's front.
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  labels: {app: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web # the only one
        image: "example.com/web:1"
`

const secret = `apiVersion: v1
kind: Secret
metadata:
  name: db
stringData:
  password: hunter1
`

// All commands, from a new package to its second revision, a clone of it, and the upgrade of the
// clone.
func TestFromDraftToUpgrade(t *testing.T) {
	a := newAuthor(t)
	if got := a.ok("init", "web", "--repository", "catalog", "--description", "The shop's front"); got != "packagerevision.porch.kpt.dev/catalog.web.v1 created\n" {
		t.Errorf("init says %q", got)
	}
	a.ok("pull", "catalog.web.v1", a.folder("web"))
	a.write("web/deployment.yaml", deployment)
	a.write("web/secret.yaml", secret)
	a.fails(1, []string{"diff", "-f", a.folder("web")}, "diff Deployment.apps web (added)\n--- /dev/null\n+++ "+a.folder("web")+":deployment.yaml\n", "+  password: '***'\n")
	if got := a.ok("push", a.folder("web")); !strings.Contains(got, "catalog.web.v1 pushed: 2 added, 0 changed, 0 removed") {
		t.Errorf("push says %q", got)
	}
	if got := a.ok("diff", "-f", a.folder("web")); got != "" {
		t.Errorf("after a push, the folder differs:\n%s", got)
	}
	if got := a.ok("tree", "catalog.web.v1"); !strings.Contains(got, "package web (catalog.web.v1, Draft)\n") || !strings.Contains(got, "── [deployment.yaml] Deployment.apps web\n") ||
		!strings.Contains(got, "── gate PackagePipelinePassed: True\n") {
		t.Errorf("tree:\n%s", got)
	}
	if got := a.ok("propose", "catalog.web.v1"); got != "packagerevision.porch.kpt.dev/catalog.web.v1 proposed\n" {
		t.Errorf("propose says %q", got)
	}
	a.fails(0, []string{"push", a.folder("web")}, "unchanged") // nothing to push is no error, whatever its lifecycle
	if got := a.ok("approve", "catalog.web.v1"); got != "packagerevision.porch.kpt.dev/catalog.web.v1 approved\n" {
		t.Errorf("approve says %q", got)
	}

	a.ok("clone", "catalog.web.v1", "shop/web", "--repository", "edge")
	a.ok("pull", "edge.shop.web.v1", a.folder("edge"))
	a.edit("edge/deployment.yaml", "replicas: 1", "replicas: 3")
	a.ok("push", a.folder("edge"))
	a.fails(1, []string{"diff", "edge.shop.web.v1"}, "--- catalog.web.v1:deployment.yaml\n+++ edge.shop.web.v1:deployment.yaml\n", "-  replicas: 1\n+  replicas: 3\n")
	a.ok("propose", "edge.shop.web.v1")
	a.ok("approve", "edge.shop.web.v1")
	if got := a.ok("copy", "catalog.web.v1"); got != "packagerevision.porch.kpt.dev/catalog.web.v2 created\n" {
		t.Errorf("copy says %q", got)
	}
	a.ok("pull", "catalog.web.v2", a.folder("web")) // a folder of the same package
	a.edit("web/deployment.yaml", "web:1", "web:2")
	a.edit("web/secret.yaml", "hunter1", "hunter2")
	a.ok("push", a.folder("web"))
	out, _, code := a.run("diff", "catalog.web.v2")
	if code != 1 || strings.Contains(out, "hunter") || !strings.Contains(out, "-  password: '*** (before)'\n+  password: '*** (after)'\n") ||
		!strings.Contains(out, "-        image: \"example.com/web:1\"\n+        image: \"example.com/web:2\"\n") {
		t.Errorf("diff (%d):\n%s", code, out)
	}
	if _, errOut, code := a.run("upgrade", "edge.shop.web.v1"); code != 0 || errOut != "edge.shop.web.v1 is up to date with its upstream catalog.web.v1\n" {
		t.Errorf("%d: %s", code, errOut)
	}
	a.ok("propose", "catalog.web.v2")
	a.ok("approve", "catalog.web.v2")
	if got := a.ok("upgrade", "edge.shop.web.v1", "-o", "name"); got != "packagerevision.porch.kpt.dev/edge.shop.web.upgrade-v2\n" {
		t.Errorf("upgrade says %q", got)
	}
	merged := a.files("edge.shop.web.upgrade-v2")["deployment.yaml"]
	if !strings.Contains(merged, "replicas: 3") || !strings.Contains(merged, "web:2") || !strings.Contains(merged, "# the only one") {
		t.Errorf("merged:\n%s", merged)
	}
	a.fails(1, []string{"diff", "edge.shop.web.upgrade-v2", "--name-only"}, "Changed   deployment.yaml   Deployment.apps web")
	a.fails(1, []string{"diff", "edge.shop.web.upgrade-v2", "--against", "upstream"}, "+++ edge.shop.web.upgrade-v2:deployment.yaml", "+  replicas: 3")
	a.ok("propose", "edge.shop.web.upgrade-v2")
	a.ok("reject", "edge.shop.web.upgrade-v2")
	if at := a.lifecycle("edge.shop.web.upgrade-v2"); at != "Draft" {
		t.Errorf("rejected, it is %s", at)
	}
	a.ok("propose-delete", "edge.shop.web.v1")
	if at := a.lifecycle("edge.shop.web.v1"); at != "DeletionProposed" {
		t.Errorf("proposed for deletion, it is %s", at)
	}
	a.ok("reject", "edge.shop.web.v1")
	if at := a.lifecycle("edge.shop.web.v1"); at != "Published" {
		t.Errorf("kept, it is %s", at)
	}
}

// TestUpgradeWithConflicts: fields that both sides changed are reported when the draft is created,
// and later in its diff.
func TestUpgradeWithConflicts(t *testing.T) {
	a := newAuthor(t)
	a.publish("catalog", "web", kpt.Files{"deployment.yaml": deployment})
	a.ok("clone", "catalog.web.v1", "web", "--repository", "edge")
	for revision, image := range map[string]string{"edge.web.v1": "mine", "catalog.web.v2": "theirs"} {
		if revision == "catalog.web.v2" {
			a.ok("copy", "catalog.web.v1")
		}
		a.ok("pull", revision, a.folder(revision))
		a.edit(revision+"/deployment.yaml", "web:1", "web:"+image)
		a.ok("push", a.folder(revision))
		a.ok("propose", revision)
		a.ok("approve", revision)
	}
	a.fails(0, []string{"upgrade", "edge.web.v1", "--workspace", "v2"}, "edge.web.v2 created", "Warning: merge conflicts: ", "deployment.yaml")
	a.fails(1, []string{"diff", "edge.web.v2"}, "web:mine", "web:theirs")
	a.fails(1, []string{"upgrade", "edge.web.v1", "--workspace", "v3", "--strategy", "fast-forward"}, "Error from server")
	a.fails(1, []string{"upgrade", "edge.web.v2"}, "error: upgrade revision \"edge.web.v2\": it is Draft. Only Published revisions can be upgraded")
	a.fails(1, []string{"upgrade", "edge.web.v1", "--revision", "v7"}, `package web of repository catalog has no published revision "v7"; it has v2, v1`)
	// If no Repository has imported a package, the server says what to do.
	a.fails(1, []string{"clone", "https://example.com/packages.git/db@v1", "db", "--repository", "edge"}, "create one (config.porch.kpt.dev)")
}

// Unedited files stay byte for byte the same, also when they are rendered.
func TestFilesAreUnchanged(t *testing.T) {
	a := newAuthor(t)
	a.publish("catalog", "odd", kpt.Files{
		"crlf.yaml":      "apiVersion: v1\r\nkind: ConfigMap\r\nmetadata:\r\n  name: crlf\r\n",
		"no-newline.txt": "the last line has no newline",
		"wide.yaml":      "# wide\n\n\napiVersion:   v1\nkind: \"ConfigMap\"\nmetadata: { name:   wide }   # so\ndata:\n    a:   |+\n        text\n\n    b: 'it''s'\n\n",
		"two.yaml":       "---\n# first\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\n--- # second\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: two}\n...\n",
		"values.yaml":    "image: {tag: \"1\"}\n",
		"data.json":      "{\"a\" :1}\n",
		"empty.yaml":     "",
		"ünï/日本.md":      "\u00e9 \u2028 \U0001F600\n",
		"run.sh":         "#!/bin/sh\n",
	})
	a.ok("clone", "catalog.odd.v1", "odd", "--repository", "edge")
	before := a.files("edge.odd.v1")
	a.ok("pull", "edge.odd.v1", a.folder("odd"))
	a.write("odd/new.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: new}\n")
	if err := os.Chmod(filepath.Join(a.folder("odd"), "run.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	a.ok("push", a.folder("odd"))
	after := a.files("edge.odd.v1")
	for path, content := range before {
		if path == kpt.KptfileName {
			continue // the server's conditions are in it
		}
		if diff := cmp.Diff(content, after[path]); diff != "" {
			t.Errorf("%s (-before +after)\n%s", path, diff)
		}
		if diff := cmp.Diff(content, a.read("odd/"+path)); diff != "" {
			t.Errorf("%s in the folder (-before +after)\n%s", path, diff)
		}
	}
	if info, err := os.Stat(filepath.Join(a.folder("odd"), "run.sh")); err != nil || info.Mode() != 0o755 {
		t.Errorf("run.sh: %v, %v", info.Mode(), err)
	}
	if got := a.ok("push", a.folder("odd")); !strings.Contains(got, "unchanged") {
		t.Errorf("pushed again: %s", got)
	}
}

// The second of two writers gets a conflict that says what to do, which works.
func TestTwoWriters(t *testing.T) {
	a := newAuthor(t)
	a.ok("init", "web", "--repository", "edge")
	a.ok("pull", "edge.web.v1", a.folder("ann"))
	a.ok("pull", "edge.web.v1", a.folder("bob"))
	a.write("ann/ann.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ann}\n")
	a.write("bob/bob.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: bob}\n")
	a.ok("push", a.folder("ann"))
	a.fails(1, []string{"push", a.folder("bob")}, "push revision \"edge.web.v1\": changed on the server after the pull: ", "ann.yaml", "package pull edge.web.v1 ")
	a.ok("pull", "edge.web.v1", a.folder("bob"))
	a.ok("push", a.folder("bob"))
	files := a.files("edge.web.v1")
	if files["ann.yaml"] == "" || files["bob.yaml"] == "" {
		t.Errorf("an edit is lost: %v", files.Paths())
	}
	a.write("ann/bob.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: bob, labels: {by: ann}}\n")
	a.fails(1, []string{"push", a.folder("ann")}, "You edited as well: bob.yaml")
	if diff := cmp.Diff(files, a.files("edge.web.v1")); diff != "" {
		t.Errorf("(-before +after)\n%s", diff)
	}
	// A changed label is no conflict.
	a.ok("pull", "edge.web.v1", a.folder("carol"))
	a.label("edge.web.v1", "team", "shop")
	a.write("carol/carol.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: carol}\n")
	a.ok("push", a.folder("carol"))
}

// kubectl finds the plugin, and the program for its completions.
func TestAsPluginOfKubectl(t *testing.T) {
	a := newAuthor(t)
	a.ok("init", "web", "--repository", "edge")
	starling, err := testenv.Binary()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(starling, "kubectl", "--", "starling", "package", "tree", "edge.web.v1", "--context", "wds1", "-n", a.namespace)
	cmd.Env = append(os.Environ(), "STARLING_DIR="+a.fleet.Dir, "PATH="+filepath.Dir(starling)+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "package web (edge.web.v1, Draft)") {
		t.Errorf("%v: %s", err, out)
	}
}
