package workload_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/workload"
)

var errAway = errors.New("not now")

func kinds(kind schema.GroupVersionKind) (workload.Resource, bool, error) {
	switch kind.Kind {
	case "ConfigMap":
		return workload.Resource{Name: "configmaps", Namespaced: true}, true, nil
	case "Namespace":
		return workload.Resource{Name: "namespaces"}, true, nil
	case "Lease":
		return workload.Resource{Name: "leases", Namespaced: true}, true, nil
	case "Away":
		return workload.Resource{}, false, errAway
	}
	return workload.Resource{}, false, nil
}

const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: %s}\n"

func TestRead(t *testing.T) {
	for name, tc := range map[string]struct {
		files      kpt.Files
		want       []string // ref @ file
		problems   []string
		unsure     []string
		incomplete bool
		wantErr    error
	}{
		"NotForClusters": {
			files: kpt.Files{
				"Kptfile":               "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata: {name: x}\n",
				"sub/Kptfile":           "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata: {name: y}\n",
				"package-context.yaml":  fmt.Sprintf(configMap, "kptfile.kpt.dev", "x"),
				"README.md":             "no: object",
				"resourcegroup.yaml":    "apiVersion: kpt.dev/v1alpha1\nkind: ResourceGroup\nmetadata: {name: x, namespace: y}\n",
				"local.yaml":            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, annotations: {config.kubernetes.io/local-config: 'true'}}\n",
				"local-without-id.yaml": "apiVersion: v1\nkind: Anything\nmetadata: {annotations: {config.kubernetes.io/local-config: true}}\n",
				"kustomization.yaml":    "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [a.yaml]\n",
				"values.yaml":           "replicaCount: 2\n---\nimage: {tag: x}\n",
				"package.json":          `{"name": "x"}`,
				"patch.yaml":            "- {op: add, path: /spec/replicas, value: 3}\n",
				".krmignore":            "extras/\n",
				"extras/template.yaml":  "name: {{ .Release.Name }}\n{{- a }}\n",
				"extras/example.yaml":   fmt.Sprintf(configMap, "example", "x"),
				"not-local.yaml":        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b, annotations: {config.kubernetes.io/local-config: 'false'}}\n",
			},
			want: []string{"configmaps default/b @ not-local.yaml"},
		},
		"Namespaces": {
			files: kpt.Files{
				"a.yaml": "# only a comment\n---\n" + fmt.Sprintf(configMap, "a", "web") + "---\n" + fmt.Sprintf(configMap, "b", `""`),
				"b.json": `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "web", "namespace": "odd"}}`,
			},
			want: []string{"configmaps web/a @ a.yaml", "configmaps default/b @ a.yaml", "namespaces web @ b.json"},
		},
		"List": {
			files: kpt.Files{"a.yaml": "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n- {apiVersion: v1, kind: Namespace, metadata: {name: b}}\n"},
			want:  []string{"configmaps default/a @ a.yaml", "namespaces b @ a.yaml"},
		},
		"ListsOfOneKind": {
			files: kpt.Files{"a.yaml": "apiVersion: v1\nkind: ConfigMapList\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n- {metadata: {name: b}}\n", "b.json": `{"apiVersion": "v1", "kind": "NamespaceList"}`},
			// The second has no items, so it is not known to be a list.
			want:       []string{"configmaps default/a @ a.yaml", "configmaps default/b @ a.yaml"},
			problems:   []string{"b.json: NamespaceList: has no metadata"},
			incomplete: true,
		},
		"ListsInLists": {
			files: kpt.Files{"a.yaml": "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: List\n  items:\n  - {apiVersion: v1, kind: Namespace, metadata: {name: a}}\n- {apiVersion: v1, kind: NamespaceList, items: [{metadata: {name: b}}]}\n- {apiVersion: v1, kind: List}\n"},
			want:  []string{"namespaces a @ a.yaml", "namespaces b @ a.yaml"},
		},
		"KindThatEndsInList": {
			files: kpt.Files{"a.yaml": "apiVersion: example.com/v1\nkind: AllowList\nmetadata: {name: a}\nspec: {items: []}\n"},
			want:  []string{"allowlists.example.com a @ a.yaml"},
		},
		"FlowMapping": {
			files: kpt.Files{"a.yaml": "{apiVersion: v1, kind: Namespace, metadata: {name: a}}\n---\n{\"apiVersion\": \"v1\", \"kind\": \"Namespace\", \"metadata\": {\"name\": \"b\"}}\n"},
			want:  []string{"namespaces a @ a.yaml", "namespaces b @ a.yaml"},
		},
		"NoFlowMapping": {
			files:      kpt.Files{"a.yaml": "{apiVersion: v1, kind: Namespace\n"},
			problems:   []string{"a.yaml: document 1: is not valid YAML: line 1: did not find expected ',' or '}'"},
			incomplete: true,
		},
		"KindsOfItsOwn": {
			files: kpt.Files{
				"a.yaml": "apiVersion: example.com/v1\nkind: Fish\nmetadata: {name: cod}\n",
				"b.yaml": "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: fish.example.com}\n" +
					"spec: {group: example.com, scope: Namespaced, names: {kind: Fish, plural: fish}}\n",
			},
			want: []string{"fish.example.com default/cod @ a.yaml", "customresourcedefinitions.apiextensions.k8s.io fish.example.com @ b.yaml"},
		},
		"KindsOfNobody": {
			files: kpt.Files{"a.yaml": "apiVersion: example.com/v1\nkind: Policy\nmetadata: {name: a}\n---\napiVersion: example.com/v1\nkind: Policy\nmetadata: {name: a, namespace: b}\n"},
			want:  []string{"policies.example.com a @ a.yaml", "policies.example.com b/a @ a.yaml"},
		},
		"PluralAfterAVowel": {
			files: kpt.Files{"a.yaml": "apiVersion: example.com/v1\nkind: Gateway\nmetadata: {name: a}\n"},
			want:  []string{"gateways.example.com a @ a.yaml"},
		},
		"NotFoundOut": {
			files:   kpt.Files{"a.yaml": "apiVersion: example.com/v1\nkind: Away\nmetadata: {name: a}\n"},
			wantErr: errAway,
		},
		"NoYAML": {
			files:      kpt.Files{"a.yaml": "a: [\n", "b.yaml": fmt.Sprintf(configMap, "b", "web")},
			want:       []string{"configmaps web/b @ b.yaml"},
			problems:   []string{"a.yaml: document 1: is not valid YAML: line 1: did not find expected node content"},
			incomplete: true,
		},
		"ObjectsAndOthers": {
			files:      kpt.Files{"a.yaml": fmt.Sprintf(configMap, "a", "web") + "---\n- a\n"},
			want:       []string{"configmaps web/a @ a.yaml"},
			problems:   []string{"a.yaml: has documents that are objects, and others that are not"},
			incomplete: true,
		},
		"HalfAnObject": {files: kpt.Files{"a.yaml": "apiVersion: v1\nmetadata: {name: a}\n"}, problems: []string{"a.yaml: document 1 is not an object: it has only one of apiVersion and kind"}, incomplete: true},
		"ItemOfNoKind": {files: kpt.Files{"a.yaml": "apiVersion: v1\nkind: List\nitems: [{metadata: {name: a}}]\n"}, problems: []string{"a.yaml: a: has no apiVersion and kind"}, incomplete: true},
		"NoName":       {files: kpt.Files{"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: a}\n"}, problems: []string{"a.yaml: ConfigMap: has no metadata.name"}, incomplete: true},
		"NameIsNumber": {files: kpt.Files{"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: 1}\n"}, problems: []string{"a.yaml: ConfigMap: metadata.name must be a string"}, incomplete: true},
		"NameIsPath":   {files: kpt.Files{"a.yaml": fmt.Sprintf(configMap, "../x", "web")}, problems: []string{`a.yaml: ConfigMap web/../x: metadata.name "../x" may not contain`}, incomplete: true},
		"BadNamespace": {files: kpt.Files{"a.yaml": fmt.Sprintf(configMap, "x", "Web")}, problems: []string{`a.yaml: ConfigMap Web/x: metadata.namespace "Web"`}, incomplete: true},
		"Twice": {
			files: kpt.Files{
				"a.yaml": fmt.Sprintf(configMap, "a", "default"), "b.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
				"c.yaml": fmt.Sprintf(configMap, "c", "default"), "d.yaml": fmt.Sprintf(configMap, "a", "default"),
			},
			want:     []string{"configmaps default/c @ c.yaml"},
			problems: []string{"b.yaml: ConfigMap a: is also in a.yaml", "d.yaml: ConfigMap default/a: is also in other files"},
			unsure:   []string{"configmaps default/a"},
		},
		"Never": {
			files:    kpt.Files{"a.yaml": "apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {name: a}\n"},
			problems: []string{"a.yaml: Lease a: leases.coordination.k8s.io are never delivered to clusters"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, err := workload.Read(tc.files, kinds)
			if !errors.Is(err, tc.wantErr) {
				t.Fatalf("error %v, want %v", err, tc.wantErr)
			}
			if tc.wantErr != nil {
				if !strings.Contains(err.Error(), "a.yaml: Away a") {
					t.Errorf("error %v names neither file nor object", err)
				}
				return
			}
			var got, unsure []string
			for _, o := range w.Objects {
				got = append(got, o.Ref.String()+" @ "+o.File)
				metadata := o.Content["metadata"].(map[string]any)
				if namespace, _ := metadata["namespace"].(string); namespace != o.Ref.Namespace {
					t.Errorf("%s: the content says namespace %q", o.Ref, namespace)
				}
			}
			for _, ref := range w.Unsure {
				unsure = append(unsure, ref.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.unsure, unsure); diff != "" {
				t.Errorf("unsure (-want +got):\n%s", diff)
			}
			problems := slices.Concat(w.Problems, w.Refused)
			if len(problems) != len(tc.problems) || w.Incomplete != tc.incomplete {
				t.Fatalf("problems %q, incomplete %t", problems, w.Incomplete)
			}
			for i, problem := range tc.problems {
				if !strings.HasPrefix(problems[i], problem) {
					t.Errorf("problem %q, want one that begins with %q", problems[i], problem)
				}
			}
		})
	}
}

