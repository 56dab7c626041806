package merge_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/kustomize/kyaml/yaml"
	"sigs.k8s.io/kustomize/kyaml/yaml/merge3"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/merge"
)

// generator generates packages and edits of them, at random.
type generator struct{ *rand.Rand }

func (w generator) oneOf(of ...string) string { return of[w.IntN(len(of))] }

// newPackage returns a package: some objects in some files, some text, and a subpackage.
func (w generator) newPackage() files {
	f := files{"Kptfile": kptfile("base", "info: {site: "+w.oneOf("a", "b")+"}")}
	for i := range 1 + w.IntN(6) {
		w.add(f, w.oneOf("a.yaml", "b.yaml", "d/a.yaml", "s/a.yaml"), w.object(fmt.Sprint("o", i)))
	}
	if w.IntN(2) == 0 {
		f["s/Kptfile"] = kptfile("s")
	}
	f[w.oneOf("README.md", "s/README.md")] = w.oneOf("x", "y")
	return f
}

func (w generator) add(f files, path, object string) {
	if f[path] != "" {
		object = "---\n" + object
	}
	f[path] += object
}

func (w generator) object(name string) string {
	if w.IntN(3) == 0 {
		text := "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: " + name + w.oneOf("", " # why") + "\nspec:\n  template:\n    spec:\n      containers:\n"
		for i := range 1 + w.IntN(3) {
			text += fmt.Sprintf("      - name: c%d\n        image: %s\n", i, w.oneOf("a:1", "b:1"))
		}
		return text
	}
	text := "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: " + name + "\n" + w.oneOf("", "\n# of the data\n") + "data:\n"
	for i := range 1 + w.IntN(4) {
		text += fmt.Sprintf("  k%d: %s\n", i, w.oneOf("a", "b", "c # why", "\"1\"", "|\n    x\n    y"))
	}
	return text
}

// edit returns a package with random changes.
func (w generator) edit(f files) files {
	f = maps.Clone(f)
	for range 1 + w.IntN(4) {
		names := f.Paths()
		if len(names) == 0 {
			break
		}
		name := names[w.IntN(len(names))]
		documents := strings.Split(f[name], "---\n")
		at := w.IntN(len(documents))
		switch w.IntN(9) {
		case 0:
			w.add(f, w.oneOf("a.yaml", "new.yaml"), w.object(fmt.Sprint("n", w.IntN(1000))))
		case 1:
			if name != "Kptfile" {
				delete(f, name)
			}
		case 2:
			f[name] = strings.ReplaceAll(f[name], "image: a:1", "image: "+w.oneOf("a:2", "a:3"))
		case 3:
			f[name] = strings.ReplaceAll(f[name], ": a\n", w.oneOf(": d\n", ": e\n", ": a # note\n"))
		case 4:
			f[name] = strings.ReplaceAll(f[name], "  k1: b\n", w.oneOf("", "  k1: f\n  new: x\n", "  new: x\n"))
		case 5:
			if !strings.Contains(name, "Kptfile") && len(documents) > 1 {
				f[name] = strings.Join(slices.Delete(documents, at, at+1), "---\n")
			}
		case 6:
			if strings.HasSuffix(name, ".yaml") && len(documents) > 1 && documents[at] != "" { // move one
				f[name] = strings.Join(slices.Delete(slices.Clone(documents), at, at+1), "---\n")
				w.add(f, w.oneOf("moved.yaml", "d/moved.yaml"), documents[at])
			}
		case 7:
			f[name] = strings.ReplaceAll(f[name], "containers:\n", "containers:\n      - name: n"+w.oneOf("1", "2")+"\n        image: n\n")
		case 8:
			slices.Reverse(documents)
			if !slices.Contains(documents, "") {
				f[name] = strings.Join(documents, "---\n")
			}
		}
	}
	return f
}

// forEachSeed calls a test with many random packages and two edits of each.
func forEachSeed(t *testing.T, test func(t *testing.T, original, updated, local files)) {
	t.Helper()
	for seed := range uint64(300) {
		w := generator{rand.New(rand.NewPCG(seed, 1))}
		original := w.newPackage()
		updated, local := w.edit(original), w.edit(original)
		if w.IntN(2) == 0 {
			local = merge.AddMergeComments(local)
		}
		t.Run(fmt.Sprint(seed), func(t *testing.T) { test(t, original, updated, local) })
	}
}

