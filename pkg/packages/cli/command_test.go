package cli

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/folder"
)

const draftName = "edge.web.v1"

// pulled returns a server with a draft, and a folder with the pulled draft.
func pulled(t *testing.T) (*server, string) {
	t.Helper()
	s := newServer(t)
	s.add(draftName, porchv1alpha1.LifecycleDraft, kpt.Files{"Kptfile": "k", "a.yaml": "a: 1\n", "b.yaml": "b: 1\n", "sub/c.yaml": "c: 1\n"})
	dir := filepath.Join(t.TempDir(), "web")
	out, errOut, code := s.run("pull", draftName, dir)
	if want := "packagerevision.porch.kpt.dev/edge.web.v1 pulled into " + dir + ": 4 files written\n"; code != 0 || out != want {
		t.Fatalf("%d: %s%s", code, out, errOut)
	}
	return s, dir
}

// wants fails unless a command has the exit code and prints each of the texts.
func wants(t *testing.T, s *server, wantCode int, args, texts []string) {
	t.Helper()
	out, errOut, code := s.run(args...)
	if code != wantCode {
		t.Errorf("%s: exit code %d, want %d", args, code, wantCode)
	}
	for _, text := range texts {
		if !strings.Contains(out+errOut, text) {
			t.Errorf("%s: does not say %q:\n%s%s", args, text, out, errOut)
		}
	}
}