// TestSecretsAreNotQuoted: errors in a file never quote its content.
func TestSecretsAreNotQuoted(t *testing.T) {
	for _, text := range []string{
		"apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData: {password: hunter2\n", "password: &hunter2 [*hunter2]\n",
		"apiVersion: v1\nkind: Secret\nmetadata: {name: a}\n---\nhunter2\n", "apiVersion: hunter2\n", "apiVersion: v1\nkind: SecretList\nitems: hunter2\n",
		"apiVersion: v1\nkind: Secret\nmetadata: hunter2\nstringData: {}\n", "{\"apiVersion\": \"v1\", \"password\": \"hunter2\", }}\n",
		"apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData: {? [hunter2] : x}\n",
	} {
		w, err := workload.Read(kpt.Files{"a.yaml": text}, kinds)
		if err != nil || len(w.Problems) != 1 || !w.Incomplete {
			t.Errorf("%q: %v, %+v", text, err, w)
			continue
		}
		if strings.Contains(w.Problems[0], "hunter2") {
			t.Errorf("%q: the problem quotes it: %s", text, w.Problems[0])
		}
	}
}

func BenchmarkRead(b *testing.B) {
	for _, n := range []int{10, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			files := kpt.Files{}
			for i := range n {
				files[fmt.Sprintf("%d.yaml", i)] = fmt.Sprintf(configMap, fmt.Sprintf("a%d", i), "web") + "data: {a: \"" + strings.Repeat("x", 4000) + "\"}\n"
			}
			for b.Loop() {
				if _, err := workload.Read(files, kinds); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestRefused: objects that are never delivered are counted, each once; others that cannot be
// delivered are Unsure, or the package is Incomplete.
func TestRefused(t *testing.T) {
	lease := func(name string) string {
		return "apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {name: " + name + ", namespace: apps}\n"
	}
	cm := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: apps}\n"
	w, err := workload.Read(kpt.Files{"a.yaml": lease("a") + "---\n" + lease("b"), "b.yaml": cm + "---\n" + cm + "---\n" + cm}, kinds)
	if err != nil || len(w.Refused) != 2 || len(w.Unsure) != 1 || w.Incomplete {
		t.Errorf("%+v, %v", w, err)
	}
}

// TestNoKindsKnown: without an API server, the scope of what is built into Kubernetes is known.
func TestNoKindsKnown(t *testing.T) {
	files := kpt.Files{"a.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n" +
		"---\napiVersion: v1\nkind: Namespace\nmetadata: {name: web, namespace: apps}\n" +
		"---\napiVersion: example.com/v1\nkind: Gateway\nmetadata: {name: a}\n---\napiVersion: example.com/v1\nkind: Gateway\nmetadata: {name: b, namespace: apps}\n"}
	w, err := workload.Read(files, nil)
	if err != nil || len(w.Problems) > 0 {
		t.Fatalf("%v %v", err, w.Problems)
	}
	var refs []string
	for _, o := range w.Objects {
		refs = append(refs, o.Ref.String())
	}
	if diff := cmp.Diff([]string{"deployments.apps default/web", "namespaces web", "gateways.example.com a", "gateways.example.com apps/b"}, refs); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
}
