package variant_test

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"math/rand"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/starlinghq/starling/pkg/core/packages/variant"
)

func TestNamesOfPorch(t *testing.T) {
	long := variant.Identifier("very-long-packagevariantset-name", variant.Package{Repository: "very-long-repo-name", Name: "very-long-package-name"})
	sum := sha1.Sum([]byte(long))
	for want, p := range map[string]variant.Package{
		"my-pvs-prod-repo-my-package": {Repository: "prod-repo", Name: "my-package"},
	} {
		if got := variant.Name("my-pvs", p, func(string) bool { return true }); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	got := variant.Name("very-long-packagevariantset-name", variant.Package{Repository: "very-long-repo-name", Name: "very-long-package-name"}, func(string) bool { return true })
	if want := long[:54] + "-" + hex.EncodeToString(sum[:])[:8]; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// FuzzNames: whatever sets and packages are called, their PackageVariants have names that are DNS
// labels, and no two the same, in any order.
func FuzzNames(f *testing.F) {
	f.Add("a", "b-c", "d", "a", "b", "c-d")
	f.Add("a", "b", "c/d", "a", "b", "c.d")
	f.Add("A", "b", "c", "a", "b", "c")
	f.Add("", "", "", "-", "-", "/")
	f.Add("x", strings.Repeat("y", 60), "z", "x", strings.Repeat("y", 60), "Z")
	f.Fuzz(func(t *testing.T, setA, repoA, packageA, setB, repoB, packageB string) {
		a, b := variant.Package{Repository: repoA, Name: packageA}, variant.Package{Repository: repoB, Name: packageB}
		taken := map[string]bool{}
		give := func(set string, p variant.Package) string {
			name := variant.Name(set, p, func(name string) bool { return !taken[name] })
			if texts := validation.IsDNS1123Label(name); len(texts) > 0 {
				t.Fatalf("%q of %q, %q: %q", name, set, p, texts)
			}
			taken[name] = true
			return name
		}
		if give(setA, a) == give(setB, b) {
			t.Error("the same")
		}
		if variant.Workspace(setA, a, packageB) == variant.Workspace(setB, b, packageA) && (setA != setB || a != b || packageA != packageB) {
			t.Error("the same workspace")
		}
		if texts := validation.IsDNS1123Label(variant.Workspace(setA, a, repoB)); len(texts) > 0 {
			t.Errorf("workspace: %q", texts)
		}
	})
}

// TestManyNames: names of many packages, of which many look alike, are DNS labels, and no two are
// the same.
func TestManyNames(t *testing.T) {
	rnd := rand.New(rand.NewSource(1))
	parts := []string{"a", "a-b", "b", "b-c", "c", "a/b", "a.b", strings.Repeat("long-", 9), "UPPER", "-"}
	taken := map[string]variant.Package{}
	n := 0
	for range 2000 {
		set := parts[rnd.Intn(2)]
		p := variant.Package{Repository: parts[rnd.Intn(len(parts))], Name: parts[rnd.Intn(len(parts))] + "/" + fmt.Sprint(rnd.Intn(50))}
		name := variant.Name(set, p, func(name string) bool { _, there := taken[name]; return !there })
		if name == "" {
			continue // the same package again, until all its names are taken
		}
		if texts := validation.IsDNS1123Label(name); len(texts) > 0 {
			t.Fatalf("%q: %q", name, texts)
		}
		taken[name] = p
		n++
	}
	if n < 1500 || len(taken) != n {
		t.Errorf("%d names for %d", len(taken), n)
	}
}
