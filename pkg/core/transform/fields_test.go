package transform_test

import (
	"encoding/json"
	"errors"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/transform"
)

func thing(t *testing.T, text string) transform.Object {
	t.Helper()
	var obj map[string]any
	if err := json.Unmarshal([]byte(text), &obj); err != nil {
		t.Fatal(err)
	}
	o, err := transform.Pipeline{}.Apply(objref.Ref{Group: "example.com", Resource: "things", Namespace: "web", Name: "a"}, obj)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func canonical(t *testing.T, text string) string {
	t.Helper()
	raw, err := transform.CanonicalJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestFields(t *testing.T) {
	const (
		head = `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a","namespace":"web"`
		all  = head + `,"annotations":{"starling.io/source-generation":"3/u","x":"y"},"labels":{"app":"x","app.kubernetes.io/name":"x"}},` +
			`"spec":{"a":{"b":1,"c":null,"d":{}},"list":["x"],"objects":[{"name":"x"}],"replicas":5},"one":{"and":{"only":1}}}`
	)
	o := thing(t, all)
	for path, want := range map[string]struct {
		leaves        []string
		without, only string
		err           error
	}{
		".spec.replicas": {
			leaves:  []string{".spec.replicas"},
			without: head + `,"annotations":{"starling.io/source-generation":"3/u","x":"y"},"labels":{"app":"x","app.kubernetes.io/name":"x"}},"spec":{"a":{"b":1,"c":null,"d":{}},"list":["x"],"objects":[{"name":"x"}]},"one":{"and":{"only":1}}}`,
			only:    head + `},"spec":{"replicas":5}}`,
		},
		".metadata.labels": {
			leaves:  []string{".metadata.labels.app", `.metadata.labels["app.kubernetes.io/name"]`},
			without: head + `,"annotations":{"starling.io/source-generation":"3/u","x":"y"}},"spec":{"a":{"b":1,"c":null,"d":{}},"list":["x"],"objects":[{"name":"x"}],"replicas":5},"one":{"and":{"only":1}}}`,
			only:    head + `,"labels":{"app":"x","app.kubernetes.io/name":"x"}}}`,
		},
		".metadata.annotations": {
			leaves:  []string{".metadata.annotations.x"},
			without: head + `,"annotations":{"starling.io/source-generation":"3/u"},"labels":{"app":"x","app.kubernetes.io/name":"x"}},"spec":{"a":{"b":1,"c":null,"d":{}},"list":["x"],"objects":[{"name":"x"}],"replicas":5},"one":{"and":{"only":1}}}`,
			only:    head + `,"annotations":{"x":"y"}}}`,
		},
		".spec.a": {
			leaves:  []string{".spec.a.b", ".spec.a.c"},
			without: head + `,"annotations":{"starling.io/source-generation":"3/u","x":"y"},"labels":{"app":"x","app.kubernetes.io/name":"x"}},"spec":{"list":["x"],"objects":[{"name":"x"}],"replicas":5},"one":{"and":{"only":1}}}`,
			only:    head + `},"spec":{"a":{"b":1,"c":null}}}`,
		},
		".spec.list": {leaves: []string{".spec.list"}, without: head + `,"annotations":{"starling.io/source-generation":"3/u","x":"y"},"labels":{"app":"x","app.kubernetes.io/name":"x"}},"spec":{"a":{"b":1,"c":null,"d":{}},"objects":[{"name":"x"}],"replicas":5},"one":{"and":{"only":1}}}`, only: head + `},"spec":{"list":["x"]}}`},
		".one.and.only": {
			leaves:  []string{".one.and.only"},
			without: head + `,"annotations":{"starling.io/source-generation":"3/u","x":"y"},"labels":{"app":"x","app.kubernetes.io/name":"x"}},"spec":{"a":{"b":1,"c":null,"d":{}},"list":["x"],"objects":[{"name":"x"}],"replicas":5}}`,
			only:    head + `},"one":{"and":{"only":1}}}`,
		},
		".spec.none":    {without: string(o.JSON), only: head + `}}`},
		".none.x":       {without: string(o.JSON), only: head + `}}`},
		".spec.objects": {err: transform.ErrList},
	} {
		leaves, err := o.Leaves([]string{path})
		if !errors.Is(err, want.err) {
			t.Errorf("Leaves(%s): error %v, want %v", path, err, want.err)
		}
		if want.err != nil {
			continue
		}
		if diff := cmp.Diff(want.leaves, leaves); diff != "" {
			t.Errorf("Leaves(%s) (-want +got):\n%s", path, diff)
		}
		without, err := o.Without([]string{path})
		if err != nil || string(without.JSON) != canonical(t, want.without) {
			t.Errorf("Without(%s) = %s, %v, want %s", path, without.JSON, err, want.without)
		}
		only, err := o.Only(leaves...)
		if err != nil || string(only.JSON) != canonical(t, want.only) {
			t.Errorf("Only(%v) = %s, %v, want %s", leaves, only.JSON, err, want.only)
		}
		for _, leaf := range leaves {
			if !transform.Covers(path, leaf) {
				t.Errorf("%s does not cover %s", path, leaf)
			}
		}
	}
	if transform.Covers(".spec.a", ".spec.ab") {
		t.Error(".spec.a covers .spec.ab")
	}
}

// paths matches those that can be ignored.
var paths = regexp.MustCompile(`^(\.[A-Za-z_$][A-Za-z0-9_$-]*){2,}$`)

// FuzzFields checks that the object without its leaves has none of them, and nothing else less.
func FuzzFields(f *testing.F) {
	f.Add(`{"a":{"b":1,"c.d":[1]},"e":{}}`, ".spec.a")
	f.Fuzz(func(t *testing.T, spec, path string) {
		var fields map[string]any
		if json.Unmarshal([]byte(spec), &fields) != nil || !paths.MatchString(path) {
			return
		}
		raw, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Thing", "metadata": map[string]any{"name": "a"}, "spec": fields})
		if err != nil {
			return
		}
		o := thing(t, string(raw))
		leaves, err := o.Leaves([]string{path})
		if err != nil {
			return
		}
		rest, err := o.Without([]string{path})
		if err != nil {
			t.Fatal(err)
		}
		if left, err := rest.Leaves([]string{path}); err != nil || len(left) > 0 {
			t.Errorf("%s without %s still has %v, %v", o.JSON, path, left, err)
		}
		for _, leaf := range leaves {
			only, err := o.Only(leaf)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := only.Leaves([]string{path}); err != nil || !cmp.Equal(got, []string{leaf}) {
				t.Errorf("only %s of %s has %v, %v", leaf, o.JSON, got, err)
			}
		}
	})
}
