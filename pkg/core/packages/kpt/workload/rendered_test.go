package workload_test

import (
	"fmt"
	"math/rand"
	"path"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/functions"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/render"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/workload"
)

// TestDeliveredIsWhatWasRendered: the objects of a package that are delivered are those that its
// functions see, without those for tools. What the renderer leaves alone stops no delivery.
// Packages of random files, also of those that are no objects, ignored, or invalid.
func TestDeliveredIsWhatWasRendered(t *testing.T) {
	t.Parallel()
	object := func(name string) string { return fmt.Sprintf(configMap, name, "web") }
	documents := []func(name string) string{
		object, object, object,
		func(string) string { return "replicaCount: 2\n" },
		func(string) string { return "- {op: add, path: /a, value: b}\n" },
		func(string) string { return "# nothing\n" },
		func(string) string { return "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n" },
		func(name string) string { return object(name) + "data: {a: b}\n" },
		func(name string) string {
			return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + ", annotations: {config.kubernetes.io/local-config: 'true'}}\n"
		},
		func(string) string { return "name: {{ .Release.Name }}\n{{- with }}\n" },
		func(string) string { return "apiVersion: v2\n" },
	}
	ignores := []string{"", "", "extras/\n", "b.yaml\n", "/b.yaml\n!extras/b.yaml\n", "*.json\n", "sub\n"}
	names := []string{"a.yaml", "b.yaml", "c.json", "README.md", "extras/a.yaml", "extras/b.yaml", "sub/a.yaml", "sub/extras/a.yaml"}
	const kptfile = "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata: {name: web}\n"
	rendered := 0
	for seed := range int64(2000) {
		random := rand.New(rand.NewSource(seed))
		files := kpt.Files{"Kptfile": kptfile + "pipeline: {validators: [{image: look}]}\n"}
		if random.Intn(2) == 0 {
			files["sub/Kptfile"] = kptfile
			files["sub/.krmignore"] = ignores[random.Intn(len(ignores))]
		}
		files[".krmignore"] = ignores[random.Intn(len(ignores))]
		for i, name := range names {
			if random.Intn(3) == 0 {
				continue
			}
			content := documents[random.Intn(len(documents))](fmt.Sprint("n", i))
			if random.Intn(3) == 0 {
				content += "---\n" + documents[random.Intn(len(documents))](fmt.Sprint("m", i))
			}
			files[name] = content
		}
		var want []string
		_, err := render.Render(files, func(_ string, in functions.Input) (functions.Output, error) {
			for _, item := range in.Items {
				if !item.Local() && path.Base(item.Path) != kpt.KptfileName {
					want = append(want, item.Path+": "+item.Name())
				}
			}
			return functions.Output{Items: in.Items}, nil
		})
		if err != nil {
			continue // it is refused, and never published
		}
		rendered++
		read, err := workload.Read(files, kinds)
		if err != nil || len(read.Problems) > 0 || read.Incomplete {
			t.Fatalf("seed %d: %v, %q\n%q", seed, err, read.Problems, files)
		}
		var got []string
		for _, o := range read.Objects {
			got = append(got, o.File+": "+o.Ref.Name)
		}
		slices.Sort(want)
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("seed %d (-rendered +delivered):\n%s\n%q", seed, diff, files)
		}
	}
	if rendered < 200 {
		t.Errorf("only %d packages were rendered", rendered)
	}
}
