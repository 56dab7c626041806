package diff

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
)

func TestUnified(t *testing.T) {
	tests := map[string]struct{ before, after, want string }{
		"equal":            {"a\n", "a\n", ""},
		"from nothing":     {"", "a\nb\n", "@@ -0,0 +1,2 @@\n+a\n+b\n"},
		"to nothing":       {"a\n", "", "@@ -1 +0,0 @@\n-a\n"},
		"one line":         {"a\nb\nc\n", "a\nx\nc\n", "@@ -1,3 +1,3 @@\n a\n-b\n+x\n c\n"},
		"no last newline":  {"a\nb", "a\nc\n", "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+c\n"},
		"newline is added": {"a", "a\n", "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n"},
		"far apart": {
			"1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n", "x\n2\n3\n4\n5\n6\n7\n8\n9\ny\n",
			"@@ -1,4 +1,4 @@\n-1\n+x\n 2\n 3\n 4\n@@ -7,4 +7,4 @@\n 7\n 8\n 9\n-10\n+y\n",
		},
		"near": {
			"1\n2\n3\n4\n5\n6\n7\n8\n", "x\n2\n3\n4\n5\n6\n7\ny\n",
			"@@ -1,8 +1,8 @@\n-1\n+x\n 2\n 3\n 4\n 5\n 6\n 7\n-8\n+y\n",
		},
		"lines move": {"a\nb\nc\n", "b\nc\na\n", "@@ -1,3 +1,3 @@\n-a\n b\n c\n+a\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, unified(test.before, test.after)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// Edits change one text into the other, and are as few as possible.
func TestEditsAreShortest(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	texts := func(size int) []string {
		all := make([]string, random.IntN(size))
		for i := range all {
			all[i] = string(rune('a'+random.IntN(4))) + "\n"
		}
		return all
	}
	for range 2000 {
		before, after := texts(12), texts(12)
		var from, to []string
		changes := 0
		for _, e := range compare(before, after) {
			if e.op != '+' {
				from = append(from, e.line)
			}
			if e.op != '-' {
				to = append(to, e.line)
			}
			if e.op != ' ' {
				changes++
			}
		}
		if strings.Join(from, "") != strings.Join(before, "") || strings.Join(to, "") != strings.Join(after, "") {
			t.Fatalf("%q to %q changes %q to %q", before, after, from, to)
		}
		if want := len(before) + len(after) - 2*common(before, after); changes != want {
			t.Fatalf("%q to %q: %d changes, want %d", before, after, changes, want)
		}
	}
}

// common is the length of a longest common subsequence.
func common(a, b []string) int {
	table := make([][]int, len(a)+1)
	for i := range table {
		table[i] = make([]int, len(b)+1)
		for j := range table[i] {
			switch {
			case i == 0 || j == 0:
			case a[i-1] == b[j-1]:
				table[i][j] = table[i-1][j-1] + 1
			default:
				table[i][j] = max(table[i-1][j], table[i][j-1])
			}
		}
	}
	return table[len(a)][len(b)]
}

// Texts without common lines are shown as a block, at a bounded cost.
func TestLargeTextsThatDiffer(t *testing.T) {
	var before, after strings.Builder
	for i := range 50_000 {
		fmt.Fprintf(&before, "before %d\n", i)
		fmt.Fprintf(&after, "after %d\n", i)
	}
	got := unified(before.String(), after.String())
	if strings.Count(got, "\n-") != 50_000 || strings.Count(got, "\n+") != 50_000 {
		t.Errorf("%d lines", strings.Count(got, "\n"))
	}
}

const deployment = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: web # the front
  namespace: shop
spec:
  replicas: 1
`

const secret = `apiVersion: v1
kind: Secret
metadata:
  name: db # not hunter1
data:
  # it was hunter0
  password: aHVudGVyMg==
  user: cm9vdA==
`

func TestPackages(t *testing.T) {
	web := kpt.Object{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "web"}
	db := kpt.Object{APIVersion: "v1", Kind: "Secret", Name: "db"}
	tests := map[string]struct {
		before, after kpt.Files
		want          []Entry
	}{
		"equal": {before: kpt.Files{"a.yaml": deployment}, after: kpt.Files{"a.yaml": deployment}},
		"a field": {
			before: kpt.Files{"a.yaml": deployment}, after: kpt.Files{"a.yaml": strings.Replace(deployment, "replicas: 1", "replicas: 2", 1)},
			want: []Entry{{Change: Changed, File: "a.yaml", Object: &web, Diff: "@@ -4,4 +4,4 @@\n   name: web # the front\n   namespace: shop\n spec:\n-  replicas: 1\n+  replicas: 2\n"}},
		},
		"one of two objects": {
			before: kpt.Files{"a.yaml": secret + "---\n" + deployment}, after: kpt.Files{"a.yaml": secret + "---\n" + strings.Replace(deployment, "replicas: 1", "replicas: 2", 1)},
			want: []Entry{{Change: Changed, File: "a.yaml", Object: &web, Diff: "@@ -4,4 +4,4 @@\n   name: web # the front\n   namespace: shop\n spec:\n-  replicas: 1\n+  replicas: 2\n"}},
		},
		"an object moves": {
			before: kpt.Files{"a.yaml": deployment}, after: kpt.Files{"b.yaml": deployment},
			want: []Entry{{Change: Moved, File: "b.yaml", FromFile: "a.yaml", Object: &web}},
		},
		"a version changes, and order does not matter": {
			before: kpt.Files{"a.yaml": deployment + "---\n" + "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"},
			after:  kpt.Files{"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n---\n" + strings.Replace(deployment, "apps/v1", "apps/v2", 1)},
			want: []Entry{{
				Change: Changed, File: "a.yaml", Object: &kpt.Object{APIVersion: "apps/v2", Kind: "Deployment", Namespace: "shop", Name: "web"},
				Diff: "@@ -1,4 +1,4 @@\n-apiVersion: apps/v1\n+apiVersion: apps/v2\n kind: Deployment\n metadata:\n   name: web # the front\n",
			}},
		},
		"only the order": {
			before: kpt.Files{"a.yaml": deployment + "---\n" + "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"},
			after:  kpt.Files{"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n---\n" + deployment},
			want:   []Entry{{Change: Changed, File: "a.yaml", Note: "differs in the order of its objects, or in the text between them"}},
		},
		"one of two with the same identity is removed": {
			before: kpt.Files{"a.yaml": deployment, "b.yaml": deployment}, after: kpt.Files{"b.yaml": deployment},
			want: []Entry{{Change: Removed, File: "a.yaml", Object: &web, Diff: "@@ -1,7 +0,0 @@\n-apiVersion: apps/v1\n-kind: Deployment\n-metadata:\n-  name: web # the front\n-  namespace: shop\n-spec:\n-  replicas: 1\n"}},
		},
		"comments of a clone": {
			before: kpt.Files{"a.yaml": deployment, "crlf.yaml": strings.ReplaceAll(deployment, "\n", "\r\n")},
			after: kpt.Files{
				"a.yaml":    strings.Replace(deployment, "metadata:\n", "metadata: # kpt-merge: shop/web\n", 1),
				"crlf.yaml": strings.ReplaceAll(strings.Replace(deployment, "metadata:\n", "metadata: # kpt-merge: shop/web\n", 1), "\n", "\r\n"),
			},
		},
		"the status of a Kptfile": {
			before: kpt.Files{"Kptfile": "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata: {name: web}\nstatus:\n  conditions: [{type: A}]\n# why\n# so\ninfo: {site: a}\n"},
			after:  kpt.Files{"Kptfile": "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata: {name: web} # kpt-merge: /web\n# why\n# so\ninfo: {site: a}\nstatus:\n  conditions: [{type: B}]\n"},
		},
		"the rest of a Kptfile": {
			before: kpt.Files{"Kptfile": "apiVersion: kpt.dev/v1\nkind: Kptfile\nstatus: {}\nmetadata: {name: web}\n"},
			after:  kpt.Files{"Kptfile": "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata: {name: db}\n"},
			want: []Entry{{
				Change: Changed, File: "Kptfile", Object: &kpt.Object{APIVersion: "kpt.dev/v1", Kind: "Kptfile", Name: "db"},
				Diff: "@@ -1,3 +1,3 @@\n apiVersion: kpt.dev/v1\n kind: Kptfile\n-metadata: {name: web}\n+metadata: {name: db}\n",
			}},
		},
		"a text": {
			before: kpt.Files{"README.md": "old\n"}, after: kpt.Files{"README.md": "new\n", "more.txt": "x\n"},
			want: []Entry{{Change: Changed, File: "README.md", Diff: "@@ -1 +1 @@\n-old\n+new\n"}, {Change: Added, File: "more.txt", Diff: "@@ -0,0 +1 @@\n+x\n"}},
		},
		"values are no objects": {
			before: kpt.Files{"values.yaml": "a: 1\n"}, after: kpt.Files{"values.yaml": "a: 2\n"},
			want: []Entry{{Change: Changed, File: "values.yaml", Diff: "@@ -1 +1 @@\n-a: 1\n+a: 2\n"}},
		},
		"invalid YAML": {
			before: kpt.Files{"a.yaml": secret}, after: kpt.Files{"a.yaml": secret + "  more: [hunter3\n"},
			want: []Entry{{Change: Changed, File: "a.yaml", Note: "is not valid YAML; the content is not shown, because it may hold a Secret"}},
		},
		"a Secret is added": {
			after: kpt.Files{"a.yaml": secret},
			want: []Entry{{
				Change: Added, File: "a.yaml", Object: &db, Masked: true,
				Diff: "@@ -0,0 +1,7 @@\n+apiVersion: v1\n+kind: Secret\n+metadata:\n+  name: db\n+data:\n+  password: '***'\n+  user: '***'\n",
			}},
		},
		"a value of a Secret changes, another is added": {
			before: kpt.Files{"a.yaml": secret}, after: kpt.Files{"a.yaml": strings.Replace(secret, "aHVudGVyMg==", "aHVudGVyMw==", 1) + "  more: eA==\n"},
			want: []Entry{{
				Change: Changed, File: "a.yaml", Object: &db, Masked: true,
				Diff: "@@ -3,5 +3,6 @@\n metadata:\n   name: db\n data:\n-  password: '*** (before)'\n+  password: '*** (after)'\n   user: '***'\n+  more: '***'\n",
			}},
		},
		"a comment of a Secret changes": {
			before: kpt.Files{"a.yaml": secret}, after: kpt.Files{"a.yaml": strings.Replace(secret, "hunter0", "hunter9", 1)},
			want: []Entry{{Change: Changed, File: "a.yaml", Object: &db, Masked: true, Note: "differs only in notation or comments, which are not shown for a Secret"}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, Packages(test.before, test.after)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// In any notation of a Secret, its values are not shown, and a difference is.
func TestSecretsAreMasked(t *testing.T) {
	const payload = "aHVudGVyMg"
	tests := map[string]string{
		"stringData":                       "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {password: $P}\n",
		"json":                             `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"data":{"password":"$P"}}` + "\n",
		"block":                            "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData:\n  password: |\n    $P\n    more $P\n",
		"quoted kind":                      "apiVersion: v1\n\"kind\": 'Secret'\nmetadata: {name: s}\ndata: {password: $P}\n",
		"not a mapping":                    "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: $P\n",
		"a list in it":                     "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: [$P, x]\n",
		"nested":                           "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {a: {b: $P}}\n",
		"a List":                           "apiVersion: v1\nkind: List\nmetadata: {name: s}\nitems:\n- apiVersion: v1\n  kind: Secret\n  data: {password: $P}\n",
		"a template":                       "apiVersion: example.com/v1\nkind: Maker\nmetadata: {name: s}\nspec:\n  template: {kind: Secret, stringData: {password: $P}}\n",
		"an anchor":                        "apiVersion: v1\nkind: Secret\nmetadata: {name: s, annotations: {copy: &p $P}}\ndata: {password: *p}\n",
		"an anchor of all":                 "apiVersion: v1\nkind: Secret\nmetadata: {name: s, annotations: {copy: x}}\nkept: &d {password: $P}\ndata: *d\n",
		"merged data":                      "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nkept: &d {password: $P}\ndata: {<<: *d}\n",
		"merged kind":                      "apiVersion: v1\nkind: List\nmetadata: {name: s}\nbase: &b {kind: Secret}\nitems:\n- {<<: *b, data: {password: $P}}\n",
		"merged all":                       "apiVersion: v1\nkind: List\nmetadata: {name: s}\nbase: &b {data: {password: $P}}\nitems:\n- {<<: [*b], kind: Secret}\n",
		"last applied":                     "apiVersion: v1\nkind: Secret\nmetadata: {name: s, annotations: {kubectl.kubernetes.io/last-applied-configuration: '{\"data\":{\"p\":\"$P\"}}'}}\ndata: {a: $P}\n",
		"a sequence":                       "- apiVersion: v1\n  kind: Secret\n  data: {password: $P}\n",
		"beside no object":                 "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {password: $P}\n---\nvalues: 1\n",
		"a directive":                      "%YAML 1.1\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {password: $P}\n",
		"separated by dots":                "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {password: $P}\n...\napiVersion: v1\nkind: Secret\nmetadata: {name: t}\ndata: {password: $P}\n",
		"a tab":                            "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata:\n\tpassword: $P\n",
		"in a comment":                     "# $P\napiVersion: v1\nkind: Secret\nmetadata: {name: s} # $P\n# $P\ndata: {password: x} # $P\n# $P\n",
		"a file without extension of YAML": "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {password: $P}\n",
	}
	for name, content := range tests {
		t.Run(name, func(t *testing.T) {
			file := "a.yaml"
			if name == "a file without extension of YAML" {
				file = "secret.tpl"
			}
			before := kpt.Files{file: strings.ReplaceAll(content, "$P", payload)}
			after := kpt.Files{file: strings.ReplaceAll(content, "$P", payload+"other")}
			for _, entries := range [][]Entry{Packages(before, after), Packages(nil, after), Packages(before, nil)} {
				if len(entries) == 0 {
					t.Error("no difference")
				}
				for _, e := range entries {
					if strings.Contains(fmt.Sprintf("%+v %+v", e, e.Object), payload) {
						t.Errorf("a value is shown: %+v", e)
					}
					if e.Diff == "" && e.Note == "" {
						t.Errorf("no difference is shown for %+v", e)
					}
				}
			}
		})
	}
}

// A difference is found exactly if there is one, and the result is deterministic.
func FuzzPackages(f *testing.F) {
	f.Add(deployment, secret)
	f.Add(secret, strings.Replace(secret, "cm9vdA==", "eA==", 1))
	f.Add("a: &a [*a]\n", "{}")
	f.Add("%YAML 1.1\n---\nkind: Secret\n", "kind: Secret\napiVersion: v1\n<<: {data: {a: b}}\n")
	f.Fuzz(func(t *testing.T, before, after string) {
		x, y := kpt.Files{"a.yaml": before}, kpt.Files{"a.yaml": after}
		got := Packages(x, y)
		if (len(got) == 0) != (withoutMergeComments(before) == withoutMergeComments(after)) {
			t.Errorf("%d entries", len(got))
		}
		if diff := cmp.Diff(got, Packages(x, y)); diff != "" {
			t.Errorf("not deterministic:\n%s", diff)
		}
	})
}
