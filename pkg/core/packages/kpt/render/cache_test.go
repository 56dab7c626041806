package render

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

func TestCopyOf(t *testing.T) {
	const text = "# head\na: 1 # line\nb:\n- c: d\n- []\n# foot\n"
	var node yaml.Node
	if err := yaml.Unmarshal([]byte(text), &node); err != nil {
		t.Fatal(err)
	}
	written := func(n *yaml.Node) string {
		out, err := yaml.NewRNode(n).String()
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	before := written(&node)
	twin := copyOf(&node)
	if diff := cmp.Diff(before, written(twin)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	root := twin.Content[0]
	for _, list := range []*yaml.Node{root, root.Content[3], root.Content[3].Content[1]} {
		list.Content = append(list.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: "x"}, &yaml.Node{Kind: yaml.ScalarNode, Value: "y"})
	}
	root.Content[1].Value = "2"
	if diff := cmp.Diff(before, written(&node)); diff != "" {
		t.Errorf("a change of the copy changes what it is of (-want +got):\n%s", diff)
	}
	if got := written(twin); strings.Count(got, "x") != 3 || strings.Count(got, "d") < 1 {
		t.Errorf("changes of lists meet each other:\n%s", got)
	}
}

func TestGenerations(t *testing.T) {
	var g generations[string, int]
	for i := range 100 {
		g.put(fmt.Sprint(i), i, cacheSize/20)
		if v, ok := g.get("0"); !ok || v != 0 {
			t.Fatalf("what is used is forgotten after %d", i)
		}
	}
	if _, ok := g.get("1"); ok || len(g.young)+len(g.old) > 25 {
		t.Errorf("%d are remembered", len(g.young)+len(g.old))
	}
	g.put("large", 1, cacheSize)
	if _, ok := g.get("large"); ok {
		t.Error("one that takes all is remembered")
	}
}