func mustMerge(t *testing.T, original, updated, local files) merge.Result {
	t.Helper()
	got, err := merge.Merge(merge.ResourceMerge, original, updated, local, nil)
	if err != nil {
		t.Fatalf("%v\noriginal %q\nupdated %q\nlocal %q", err, original, updated, local)
	}
	return got
}

func TestUpstreamUnchanged(t *testing.T) {
	forEachSeed(t, func(t *testing.T, original, _, local files) {
		t.Helper()
		got := mustMerge(t, original, original, local)
		if diff := cmp.Diff(local, got.Files); diff != "" || got.Conflicts != nil {
			t.Errorf("conflicts %v; local changed (-want +got):\n%s", got.Conflicts, diff)
		}
	})
}

func TestLocalUnchanged(t *testing.T) {
	forEachSeed(t, func(t *testing.T, original, updated, _ files) {
		t.Helper()
		got := mustMerge(t, original, updated, original)
		if diff := cmp.Diff(updated, got.Files); diff != "" || got.Conflicts != nil {
			t.Errorf("conflicts %v; differs from upstream (-want +got):\n%s", got.Conflicts, diff)
		}
	})
}

func TestSameChange(t *testing.T) {
	forEachSeed(t, func(t *testing.T, original, updated, _ files) {
		t.Helper()
		got := mustMerge(t, original, updated, updated)
		if diff := cmp.Diff(updated, got.Files); diff != "" || got.Conflicts != nil {
			t.Errorf("conflicts %v; differs from both (-want +got):\n%s", got.Conflicts, diff)
		}
	})
}

func TestMergedPackages(t *testing.T) {
	forEachSeed(t, func(t *testing.T, original, updated, local files) {
		t.Helper()
		got := mustMerge(t, original, updated, local)
		for range 3 { // maps are iterated in random order
			if diff := cmp.Diff(got, mustMerge(t, maps.Clone(original), maps.Clone(updated), maps.Clone(local))); diff != "" {
				t.Fatalf("a second merge differs (-want +got):\n%s", diff)
			}
		}
		if wrong := got.Files.Check(); wrong != nil {
			t.Errorf("the result is not a valid package: %v", wrong)
		}
		for name, content := range got.Files {
			if content == original[name] || content == updated[name] || content == local[name] {
				continue
			}
			if _, err := kpt.Documents(content); err != nil {
				t.Errorf("%s cannot be read: %v\n%s", name, err, content)
			}
		}
		// A second upgrade to the same version changes nothing.
		if diff := cmp.Diff(got.Files, mustMerge(t, updated, updated, got.Files).Files); diff != "" {
			t.Errorf("an upgrade to the same version changes it (-want +got):\n%s", diff)
		}
		// A file that only one side changed has the content of that side.
		for name := range got.Files {
			if strings.Contains(name, "moved") || strings.HasPrefix(name, "s/") {
				continue
			}
			o, u, l := original[name], updated[name], local[name]
			switch {
			case o == u && got.Files[name] != l && !moves(original, updated, local):
				t.Errorf("%s changed:\n%s", name, cmp.Diff(l, got.Files[name]))
			case o == l && got.Files[name] != u && !moves(original, updated, local):
				t.Errorf("%s differs from upstream:\n%s", name, cmp.Diff(u, got.Files[name]))
			}
		}
	})
}

// moves reports whether the order of objects changed.
func moves(all ...files) bool {
	return slices.ContainsFunc(all, func(f files) bool { return f["moved.yaml"]+f["d/moved.yaml"] != "" })
}

