package cli

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/test/golden"
)

// TestHelp: the help of each command.
func TestHelp(t *testing.T) {
	t.Setenv("HOME", "/home/ann")
	t.Setenv("KUBECACHEDIR", "")
	var out, help bytes.Buffer
	root := NewCommand(genericiooptions.IOStreams{In: &help, Out: &help, ErrOut: &help})
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		help.Reset()
		if err := cmd.Help(); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "$ %s -h\n%s\n", cmd.CommandPath(), strings.TrimSpace(help.String())+"\n")
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(root)
	golden.Compare(t, "help", out.String())
}

// TestTexts: results and errors of commands, each under its command.
func TestTexts(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	s := newServer(t)
	files := kpt.Files{"Kptfile": "k", "a.yaml": "a: 1\n", "b.yaml": "b: 1\n"}
	s.add(draftName, porchv1alpha1.LifecycleDraft, files)
	s.add("edge.web.v2", porchv1alpha1.LifecycleDraft, kpt.Files{"Kptfile": "k2"})
	s.add("edge.db.v1", porchv1alpha1.LifecyclePublished, kpt.Files{"Kptfile": "k"})
	s.add("edge.gated.v1", porchv1alpha1.LifecycleDraft, nil, func(r *porchv1alpha1.PackageRevision) {
		r.Spec.ReadinessGates = []porchv1alpha1.ReadinessGate{{ConditionType: "Reviewed"}}
	})
	var out strings.Builder
	run := func(why string, args ...string) {
		t.Helper()
		stdout, stderr, code := s.run(args...)
		fmt.Fprintf(&out, "# %s\n$ kubectl starling package %s\n%s%s(exit code %d)\n\n", why, strings.Join(args, " "), stdout, stderr, code)
	}
	edit := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join("web", name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	onServer := func(name, content string) {
		s.change(draftName, func(_ *porchv1alpha1.PackageRevision, files kpt.Files) { files[name] = content })
	}

	run("arguments", "init")
	run("arguments", "push", "a", "b", "c")
	run("arguments", "diff")
	run("arguments", "approve")
	run("output format", "tree", draftName, "-o", "table")
	run("dry run", "propose", draftName, "--dry-run=client")
	run("names", "init", "Web", "--repository", "edge")
	run("source", "clone", "https://example.com/packages.git@v2", "web", "--ref", "v3", "--repository", "edge")
	run("source", "clone", "catalog.web.v1", "web", "--ref", "v3", "--repository", "edge")
	run("not found", "tree", "edge.none.v1")

	run("pull", "pull", draftName, "web")
	run("nothing to push", "push", "web")
	edit("a.yaml", "a: 2\n")
	run("push", "push", "web")
	edit("a.yaml", "a: 1\n")
	run("dry run", "push", "web", "--dry-run=server")
	onServer("b.yaml", "b: 2\n")
	edit("a.yaml", "a: 3\n")
	run("changed on the server", "push", "web")
	run("kept edits", "pull", draftName, "web")
	onServer("a.yaml", "a: 4\n")
	run("changed on both sides", "push", "web")
	run("changed on both sides", "pull", draftName, "web")
	run("edits of one revision", "pull", "edge.web.v2", "web")
	run("another package", "pull", "edge.db.v1", "web")
	run("another revision", "push", "edge.web.v2", "web")
	run("no package", "push", ".")
	run("not empty", "pull", draftName, ".")
	run("no package", "diff", "-f", ".")

	s.render = func(files kpt.Files) (kpt.Files, porchv1alpha1.RenderStatus) {
		failed := porchv1alpha1.RenderStatus{Err: "a.yaml: replicas: not a number"}
		failed.Result.ExitCode = 1
		failed.Result.Items = []*porchv1alpha1.Result{
			{Image: "set-labels:v0.2"},
			{Image: "kubeconform:v0.1", ExitCode: 1, Results: []porchv1alpha1.ResultItem{{Message: "not a number", Severity: "error"}}},
		}
		return files, failed
	}
	run("a function fails", "push", "web", "--force")
	edit("a.yaml", "a: 5\n")
	if err := os.Symlink("a.yaml", "web/link.yaml"); err != nil {
		t.Fatal(err)
	}
	run("not a regular file", "push", "web")

	run("gates", "propose", "edge.gated.v1", "--wait", "--timeout", "1ms")
	run("lifecycle", "propose", draftName)
	run("lifecycle", "propose", draftName, "edge.web.v2")
	run("lifecycle", "upgrade", "edge.web.v2")
	s.before = func(*http.Request) *metav1.Status {
		return status(http.StatusForbidden, metav1.StatusReasonForbidden, `packagerevisions.porch.kpt.dev "edge.web.v1" is forbidden: User "ann" cannot update resource "packagerevisions/approval"`)
	}
	run("no right", "approve", draftName)
	t.Chdir(here)
	golden.Compare(t, "texts", strings.TrimSpace(out.String())+"\n")
}
