package merge_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/starlinghq/starling/pkg/core/packages/kpt/merge"
)

func TestAddMergeComments(t *testing.T) {
	cases := map[string]struct{ reason, path, content, want string }{
		"Plain": {
			reason: "everything else stays as it is written", path: "a.yaml",
			content: "# top\n\napiVersion:   v1\nkind: A\nmetadata:   \n  # why\n  name:   x # inner\n\n\nb: 1",
			want:    "# top\n\napiVersion:   v1\nkind: A\nmetadata: # kpt-merge: /x\n  # why\n  name:   x # inner\n\n\nb: 1",
		},
		"Namespace":   {path: "d/a.yml", content: "kind: A\nmetadata:\n  name: x\n  namespace: n\n", want: "kind: A\nmetadata: # kpt-merge: n/x\n  name: x\n  namespace: n\n"},
		"Documents":   {path: "a.yaml", content: "---\nkind: A\nmetadata:\n  name: x\n---\n# none\n---\nkind: A\nmetadata:\n  name: y\n---\n", want: "---\nkind: A\nmetadata: # kpt-merge: /x\n  name: x\n---\n# none\n---\nkind: A\nmetadata: # kpt-merge: /y\n  name: y\n---\n"},
		"Kptfile":     {path: "s/Kptfile", content: kptfile("s"), want: named(kptfile("s"), "s")},
		"Flow":        {path: "a.yaml", content: "kind: A\nmetadata: {name: x}\n", want: "kind: A\nmetadata: {name: x} # kpt-merge: /x\n"},
		"Windows":     {path: "a.yaml", content: "kind: A\r\nmetadata:\r\n  name: x\r\n", want: "kind: A\r\nmetadata: # kpt-merge: /x\r\n  name: x\r\n"},
		"Marked":      {reason: "a renamed object keeps its upstream name", path: "a.yaml", content: named(configMap("mine"), "a"), want: named(configMap("mine"), "a")},
		"Commented":   {path: "a.yaml", content: "kind: A\nmetadata: # mine\n  name: x\n", want: "kind: A\nmetadata: # mine\n  name: x\n"},
		"JSONInYAML":  {path: "a.yaml", content: "{\"kind\": \"A\",\n\"metadata\": {\n\"name\": \"x\"}}", want: "{\"kind\": \"A\",\n\"metadata\": {\n\"name\": \"x\"}}"},
		"Anchored":    {path: "a.yaml", content: "kind: A\nmetadata: &m\n  name: x\nb: *m\n", want: "kind: A\nmetadata: &m\n  name: x\nb: *m\n"},
		"NoName":      {path: "a.yaml", content: "kind: A\nmetadata:\n  labels: {}\n", want: "kind: A\nmetadata:\n  labels: {}\n"},
		"NoKind":      {path: "a.yaml", content: "metadata:\n  name: x\n", want: "metadata:\n  name: x\n"},
		"NumberIsNot": {path: "a.yaml", content: "kind: A\nmetadata: 5\n", want: "kind: A\nmetadata: 5\n"},
		"NoYAML":      {path: "a.yaml", content: "{{ helm }}\nkind: [", want: "{{ helm }}\nkind: ["},
		"OtherFile":   {path: "a.txt", content: configMap("a"), want: configMap("a")},
		"JSON":        {path: "a.json", content: configMap("a"), want: configMap("a")},
	}
	for name, tc := range cases {
		input := files{tc.path: tc.content}
		got := merge.AddMergeComments(input)
		if diff := cmp.Diff(files{tc.path: tc.want}, got); diff != "" {
			t.Errorf("%s: %s (-want +got):\n%s", name, tc.reason, diff)
		}
		if diff := cmp.Diff(got, merge.AddMergeComments(got)); diff != "" {
			t.Errorf("%s: a second call changes it (-want +got):\n%s", name, diff)
		}
		if input[tc.path] != tc.content {
			t.Errorf("%s: the input was changed", name)
		}
	}
	many := files{"a.yaml": configMap("a") + strings.Repeat("---\n", 100_000)}
	if diff := cmp.Diff(many, merge.AddMergeComments(many)); diff != "" {
		t.Errorf("a comment was added to a package that is too large to merge (-want +got):\n%s", diff)
	}
	if got := merge.AddMergeComments(nil); got != nil {
		t.Errorf("nil returns %v", got)
	}
}