// kyaml's merge of single objects gives the same result as ours, except for intended differences.
func TestAgainstKyaml(t *testing.T) {
	compared := 0
	for seed := range uint64(400) {
		w := generator{rand.New(rand.NewPCG(seed, 2))}
		original := w.object("a")
		change := func() string {
			text := original
			for range 1 + w.IntN(3) {
				text = strings.ReplaceAll(text, w.oneOf("image: a:1", "k0: a", "k1: b", "  k2: a\n"), w.oneOf("image: x:"+w.oneOf("2", "3"), "k"+w.oneOf("7", "8")+": "+w.oneOf("x", "y")))
				text = strings.ReplaceAll(text, "containers:\n", "containers:\n      - name: n"+w.oneOf("1", "2")+"\n        image: n"+w.oneOf("1", "2")+"\n")
			}
			return text
		}
		updated, local := change(), change()
		if duplicates(original) || duplicates(updated) || duplicates(local) {
			continue
		}
		got, err := merge.Merge("", files{"a.yaml": original}, files{"a.yaml": updated}, files{"a.yaml": local}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(got.Conflicts, func(c merge.Conflict) bool { return c.Kept == merge.Local }) {
			continue // an element of a list that one side deleted and the other changed
		}
		l, o, u := yaml.MustParse(local), yaml.MustParse(original), yaml.MustParse(updated)
		want, err := merge3.Merge(l, o, u)
		if err != nil {
			continue
		}
		compared++
		if diff := cmp.Diff(canonical(t, want.MustString()), canonical(t, got.Files["a.yaml"])); diff != "" {
			t.Errorf("%d: original\n%supdated\n%slocal\n%s(-kyaml +ours):\n%s", seed, original, updated, local, diff)
		}
	}
	if compared < 150 {
		t.Errorf("only %d were compared", compared)
	}
}

func duplicates(text string) bool {
	var m map[string]any
	return yaml.Unmarshal([]byte(text), &m) != nil || strings.Count(text, "name: n1\n") > 1 || strings.Count(text, "name: n2\n") > 1
}

// canonical returns the value of a document with sorted lists.
func canonical(t *testing.T, text string) any {
	t.Helper()
	var value map[string]any
	if err := yaml.Unmarshal([]byte(text), &value); err != nil {
		t.Fatal(err)
	}
	sortLists(value)
	return value
}

func sortLists(value any) {
	switch value := value.(type) {
	case map[string]any:
		for _, v := range value {
			sortLists(v)
		}
	case []any:
		slices.SortFunc(value, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	}
}

func FuzzMerge(f *testing.F) {
	f.Add(configMap("a", "k: v"), configMap("a", "k: w"), named(configMap("b", "k: x"), "a"))
	f.Add("a: &x [1]\nb: *x\n---\n# c\n---\n{c: d}", "a: 1\n...\n", "--- |\n x\n---\n- 1\n")
	f.Add(workload("containers: [{name: a, image: b}, {name: c}]"), workload("containers:", "- name: a", "  # c", "  ports: []"), workload("containers:", "  - {name: a} # d"))
	f.Add(kptfile("a", "status:"), kptfile("b", "upstream: {a: b}", "pipeline: {mutators: [{image: x}]}"), kptfile("c", "info: # d", "  - x"))
	f.Add("a: {b: 1}\n", "a: # x\n  # y\n  b: 2\n  c: {d: [1, # z\n 2]}\n", "a: {b: 1, e: 3} # f\n")
	f.Fuzz(func(t *testing.T, original, updated, local string) {
		for _, name := range []string{"a.yaml", "Kptfile"} {
			got, err := merge.Merge("", files{name: original}, files{name: updated}, files{name: local}, nil)
			if err != nil {
				if got.Files != nil {
					t.Errorf("%s: an error with files: %v", name, got)
				}
				continue
			}
			if content, ok := got.Files[name]; ok && content != local && content != updated {
				if _, err := kpt.Documents(content); err != nil {
					t.Errorf("%s: cannot be read: %v\n%q", name, err, content)
				}
			}
			again, err := merge.Merge("", files{name: updated}, files{name: updated}, got.Files, nil)
			if err != nil || name != "Kptfile" && !maps.Equal(got.Files, again.Files) {
				t.Errorf("%s: merged again: %v\n%s", name, err, cmp.Diff(got.Files, again.Files))
			}
		}
		for name, content := range (files{"a.yaml": original}) {
			got := merge.AddMergeComments(files{name: content})[name]
			before, errBefore := kpt.Documents(content)
			after, errAfter := kpt.Documents(got)
			if len(before) != len(after) || (errBefore == nil) != (errAfter == nil) {
				t.Errorf("comments: %d documents, %v; %d documents, %v\n%q", len(before), errBefore, len(after), errAfter, got)
			}
		}
	})
}
