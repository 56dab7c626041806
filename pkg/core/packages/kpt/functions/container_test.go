package functions_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/starlinghq/starling/pkg/core/packages/kpt/functions"
)

// TestRunContainer: a program gets a ResourceList, and what it returns replaces the objects. It may
// write YAML in another style.
func TestRunContainer(t *testing.T) {
	const in = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a # ours\ndata: {x: \"1\"}\n---\napiVersion: v1\nkind: Secret\nmetadata:\n  name: s\nstringData:\n  password: hush\n"
	const seen = `apiVersion: config.kubernetes.io/v1
kind: ResourceList
functionConfig:
  apiVersion: v1
  kind: ConfigMap
  data: {to: "2"}
items:
- apiVersion: v1
  kind: ConfigMap
  metadata:
    name: a # ours
    annotations:
      internal.config.kubernetes.io/index: "0"
      internal.config.kubernetes.io/path: f.yaml
      config.kubernetes.io/index: "0"
      config.kubernetes.io/path: f.yaml
  data: {x: "1"}
- apiVersion: v1
  kind: Secret
  metadata:
    name: s
    annotations:
      internal.config.kubernetes.io/index: "1"
      internal.config.kubernetes.io/path: f.yaml
      config.kubernetes.io/index: "1"
      config.kubernetes.io/path: f.yaml
  stringData:
    password: hush
`
	list := func(items string) string { return "apiVersion: config.kubernetes.io/v1\nkind: ResourceList\n" + items }
	at := func(index string) string {
		return "annotations: {internal.config.kubernetes.io/path: f.yaml, internal.config.kubernetes.io/index: '" + index + "'}"
	}
	first, _, _ := strings.Cut(in, "---\n")
	for name, tc := range map[string]struct {
		answer  functions.Container
		err     error
		want    string
		results []string
		stderr  string
		wantErr string
	}{
		"Same": {answer: functions.Container{Stdout: seen}, want: in},
		"Changed": {
			answer: functions.Container{Stdout: list("items:\n- {kind: ConfigMap, apiVersion: v1, data: {x: '2'}, metadata: {name: a, " + at("0") + "}}\n"), Stderr: "to hush"},
			want:   strings.Replace(first, `"1"`, "'2'", 1), stderr: "to ***",
		},
		"New": {
			answer: functions.Container{Stdout: strings.Replace(seen, "items:\n", "items:\n- {apiVersion: v1, kind: Pod, metadata: {name: new, "+at("7")+"}}\n", 1)},
			want:   "{apiVersion: v1, kind: Pod, metadata: {name: new}}\n---\n" + in,
		},
		"Twice": {
			answer: functions.Container{Stdout: list("items:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: a, " + at("0") + "}}\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: b, " + at("0") + "}}\n")},
			want:   strings.Replace(first, "data: {x: \"1\"}\n", "", 1) + "---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}\n",
		},
		"Empty": {answer: functions.Container{Stdout: list("items: []\n")}, want: ""},
		"Results": {
			answer:  functions.Container{Stdout: seen + "results:\n- {severity: warning, message: is hush, resourceRef: {kind: Secret, name: s}, field: {path: a.b}, file: {path: f.yaml, index: 1}}\n"},
			want:    in,
			results: []string{"warning: is ***"},
		},
		"Failed": {
			answer:  functions.Container{Stdout: list("results: [{severity: error, message: no}]\n"), ExitCode: 3, Stderr: "bad"},
			results: []string{"error: no"}, stderr: "bad", wantErr: "exit code 3",
		},
		"FailedWithoutOutput": {answer: functions.Container{ExitCode: 1, Stderr: "panic"}, stderr: "panic", wantErr: "exit code 1"},
		"NoYAML":              {answer: functions.Container{Stdout: "hush: ["}, wantErr: "the output is not valid YAML"},
		"NoList":              {answer: functions.Container{Stdout: first}, wantErr: "the output is not a ResourceList"},
		"Nothing":             {wantErr: "the output is not valid YAML"},
		"NoObject":            {answer: functions.Container{Stdout: list("items: [{kind: hush}]\n")}, wantErr: "items[0] of the output is not an object"},
		"BadResults":          {answer: functions.Container{Stdout: list("results: {hush: 1}\n")}, wantErr: "the results in the output are invalid"},
		"Away":                {err: errors.New("connection refused"), wantErr: "connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := functions.RunContainer("example.com/f:v1", functions.Input{Items: items(t, "f.yaml", in), Config: config("apiVersion: v1\nkind: ConfigMap\ndata: {to: \"2\"}\n")},
				func(got string) (functions.Container, error) {
					if diff := cmp.Diff(seen, got); diff != "" {
						t.Errorf("the input (-want +got):\n%s", diff)
					}
					return tc.answer, tc.err
				})
			if tc.wantErr != "" {
				if err == nil || !strings.HasPrefix(err.Error(), tc.wantErr) || strings.Contains(err.Error(), "hush") {
					t.Errorf("error %v, want %s", err, tc.wantErr)
				}
			} else if err != nil {
				t.Fatal(err)
			} else if diff := cmp.Diff(tc.want, write(t, out.Items)); diff != "" {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
			var results []string
			for _, r := range out.Results {
				results = append(results, r.Severity+": "+r.Message)
			}
			if diff := cmp.Diff(tc.results, results); diff != "" || out.Stderr != tc.stderr && err == nil {
				t.Errorf("stderr %q, results (-want +got):\n%s", out.Stderr, diff)
			}
		})
	}
}