func contents(t *testing.T, dir string) kpt.Files {
	t.Helper()
	d, err := OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	files, err := d.Files()
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestPushAfterChangeOnServer(t *testing.T) {
	tests := map[string]struct {
		here  func(t *testing.T, dir string)
		there func(*porchv1alpha1.PackageRevision, kpt.Files)
		code  int
		texts []string
	}{
		"nothing": {code: 0, texts: []string{"edge.web.v1 unchanged"}},
		"a label": {
			here:  func(t *testing.T, dir string) { write(t, filepath.Join(dir, "a.yaml"), "a: 2\n") },
			there: func(r *porchv1alpha1.PackageRevision, _ kpt.Files) { r.Labels = map[string]string{"a": "b"} },
			code:  0, texts: []string{"edge.web.v1 pushed: 0 added, 1 changed, 0 removed"},
		},
		"another file": {
			here: func(t *testing.T, dir string) { write(t, filepath.Join(dir, "a.yaml"), "a: 2\n") },
			there: func(_ *porchv1alpha1.PackageRevision, f kpt.Files) {
				f["b.yaml"] = "b: 2\n"
				delete(f, "sub/c.yaml")
			},
			code: 1, texts: []string{"push revision \"edge.web.v1\": changed on the server after the pull: b.yaml, sub/c.yaml. You did not edit these files.", "package pull edge.web.v1 /"},
		},
		"the same file": {
			here:  func(t *testing.T, dir string) { write(t, filepath.Join(dir, "a.yaml"), "a: 2\n") },
			there: func(_ *porchv1alpha1.PackageRevision, f kpt.Files) { f["a.yaml"] = "a: 3\n" },
			code:  1, texts: []string{"push revision \"edge.web.v1\": changed on the server after the pull: a.yaml. You edited as well: a.yaml.", "--force"},
		},
		"the same change": {
			here:  func(t *testing.T, dir string) { write(t, filepath.Join(dir, "a.yaml"), "a: 2\n") },
			there: func(_ *porchv1alpha1.PackageRevision, f kpt.Files) { f["a.yaml"] = "a: 2\n" },
			code:  0, texts: []string{"edge.web.v1 unchanged"},
		},
		"re-created": {
			here:  func(t *testing.T, dir string) { write(t, filepath.Join(dir, "a.yaml"), "a: 2\n") },
			there: func(r *porchv1alpha1.PackageRevision, _ kpt.Files) { r.UID = "another" },
			code:  1, texts: []string{"it was deleted and re-created after the pull"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s, dir := pulled(t)
			if test.here != nil {
				test.here(t, dir)
			}
			if test.there != nil {
				s.change(draftName, test.there)
			}
			before := s.files[draftName].Digest()
			wants(t, s, test.code, []string{"push", dir}, test.texts)
			if now := s.files[draftName].Digest(); test.code != 0 && now != before {
				t.Error("the draft was overwritten")
			}
		})
	}
}

// The advice after a conflict works: pull, and push again. The edits of both sides are then
// present.
func TestPullAndPushAfterConflict(t *testing.T) {
	s, dir := pulled(t)
	write(t, filepath.Join(dir, "a.yaml"), "a: 2\n")
	s.change(draftName, func(_ *porchv1alpha1.PackageRevision, f kpt.Files) {
		f["b.yaml"] = "b: 2\n"
		delete(f, "sub/c.yaml")
	})
	wants(t, s, 1, []string{"push", dir}, []string{"changed on the server after the pull"})
	wants(t, s, 0, []string{"pull", draftName, dir}, []string{"1 file written, 1 removed; 1 file kept with your edits: a.yaml"})
	wants(t, s, 0, []string{"push", dir}, []string{"pushed: 0 added, 1 changed, 0 removed"})
	want := kpt.Files{"Kptfile": "k", "a.yaml": "a: 2\n", "b.yaml": "b: 2\n"}
	if diff := cmp.Diff(want, s.files[draftName]); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(want, contents(t, dir)); diff != "" {
		t.Errorf("folder (-want +got)\n%s", diff)
	}
}

// Another user writes between our read and our write.
func TestConflictDuringPush(t *testing.T) {
	for name, touch := range map[string]bool{"changed on the server after the pull: b.yaml": true, "its metadata was changed during the push. Push again": false} {
		t.Run(name, func(t *testing.T) {
			s, dir := pulled(t)
			write(t, filepath.Join(dir, "a.yaml"), "a: 2\n")
			s.before = func(r *http.Request) *metav1.Status {
				if r.Method == http.MethodPut {
					s.change(draftName, func(_ *porchv1alpha1.PackageRevision, f kpt.Files) {
						if touch {
							f["b.yaml"] = "b: 2\n"
						}
					})
				}
				return nil
			}
			wants(t, s, 1, []string{"push", dir}, []string{name})
		})
	}
}

func TestPushAppliesRendering(t *testing.T) {
	failed := porchv1alpha1.RenderStatus{Err: "a.yaml: replicas: not a number", Result: porchv1alpha1.ResultList{ExitCode: 1, Items: []*porchv1alpha1.Result{
		{Image: "set-labels:v0.2"},
		{Image: "kubeconform:v0.1", ExitCode: 1, Stderr: "one\ntwo", Results: []porchv1alpha1.ResultItem{{
			Severity: "error", Message: "not a number", Field: &porchv1alpha1.Field{Path: "spec.replicas"}, File: &porchv1alpha1.File{Path: "a.yaml"},
			ResourceRef: &porchv1alpha1.ResourceIdentifier{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, Name: "web", Namespace: "shop"},
		}}},
	}}}
	const said = `[PASS] "set-labels:v0.2"
[FAIL] "kubeconform:v0.1"
  Results:
    [error] apps/v1/Deployment shop/web spec.replicas in a.yaml: not a number
  Stderr:
    one
    two
  Exit code: 1
`
	t.Run("and functions change it", func(t *testing.T) {
		s, dir := pulled(t)
		write(t, filepath.Join(dir, "a.yaml"), "a: 2\n")
		if err := os.Chmod(filepath.Join(dir, "b.yaml"), 0o640); err != nil {
			t.Fatal(err)
		}
		s.render = func(f kpt.Files) (kpt.Files, porchv1alpha1.RenderStatus) {
			f["b.yaml"], f["new.yaml"] = "b: rendered\n", "n: 1\n"
			delete(f, "sub/c.yaml")
			return f, porchv1alpha1.RenderStatus{Result: porchv1alpha1.ResultList{Items: []*porchv1alpha1.Result{{Image: "set-labels:v0.2"}}}}
		}
		wants(t, s, 0, []string{"push", dir}, []string{"[PASS] \"set-labels:v0.2\"\n", "rendering changed these files, also in " + dir + ": b.yaml, new.yaml, sub/c.yaml"})
		if diff := cmp.Diff(s.files[draftName], contents(t, dir)); diff != "" {
			t.Errorf("folder (-want +got)\n%s", diff)
		}
		if info, err := os.Stat(filepath.Join(dir, "b.yaml")); err != nil || info.Mode() != 0o640 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
		wants(t, s, 0, []string{"push", dir}, []string{"unchanged"})
	})
	t.Run("and a function fails", func(t *testing.T) {
		s, dir := pulled(t)
		write(t, filepath.Join(dir, "a.yaml"), "a: x\n")
		s.render = func(f kpt.Files) (kpt.Files, porchv1alpha1.RenderStatus) { return f, failed }
		wants(t, s, 1, []string{"push", dir}, []string{said, "edge.web.v1 pushed: 0 added, 1 changed", "error: render revision \"edge.web.v1\": a.yaml: replicas: not a number"})
		write(t, filepath.Join(dir, "a.yaml"), "a: 2\n")
		s.render = nil
		wants(t, s, 0, []string{"push", dir}, []string{"pushed: 0 added, 1 changed"})
	})
	t.Run("and a function fails, and nothing is kept", func(t *testing.T) {
		s, dir := pulled(t)
		before := s.files[draftName]
		write(t, filepath.Join(dir, "a.yaml"), "a: x\n")
		s.render = func(kpt.Files) (kpt.Files, porchv1alpha1.RenderStatus) { return before, failed }
		wants(t, s, 1, []string{"push", dir}, []string{said, "The draft was not changed. Fix the package"})
		if got := contents(t, dir)["a.yaml"]; got != "a: x\n" {
			t.Errorf("the edit is lost: %q", got)
		}
	})
}

// An error about the number of arguments lists the arguments.
func TestArguments(t *testing.T) {
	for _, tc := range []struct {
		args []string
		code int
		text string
	}{
		{[]string{"init"}, 1, "accepts 1 argument, received 0: kubectl starling package init PACKAGE --repository REPOSITORY"},
		{[]string{"clone", "a", "b", "c"}, 1, "accepts 2 arguments, received 3: kubectl starling package clone SOURCE PACKAGE --repository REPOSITORY"},
		{[]string{"pull", "a"}, 1, "See 'kubectl starling package pull -h' for help and examples"},
		{[]string{"push"}, 1, ": kubectl starling package push [REVISION] DIR"},
		{[]string{"tree"}, 1, ": kubectl starling package tree REVISION"},
		{[]string{"copy", "a", "b"}, 1, ": kubectl starling package copy REVISION"},
		{[]string{"upgrade"}, 1, ": kubectl starling package upgrade REVISION"},
		{[]string{"diff", "a", "b"}, 2, "accepts at most 1 argument, received 2"},
	} {
		wants(t, newServer(t), tc.code, tc.args, []string{tc.text})
	}
}

// The program is a plugin: its help shows the command as users type it.
func TestHelpNamesThePlugin(t *testing.T) {
	var check func(path []string, c *cobra.Command)
	check = func(path []string, c *cobra.Command) {
		var out bytes.Buffer
		root := NewCommand(genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &out})
		root.SetArgs(append(path, "--help"))
		if err := root.ExecuteContext(t.Context()); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if strings.Contains(out.String(), "kubectl-starling") {
			t.Errorf("the help of %s names the program by its file:\n%s", path, &out)
		}
		if len(c.Commands()) > 0 && !strings.Contains(out.String(), fmt.Sprintf("Use %q", strings.Join(append([]string{"kubectl starling"}, path...), " ")+" <command> --help")) {
			t.Errorf("the help of %s does not say how to get more:\n%s", path, &out)
		}
		for _, sub := range c.Commands() {
			check(append(slices.Clone(path), sub.Name()), sub)
		}
	}
	check(nil, NewCommand(genericiooptions.IOStreams{In: strings.NewReader(""), Out: io.Discard, ErrOut: io.Discard}))
}

