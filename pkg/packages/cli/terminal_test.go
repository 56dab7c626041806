package cli

import (
	"path/filepath"
	"strings"
	"testing"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
)

// Nothing in a package can hide from reviewers: control characters are shown, wherever they come
// from.
func TestEscape(t *testing.T) {
	const (
		hides = "one\x1b[1A\x1b[2Ktwo\u009b2K\x08\u202ethree\r"
		shown = `one^[[1A^[[2Ktwo\u009b2K^H\u202ethree^M`
	)
	s, dir := pulled(t)
	s.change(draftName, func(r *porchv1alpha1.PackageRevision, f kpt.Files) {
		f["README.md"] = hides + "\n"
		r.Spec.ReadinessGates = []porchv1alpha1.ReadinessGate{{ConditionType: "Reviewed"}}
		r.Status.Conditions = []porchv1alpha1.Condition{{Type: "Reviewed", Status: "False", Message: hides}}
	})
	wants(t, s, 0, []string{"pull", draftName, dir}, nil)
	write(t, filepath.Join(dir, "a.yaml"), "a: 2\n")
	s.render = func(f kpt.Files) (kpt.Files, porchv1alpha1.RenderStatus) {
		return f, porchv1alpha1.RenderStatus{Err: hides, Result: porchv1alpha1.ResultList{ExitCode: 1, Items: []*porchv1alpha1.Result{
			{Image: "starlark:v0.5", ExitCode: 1, Stderr: hides, Results: []porchv1alpha1.ResultItem{{Message: hides}}},
		}}}
	}
	for _, tc := range []struct {
		args []string
		code int
		want []string
	}{
		{[]string{"diff", draftName}, 1, []string{"+" + shown + "\n"}},
		{[]string{"push", dir}, 1, []string{"[info]: " + shown[:3], "    " + shown + "\n", "error: render revision \"edge.web.v1\": " + shown}},
		{[]string{"tree", draftName}, 0, []string{shown[:3]}},
	} {
		out, errOut, code := s.run(tc.args...)
		if code != tc.code {
			t.Errorf("%s: exit code %d, want %d: %s", tc.args, code, tc.code, errOut)
		}
		if strings.ContainsAny(out+errOut, "\x1b\x08\r\u009b\u202e") {
			t.Errorf("%s steers the terminal: %q", tc.args, out+errOut)
		}
		for _, want := range tc.want {
			if !strings.Contains(out+errOut, want) {
				t.Errorf("%s does not show %q:\n%q", tc.args, want, out+errOut)
			}
		}
	}
	// Output for programs is not escaped.
	if out, _, _ := s.run("diff", draftName, "-o", "json"); !strings.Contains(out, `\u001b[1A`) {
		t.Errorf("%s", out)
	}
}
