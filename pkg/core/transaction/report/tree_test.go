package report

import (
	"encoding/json"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	pkgv1beta1 "github.com/starlinghq/starling/api/pkg/v1beta1"
	"github.com/starlinghq/starling/test/golden"
)

// locked is a package of the Lock that requires others, as "family >=v1".
func locked(name, version string, requires ...string) pkgv1beta1.LockPackage {
	l := pkgv1beta1.LockPackage{
		Name: name + "-e3b0", Kind: new("Provider"), Source: reg + name, Version: version + "@" + digest, Dependencies: []pkgv1beta1.Dependency{},
	}
	for _, text := range requires {
		to, constraint, _ := strings.Cut(text, " ")
		l.Dependencies = append(l.Dependencies, pkgv1beta1.Dependency{Package: reg + to, Constraints: constraint})
	}
	return l
}

// object is the package object of such a package. One that a user created names a version.
func object(kind, name, requested string) Object {
	o := Object{Kind: kind, Package: provider(name, nil), Revisions: []*pkgv1.ProviderRevision{{ObjectMeta: metav1.ObjectMeta{Name: name + "-e3b0"}}}}
	o.Package.Spec.Package = reg + name + ":" + requested
	if requested == "" {
		o.Package.Labels = map[string]string{pkgv1.LabelTransaction: "tx-1"}
		o.Package.Spec.Package = reg + name + "@" + digest
	}
	return o
}

func TestTree(t *testing.T) {
	t.Parallel()
	lock := &pkgv1beta1.Lock{Packages: []pkgv1beta1.LockPackage{
		locked("family", "v1.1.0"),
		locked("s3", "v1.0.0", "family >=v1"),
		locked("ec2", "v1.0.0", "family >=v2"),
		locked("platform", "v1.0.0", "s3 ^1", "ec2", "absent >=v1"),
		locked("old", "v0.1.0", "older"),
		locked("older", "v0.1.0"),
		locked("lost", "v0.1.0"), // somebody deleted its objects
	}}
	failed := object("Provider", "broken", "v1.0.0")
	failed.Revisions = nil
	failed.Transactions = []*pkgv1alpha1.Transaction{install(once, started, invalid("InvalidPackage", "x"))}
	moving := object("Configuration", "platform", "v2.0.0")
	objects := []Object{
		failed, moving, object("Provider", "s3", ""), object("Provider", "ec2", "v1.0.0"), object("Provider", "family", ""),
		object("Provider", "old", ""), object("Provider", "older", ""),
	}
	tree := NewTree(lock, objects)
	var out strings.Builder
	out.WriteString("## all\n")
	tree.Draw(&out)
	for _, name := range []string{"Configuration/platform", "Provider/family", "Provider/old", reg + "lost"} {
		out.WriteString("\n## " + name + "\n")
		n := tree.Find(name)
		if n == nil {
			t.Fatalf("no %s", name)
		}
		tree.DrawNode(&out, n)
	}
	if n := tree.Find(""); n != nil {
		t.Errorf("found %+v without a name", n)
	}
	out.WriteString("\n## nothing is installed\n")
	empty := NewTree(nil, []Object{failed})
	empty.Draw(&out)
	text, err := json.MarshalIndent(tree, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	out.WriteString("\n## JSON\n" + string(text) + "\n")
	golden.Compare(t, "tree", out.String())
}

// Whatever the Lock has, each installed package is drawn, and drawing ends: people edit it, and
// cycles are possible then.
func TestTreeOfAnything(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		lock := &pkgv1beta1.Lock{}
		var objects []Object
		n := 1 + random.IntN(8)
		for i := range n {
			var requires []string
			for range random.IntN(4) {
				requires = append(requires, "p"+strconv.Itoa(random.IntN(n+1))+" >=v1")
			}
			lock.Packages = append(lock.Packages, locked("p"+strconv.Itoa(i), "v1.0.0", requires...))
			if random.IntN(2) == 0 {
				objects = append(objects, object("Provider", "p"+strconv.Itoa(i), []string{"", "v1.0.0"}[random.IntN(2)]))
			}
		}
		tree := NewTree(lock, objects)
		var out strings.Builder
		tree.Draw(&out)
		for i := range tree.Packages {
			p := &tree.Packages[i]
			if !strings.Contains(out.String(), p.Package) || p.Package == "" && !strings.Contains(out.String(), p.Source) {
				t.Fatalf("%s is not drawn:\n%s", p.Source, out.String())
			}
			if of := tree.Of(p); of.find(p.Source) == nil {
				t.Fatalf("%s is not in its own tree", p.Source)
			}
		}
	}
}