func TestPullIntoAFolder(t *testing.T) {
	tests := map[string]struct {
		prepare func(t *testing.T, s *server, dir string)
		name    string
		args    []string
		code    int
		text    string
		want    kpt.Files
	}{
		"not empty": {
			prepare: func(t *testing.T, _ *server, dir string) {
				if err := os.RemoveAll(dir); err != nil {
					t.Fatal(err)
				}
				write(t, filepath.Join(dir, "mine"), "x")
			},
			name: draftName, code: 1, text: "is not empty, and no package was pulled into it",
			want: kpt.Files{"mine": "x"},
		},
		"a git repository": {
			prepare: func(t *testing.T, _ *server, dir string) {
				if err := os.RemoveAll(dir); err != nil {
					t.Fatal(err)
				}
				write(t, filepath.Join(dir, ".git/HEAD"), "x")
			},
			name: draftName, text: "4 files written",
			want: kpt.Files{"Kptfile": "k", "a.yaml": "a: 1\n", "b.yaml": "b: 1\n", "sub/c.yaml": "c: 1\n"},
		},
		"another package": {
			name: "edge.db.v1", code: 1, text: "it contains revision \"edge.web.v1\" of namespace \"default\", which is of another package",
			want: kpt.Files{"Kptfile": "k", "a.yaml": "a: 1\n", "b.yaml": "b: 1\n", "sub/c.yaml": "c: 1\n"},
		},
		"another revision": {
			name: "edge.web.v2", text: "1 file written, 2 removed",
			want: kpt.Files{"Kptfile": "k", "a.yaml": "a: 20\n"},
		},
		"another revision, with edits": {
			prepare: func(t *testing.T, _ *server, dir string) { write(t, filepath.Join(dir, "Kptfile"), "edited") },
			name:    "edge.web.v2", code: 1, text: "the folder has edits of revision \"edge.web.v1\" that were not pushed: Kptfile",
			want: kpt.Files{"Kptfile": "edited", "a.yaml": "a: 1\n", "b.yaml": "b: 1\n", "sub/c.yaml": "c: 1\n"},
		},
		"edited on both sides": {
			prepare: func(t *testing.T, s *server, dir string) {
				write(t, filepath.Join(dir, "a.yaml"), "a: 2\n")
				s.change(draftName, func(_ *porchv1alpha1.PackageRevision, f kpt.Files) { f["a.yaml"], f["b.yaml"] = "a: 3\n", "b: 3\n" })
			},
			name: draftName, code: 1, text: "nothing was written, because these files were edited on both sides",
			want: kpt.Files{"Kptfile": "k", "a.yaml": "a: 2\n", "b.yaml": "b: 1\n", "sub/c.yaml": "c: 1\n"},
		},
		"with force": {
			prepare: func(t *testing.T, s *server, dir string) {
				write(t, filepath.Join(dir, "a.yaml"), "a: 2\n")
				write(t, filepath.Join(dir, "mine"), "x")
				s.change(draftName, func(_ *porchv1alpha1.PackageRevision, f kpt.Files) { f["a.yaml"] = "a: 3\n" })
			},
			name: draftName, args: []string{"--force"}, text: "1 file written, 1 removed",
			want: kpt.Files{"Kptfile": "k", "a.yaml": "a: 3\n", "b.yaml": "b: 1\n", "sub/c.yaml": "c: 1\n"},
		},
		"a file becomes a directory": {
			prepare: func(_ *testing.T, s *server, _ string) {
				s.change(draftName, func(_ *porchv1alpha1.PackageRevision, f kpt.Files) {
					delete(f, "a.yaml")
					delete(f, "sub/c.yaml")
					f["a.yaml/x"], f["sub"] = "x", "y"
				})
			},
			name: draftName, text: "2 files written, 2 removed",
			want: kpt.Files{"Kptfile": "k", "a.yaml/x": "x", "b.yaml": "b: 1\n", "sub": "y"},
		},
		"metadata that cannot be read": {
			prepare: func(t *testing.T, _ *server, dir string) { write(t, filepath.Join(dir, folder.MetadataName), "{") },
			name:    draftName, code: 1, text: ".KptRevisionMetadata\": ",
		},
		"no such revision": {name: "edge.gone.v1", code: 1, text: `Error from server (NotFound): packagerevisions.porch.kpt.dev "edge.gone.v1" not found`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s, dir := pulled(t)
			s.add("edge.db.v1", porchv1alpha1.LifecycleDraft, kpt.Files{"Kptfile": "db"})
			s.add("edge.web.v2", porchv1alpha1.LifecycleDraft, kpt.Files{"Kptfile": "k", "a.yaml": "a: 20\n"})
			if test.prepare != nil {
				test.prepare(t, s, dir)
			}
			wants(t, s, test.code, append([]string{"pull", test.name, dir}, test.args...), []string{test.text})
			if test.want == nil {
				return
			}
			if diff := cmp.Diff(test.want, contents(t, dir)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// Paths from a server are not trusted.
func TestPullRefusesPathsOutside(t *testing.T) {
	for _, name := range []string{"../outside", "/tmp/outside", "a/../../outside", ".git/hooks/post-checkout", "a\\b", folder.MetadataName} {
		s := newServer(t)
		s.add(draftName, porchv1alpha1.LifecycleDraft, kpt.Files{"Kptfile": "k", name: "x"})
		dir := filepath.Join(t.TempDir(), "web")
		wants(t, s, 1, []string{"pull", draftName, dir}, []string{"pull revision \"edge.web.v1\": "})
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("%s: the folder was made: %v", name, err)
		}
	}
}

func TestPushWithoutPull(t *testing.T) {
	s, dir := pulled(t)
	wants(t, s, 1, []string{"push", "edge.web.v2", dir}, []string{"was pulled from revision \"edge.web.v1\", not from \"edge.web.v2\""})
	wants(t, s, 1, []string{"push", dir, "-n", "other"}, []string{"error: the folder was pulled from namespace \"default\", not from \"other\""})
	wants(t, s, 1, []string{"push", filepath.Join(dir, "sub")}, []string{"push folder \"", "it has no file " + folder.MetadataName})
	wants(t, s, 1, []string{"push", filepath.Join(dir, "nowhere")}, []string{"no such file or directory"})
	wants(t, s, 0, []string{"push", draftName, dir}, []string{"unchanged"})
}

func TestDiff(t *testing.T) {
	s := newServer(t)
	s.add("edge.web.v1", porchv1alpha1.LifecyclePublished, kpt.Files{"a.txt": "a\n"}, func(r *porchv1alpha1.PackageRevision) { r.Spec.Revision = 1 })
	s.add("edge.web.v2", porchv1alpha1.LifecycleDraft, kpt.Files{"a.txt": "b\n"}, func(r *porchv1alpha1.PackageRevision) {
		r.Spec.Tasks = []porchv1alpha1.Task{{Type: "edit", Edit: &porchv1alpha1.PackageEditTaskSpec{Source: &porchv1alpha1.PackageRevisionRef{Name: "edge.web.v1"}}}}
	})
	s.add("edge.lost.v1", porchv1alpha1.LifecycleDraft, nil, func(r *porchv1alpha1.PackageRevision) {
		r.Spec.Tasks = []porchv1alpha1.Task{{Type: "edit", Edit: &porchv1alpha1.PackageEditTaskSpec{Source: &porchv1alpha1.PackageRevisionRef{Name: "edge.lost.v0"}}}}
	})
	const whole = "diff file a.txt (changed)\n--- edge.web.v1:a.txt\n+++ edge.web.v2:a.txt\n@@ -1 +1 @@\n-a\n+b\n"
	tests := map[string]struct {
		args []string
		code int
		text string
	}{
		"against its base":   {[]string{"edge.web.v2"}, 1, whole},
		"against the latest": {[]string{"edge.web.v2", "--against", "latest"}, 1, whole},
		"against a name":     {[]string{"edge.web.v2", "--against", "edge.web.v1"}, 1, whole},
		"against itself":     {[]string{"edge.web.v2", "--against", "edge.web.v2"}, 0, ""},
		"from nothing":       {[]string{"edge.web.v1"}, 1, "diff file a.txt (added)\n--- /dev/null\n+++ edge.web.v1:a.txt\n@@ -0,0 +1 @@\n+a\n"},
		"names":              {[]string{"edge.web.v2", "--name-only"}, 1, "CHANGE    FILE    OBJECT\nChanged   a.txt   \n"},
		"json": {
			[]string{"edge.web.v2", "-o", "json"},
			1,
			"{\n    \"before\": \"edge.web.v1\",\n    \"after\": \"edge.web.v2\",\n    \"changes\": [\n        {\n            \"change\": \"Changed\",\n            \"file\": \"a.txt\",\n            \"diff\": \"@@ -1 +1 @@\\n-a\\n+b\\n\"\n        }\n    ]\n}\n",
		},
		"yaml of nothing":  {[]string{"edge.web.v2", "--against", "edge.web.v2", "-o", "yaml"}, 0, "after: edge.web.v2\nbefore: edge.web.v2\nchanges: []\n"},
		"no base":          {[]string{"edge.lost.v1"}, 2, "error: edge.lost.v1 was created from edge.lost.v0, which no longer exists. Specify a revision to compare with by --against\n"},
		"no upstream":      {[]string{"edge.web.v2", "--against", "upstream"}, 2, "error: edge.web.v1 has no upstream: it was not cloned. Specify a revision to compare with by --against\n"},
		"no revision":      {[]string{"edge.gone.v1"}, 2, "NotFound"},
		"no argument":      {nil, 2, "error: specify either a revision or -f DIR\n"},
		"two arguments":    {[]string{"edge.web.v1", "edge.web.v2"}, 2, "accepts at most 1 argument, received 2: kubectl starling package diff (REVISION | -f DIR)"},
		"an unknown flag":  {[]string{"--unified"}, 2, "unknown flag: --unified"},
		"an unknown form":  {[]string{"edge.web.v2", "-o", "xml"}, 2, `error: unable to match a printer suitable for the output format "xml", allowed formats are: json,yaml`},
		"a folder of none": {[]string{"-f", "."}, 2, "error: read folder \".\": no package was pulled into it\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			out, errOut, code := s.run(append([]string{"diff"}, test.args...)...)
			if code != test.code {
				t.Errorf("exit code %d, want %d", code, test.code)
			}
			if code == 2 && !strings.Contains(errOut, test.text) || code < 2 && out != test.text {
				t.Errorf("got\n%s%s\nwant\n%s", out, errOut, test.text)
			}
		})
	}
}

func TestChangeManyRevisions(t *testing.T) {
	s := newServer(t)
	names := []string{"edge.a.v1", "edge.b.v1", "edge.c.v1", "edge.d.v1"}
	for _, name := range names {
		s.add(name, porchv1alpha1.LifecycleDraft, nil)
	}
	s.change("edge.b.v1", func(r *porchv1alpha1.PackageRevision, _ kpt.Files) {
		r.Spec.Lifecycle = porchv1alpha1.LifecyclePublished
	})
	s.change("edge.d.v1", func(r *porchv1alpha1.PackageRevision, _ kpt.Files) {
		r.Spec.Lifecycle = porchv1alpha1.LifecycleProposed
	})
	out, errOut, code := s.run(append([]string{"propose", "edge.gone.v1"}, names...)...)
	if code != 1 {
		t.Errorf("exit code %d", code)
	}
	if want := "packagerevision.porch.kpt.dev/edge.a.v1 proposed\npackagerevision.porch.kpt.dev/edge.c.v1 proposed\n"; out != want {
		t.Errorf("got %q", out)
	}
	const wantErr = `Error from server (NotFound): propose revision "edge.gone.v1": packagerevisions.porch.kpt.dev "edge.gone.v1" not found
Error from server (Forbidden): propose revision "edge.b.v1": Invalid value: "Proposed": Published can change to Published or DeletionProposed only
error: propose revision "edge.d.v1": it is already Proposed
`
	if diff := cmp.Diff(wantErr, errOut); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	wants(t, s, 0, []string{"approve", "edge.a.v1", "edge.c.v1", "-o", "wide"}, []string{"NAME        PACKAGE   WORKSPACENAME", "edge.c.v1   c"})
	wants(t, s, 0, []string{"reject", "edge.d.v1", "-o", "name"}, []string{"packagerevision.porch.kpt.dev/edge.d.v1\n"})
	wants(t, s, 1, []string{"reject"}, []string{"error: specify either the revisions to be rejected, or -l or --set"})
	wants(t, s, 1, []string{"propose", "edge.d.v1", "-o", "xml"}, []string{`unable to match a printer suitable for the output format "xml"`, "templatefile,wide,yaml"})
	if at := s.revisions["edge.d.v1"].Spec.Lifecycle; at != porchv1alpha1.LifecycleDraft {
		t.Errorf("it is %s after an error in the command line", at)
	}
}

// A lifecycle is written with the resourceVersion that was read, so a concurrent write is detected.
func TestLifecycleConflict(t *testing.T) {
	s := newServer(t)
	s.add(draftName, porchv1alpha1.LifecycleDraft, nil)
	writes := 0
	s.before = func(r *http.Request) *metav1.Status {
		writes++
		if r.Method == http.MethodPut && writes < 8 {
			s.change(draftName, func(r *porchv1alpha1.PackageRevision, _ kpt.Files) { r.Labels = map[string]string{"n": "1"} })
		}
		return nil
	}
	wants(t, s, 0, []string{"propose", draftName}, []string{"edge.web.v1 proposed"})
	if r := s.revisions[draftName]; r.Labels["n"] != "1" || r.Spec.Lifecycle != porchv1alpha1.LifecycleProposed {
		t.Errorf("%s, labels %v", r.Spec.Lifecycle, r.Labels)
	}
	s.before = func(r *http.Request) *metav1.Status {
		if r.Method == http.MethodPut {
			s.change(draftName, func(r *porchv1alpha1.PackageRevision, _ kpt.Files) {
				r.Spec.Lifecycle = porchv1alpha1.LifecycleDraft
			})
		}
		return nil
	}
	wants(t, s, 1, []string{"approve", draftName}, []string{"error: approve revision \"edge.web.v1\": another user changed its lifecycle to Draft"})
}

// Waiting for gates continues although the server ends each watch.
func TestWaitForGates(t *testing.T) {
	s := newServer(t)
	gate := func(r *porchv1alpha1.PackageRevision) {
		r.Spec.ReadinessGates = []porchv1alpha1.ReadinessGate{{ConditionType: "Reviewed"}}
	}
	s.add(draftName, porchv1alpha1.LifecycleDraft, nil, gate)
	wants(t, s, 1, []string{"propose", draftName, "--wait", "--timeout", "50ms"}, []string{
		"error: propose revision \"edge.web.v1\": timed out after 50ms: the package revision is not ready; readiness gates that are not met: Reviewed (no such condition)",
	})
	gets := 0
	s.before = func(r *http.Request) *metav1.Status {
		gets++
		if r.Method == http.MethodGet && gets == 2 {
			s.change(draftName, func(r *porchv1alpha1.PackageRevision, _ kpt.Files) {
				r.Status.Conditions = []porchv1alpha1.Condition{{Type: "Reviewed", Status: "True"}}
			})
		}
		return nil
	}
	wants(t, s, 0, []string{"propose", draftName, "--wait"}, []string{"edge.web.v1 proposed"})
}

func TestUnreachableServer(t *testing.T) {
	s := newServer(t)
	s.url = "http://127.0.0.1:1"
	wants(t, s, 1, []string{"tree", draftName}, []string{"The connection to the server 127.0.0.1:1 was refused - did you specify the right host or port?"})
	wants(t, s, 2, []string{"diff", draftName}, []string{"The connection to the server 127.0.0.1:1 was refused"})
}

func TestCreateChecksFirst(t *testing.T) {
	s := newServer(t)
	s.url = "http://127.0.0.1:1" // no request is sent
	wants(t, s, 1, []string{"init", "Web", "--repository", "edge"}, []string{`error: create draft: spec.packageName: Invalid value: "Web"`})
	wants(t, s, 1, []string{"init", "web", "--repository", "edge", "--workspace", "v.1"}, []string{`spec.workspaceName: Invalid value: "v.1"`})
	wants(t, s, 1, []string{"init", "web"}, []string{`error: required flag(s) "repository" not set`})
	wants(t, s, 1, []string{"clone", "oci://x", "web", "--repository", "edge", "--ref", "v1"}, []string{"is an image"})
}

// The workspace of an upgrade names the number or the tag of the new upstream.
func TestUpgradeToTag(t *testing.T) {
	s := newServer(t)
	for workspace, tag := range map[string]string{"v1-2-3": "v1.2.3", "v1-3-0": "v1.3.0", "v1-10-0-rc-1": "v1.10.0-rc.1"} {
		s.add("catalog.api."+workspace, porchv1alpha1.LifecyclePublished, nil, func(r *porchv1alpha1.PackageRevision) {
			r.Spec.Revision = -1
			r.Status.SelfLock = &porchv1alpha1.Locator{Git: &porchv1alpha1.GitLock{Directory: "api", Ref: "api/" + tag}}
		})
	}
	s.add("edge.api.v1", porchv1alpha1.LifecyclePublished, nil, func(r *porchv1alpha1.PackageRevision) {
		r.Spec.Revision = 1
		r.Spec.Tasks = []porchv1alpha1.Task{{Type: porchv1alpha1.TaskTypeClone, Clone: &porchv1alpha1.PackageCloneTaskSpec{
			Upstream: porchv1alpha1.UpstreamPackage{UpstreamRef: &porchv1alpha1.PackageRevisionRef{Name: "catalog.api.v1-2-3"}},
		}}}
	})
	wants(t, s, 0, []string{"upgrade", "edge.api.v1"}, []string{"edge.api.upgrade-v1-3-0 created"})
	wants(t, s, 0, []string{"upgrade", "edge.api.v1", "--revision", "v1.10.0-rc.1"}, []string{"edge.api.upgrade-v1-10-0-rc-1 created"})
}

// A package in git is cloned from the imported revision. If there is none, the server refuses.
func TestCloneFromGit(t *testing.T) {
	s := newServer(t)
	s.add("catalog.web.v2", porchv1alpha1.LifecyclePublished, nil, func(r *porchv1alpha1.PackageRevision) {
		r.Spec.Revision = 2
		r.Status.SelfLock = &porchv1alpha1.Locator{Git: &porchv1alpha1.GitLock{Repo: "https://example.com/packages.git", Directory: "web", Ref: "web/v2", Commit: "c"}}
	})
	wants(t, s, 0, []string{"clone", "https://example.com/packages.git/web@v2", "web", "--repository", "edge"}, []string{"edge.web.v1 created"})
	if got := s.revisions["edge.web.v1"].Spec.Tasks[0].Clone.Upstream; got.Git != nil || got.UpstreamRef == nil || got.UpstreamRef.Name != "catalog.web.v2" {
		t.Errorf("cloned from %+v", got)
	}
	wants(t, s, 0, []string{"clone", "https://example.com/packages.git/web@v3", "shop", "--repository", "edge"}, []string{"edge.shop.v1 created"})
	if got := s.revisions["edge.shop.v1"].Spec.Tasks[0].Clone.Upstream; got.Git == nil || got.Git.Ref != "v3" {
		t.Errorf("cloned from %+v", got)
	}
}

// TestFailedPush: in a script, propose and approve follow a push. They do not publish the content
// before if the push has failed.
func TestFailedPush(t *testing.T) {
	s := newServer(t)
	s.add(draftName, porchv1alpha1.LifecycleDraft, kpt.Files{"Kptfile": "kind: Kptfile\n", "a.yaml": "a: 1\n"})
	dir := filepath.Join(t.TempDir(), "web")
	wants(t, s, 0, []string{"pull", draftName, dir}, []string{"pulled"})
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	fail := func(method string) {
		s.before = func(r *http.Request) *metav1.Status {
			if r.Method == method && strings.Contains(r.URL.Path, "packagerevisionresources") {
				return &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError, Message: "no leader"}
			}
			return nil
		}
	}
	at := func(lifecycle porchv1alpha1.PackageRevisionLifecycle) {
		s.change(draftName, func(r *porchv1alpha1.PackageRevision, _ kpt.Files) { r.Spec.Lifecycle = lifecycle })
	}
	proposed := func() {
		t.Helper()
		wants(t, s, 0, []string{"propose", draftName}, []string{"proposed"})
		at(porchv1alpha1.LifecycleDraft)
	}
	for _, method := range []string{http.MethodGet, http.MethodPut} {
		write("a: 2 " + method + "\n")
		fail(method)
		wants(t, s, 1, []string{"push", dir, "--dry-run=server"}, []string{"an error on the server"})
		s.before = nil
		proposed() // no push has begun
		fail(method)
		wants(t, s, 1, []string{"push", dir}, []string{"an error on the server"})
		s.before = nil
		wants(t, s, 1, []string{"propose", draftName}, []string{"your last push of it failed"})
		at(porchv1alpha1.LifecycleProposed)
		wants(t, s, 1, []string{"approve", draftName}, []string{"your last push of it failed"})
		at(porchv1alpha1.LifecycleDraft)
		wants(t, s, 0, []string{"push", dir}, []string{"pushed"})
		proposed()
	}
	write("a: 3\n")
	fail(http.MethodPut)
	wants(t, s, 1, []string{"push", dir}, []string{"an error on the server"})
	s.before = nil
	wants(t, s, 0, []string{"pull", draftName, dir}, []string{"kept with your edits"})
	wants(t, s, 1, []string{"propose", draftName}, []string{"your last push of it failed"})
	wants(t, s, 0, []string{"pull", draftName, dir, "--force"}, []string{"pulled"})
	wants(t, s, 0, []string{"propose", draftName}, []string{"proposed"})
}
