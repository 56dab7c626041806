package folder

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
)

func resources(files kpt.Files) *porchv1alpha1.PackageRevisionResources {
	return &porchv1alpha1.PackageRevisionResources{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "edge.web.v1", UID: "u", ResourceVersion: "12"},
		Spec:       porchv1alpha1.PackageRevisionResourcesSpec{RepositoryName: "edge", PackageName: "web", WorkspaceName: "v1", Resources: files},
	}
}

func TestMetadata(t *testing.T) {
	const want = `apiVersion: porch.kpt.dev/v1alpha1
kind: KptRevisionMetadata
metadata:
  name: edge.web.v1
  namespace: default
  resourceVersion: "12"
  uid: u
spec:
  repository: edge
  packageName: web
  workspaceName: v1
  files:
    Kptfile: sha256:2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881
`
	m := NewMetadata(resources(kpt.Files{"Kptfile": "x"}))
	if diff := cmp.Diff(want, m.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	back, err := ParseMetadata(want)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(m, back); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestParseMetadata(t *testing.T) {
	tests := map[string]struct {
		content, wantErr string
		want             Metadata
	}{
		"Porch's": {
			content: "apiVersion: porch.kpt.dev/v1alpha1\nkind: KptRevisionMetadata\nmetadata:\n  name: a.b.c\n  namespace: ns\n  creationTimestamp: null\n  resourceVersion: \"999\"\n",
			want:    Metadata{Namespace: "ns", Name: "a.b.c", ResourceVersion: "999"},
		},
		"empty":                 {content: "", wantErr: "must have one document, has 0"},
		"another kind":          {content: "kind: Kptfile\n", wantErr: `kind must be KptRevisionMetadata, is "Kptfile"`},
		"no name":               {content: "kind: KptRevisionMetadata\n", wantErr: "metadata.name is required"},
		"no version":            {content: "kind: KptRevisionMetadata\nmetadata: {name: a}\n", wantErr: "metadata.resourceVersion is required"},
		"a list as name":        {content: "kind: KptRevisionMetadata\nmetadata: {name: [a]}\n", wantErr: "cannot unmarshal"},
		"no YAML":               {content: "{", wantErr: "line 1: did not find"},
		"two":                   {content: "a: b\n---\na: b\n", wantErr: "must have one document, has 2"},
		"a scalar":              {content: "a\n", wantErr: "is not an object"},
		"an alias for too much": {content: "a: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e,*e,*e,*e,*e]\n", wantErr: "aliases expanded"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := ParseMetadata(test.content)
			if (test.wantErr == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), test.wantErr) {
				t.Fatalf("error %v, want %q", err, test.wantErr)
			}
			if diff := cmp.Diff(test.want, got); err == nil && diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestSamePackage(t *testing.T) {
	web := Metadata{Namespace: "a", Name: "edge.web.v1", Repository: "edge", Package: "web"}
	tests := map[string]struct {
		other Metadata
		want  bool
	}{
		"itself":            {web, true},
		"another revision":  {Metadata{Namespace: "a", Name: "edge.web.v2", Repository: "edge", Package: "web"}, true},
		"another namespace": {Metadata{Namespace: "b", Name: "edge.web.v1", Repository: "edge", Package: "web"}, false},
		"another package":   {Metadata{Namespace: "a", Name: "edge.db.v1", Repository: "edge", Package: "db"}, false},
		"pulled by Porch":   {Metadata{Namespace: "a", Name: "edge.web.v1"}, true},
		"another by Porch":  {Metadata{Namespace: "a", Name: "edge.web.v2"}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := web.SamePackage(test.other); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func TestNewPlan(t *testing.T) {
	base := kpt.Files{"both": "0", "here": "0", "there": "0", "gone here": "0", "gone there": "0", "gone": "0", "same": "0", "agreed": "0", "gone here, new there": "0"}
	local := kpt.Files{"both": "1", "here": "1", "there": "0", "gone there": "0", "same": "0", "agreed": "1", "new here": "1", "new": "1", "new alike": "1"}
	server := kpt.Files{"both": "2", "here": "0", "there": "2", "gone here": "0", "same": "0", "agreed": "1", "new there": "2", "new": "2", "new alike": "1", "gone here, new there": "2"}
	want := Plan{
		Write:     []string{"new there", "there"},
		Remove:    []string{"gone there"},
		Keep:      []string{"gone here", "here", "new here"},
		Conflicts: []string{"both", "gone here, new there", "new"},
	}
	if diff := cmp.Diff(want, NewPlan(NewMetadata(resources(base)), local, server)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	// Of a folder that another program pulled, nothing is known of what was touched.
	want = Plan{Conflicts: []string{"there"}}
	if diff := cmp.Diff(want, NewPlan(Metadata{}, kpt.Files{"there": "0", "same": "x"}, kpt.Files{"there": "1", "same": "x"})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestPulled(t *testing.T) {
	m := NewMetadata(resources(kpt.Files{"a": "1", "b": "2"}))
	tests := map[string]struct {
		files kpt.Files
		want  bool
	}{
		"the same": {kpt.Files{"a": "1", "b": "2"}, true},
		"changed":  {kpt.Files{"a": "1", "b": "3"}, false},
		"renamed":  {kpt.Files{"a": "1", "c": "2"}, false},
		"fewer":    {kpt.Files{"a": "1"}, false},
		"more":     {kpt.Files{"a": "1", "b": "2", "c": ""}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := m.Pulled(test.files); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
	if (Metadata{}).Pulled(nil) {
		t.Error("files are taken to be those that were pulled though nothing is known of those")
	}
}

// After a plan is carried out, only the retained files differ from the server.
func FuzzPlan(f *testing.F) {
	f.Add("abc", "abd", "xbc")
	f.Fuzz(func(t *testing.T, base, here, there string) {
		files := func(text string) kpt.Files {
			all := kpt.Files{}
			for i, r := range text {
				if r != '-' {
					all[string(rune('a'+i%26))] = string(r)
				}
			}
			return all
		}
		local, server := files(here), files(there)
		p := NewPlan(NewMetadata(resources(files(base))), local, server)
		for _, name := range p.Write {
			local[name] = server[name]
		}
		for _, name := range p.Remove {
			delete(local, name)
		}
		again := NewPlan(NewMetadata(resources(server)), local, server)
		kept := append(append([]string{}, p.Keep...), p.Conflicts...)
		if len(again.Write)+len(again.Remove)+len(again.Conflicts) > 0 || len(again.Keep) != len(kept) {
			t.Errorf("base %q, folder %q, server %q: %+v, then %+v", base, here, there, p, again)
		}
	})
}
