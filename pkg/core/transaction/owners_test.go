package transaction_test

import (
	"math/rand/v2"
	"strconv"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	pkgv1beta1 "github.com/starlinghq/starling/api/pkg/v1beta1"
	"github.com/starlinghq/starling/pkg/core/transaction"
)

func owner(kind, name string) transaction.Owner {
	return transaction.Owner{APIVersion: "pkg.crossplane.io/v1", Kind: kind, Name: name, UID: types.UID(kind + name)}
}

func controllers(refs []metav1.OwnerReference) (names []string) {
	for _, ref := range refs {
		if ref.Controller != nil && *ref.Controller {
			names = append(names, ref.Name)
		}
	}
	return names
}

// TestOwners: over random sequences of installations, hand-overs and collections, an object has one
// controller, at most one transaction, and never only transactions as its owners.
func TestOwners(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 0))
		pkg := owner("Provider", "p")
		stranger := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "x"}
		object, revisionRefs := []metav1.OwnerReference{stranger}, []metav1.OwnerReference(nil)
		last := ""
		for i := range 20 {
			tx := transaction.OwnerOf(named("tx"+strconv.Itoa(i), strconv.Itoa(i)))
			revision := owner("ProviderRevision", "p-"+strconv.Itoa(random.IntN(3)))
			switch random.IntN(4) {
			case 0, 1:
				object = transaction.OfObject(object, revision, pkg, tx)
				revisionRefs = transaction.OfRevision(revisionRefs, pkg, tx)
				last = revision.Name
			case 2:
				if last != "" {
					object = transaction.Controlled(object, revision)
					last = revision.Name
				}
			default: // history is collected
				for _, ref := range object {
					if ref.Kind == "Transaction" {
						object = transaction.Without(object, ref.UID)
					}
				}
			}
			if got := controllers(object); last != "" && (len(got) != 1 || got[0] != last) {
				t.Fatalf("seed %d: controllers %q, want %q", seed, got, last)
			}
			transactions := 0
			for _, ref := range object {
				if ref.Kind == "Transaction" {
					transactions++
				}
			}
			if transactions > 1 {
				t.Fatalf("seed %d: %d transactions own %v", seed, transactions, object)
			}
			if transaction.Orphaned(object) || transaction.Orphaned(revisionRefs) {
				t.Fatalf("seed %d: only transactions own it: %v, %v", seed, object, revisionRefs)
			}
			if object[0] != stranger {
				t.Fatalf("seed %d: a foreign owner is gone: %v", seed, object)
			}
		}
	}
	tx := transaction.OwnerOf(named("t", "t"))
	alone := transaction.Without(transaction.OfRevision(nil, owner("Provider", "p"), tx), owner("Provider", "p").UID)
	if !transaction.Orphaned(alone) || transaction.Orphaned(nil) {
		t.Error("Orphaned is wrong")
	}
}

func TestDiff(t *testing.T) {
	at := func(source, version string) pkgv1beta1.LockPackage {
		return pkgv1beta1.LockPackage{Name: source + "-" + version, Source: source, Version: version}
	}
	current := []pkgv1beta1.LockPackage{at("a", "1"), at("b", "1"), at("c", "1"), at("e", "1")}
	proposed := []pkgv1beta1.LockPackage{at("d", "1"), at("b", "2"), at("a", "1")}
	d := transaction.Diff(current, proposed)
	if len(d.Installed) != 2 || d.Installed[0].Source != "d" || d.Installed[1].Source != "b" {
		t.Errorf("installed %v", d.Installed)
	}
	if len(d.Removed) != 2 || d.Removed[0].Source != "e" || d.Removed[1].Source != "c" {
		t.Errorf("removed %v", d.Removed)
	}
	if len(d.Before) != 1 || d.Before["b"].Version != "1" {
		t.Errorf("before %v", d.Before)
	}
	if !transaction.Diff(current, current).Empty() || d.Empty() {
		t.Error("Empty is wrong")
	}
	if transaction.Find(current, "b") != &current[1] || transaction.Find(current, "x") != nil {
		t.Error("Find is wrong")
	}
}

// TestReleased: an object that stays when its package goes has other owners than transactions, or
// none.
func TestReleased(t *testing.T) {
	tx := transaction.OwnerOf(named("tx", "t"))
	old, pkg, next := owner("ProviderRevision", "old"), owner("Provider", "p"), owner("ProviderRevision", "new")
	owned := transaction.OfObject(nil, old, pkg, tx)
	if got := transaction.Released(owned, old.UID, pkg.UID); len(got) != 0 {
		t.Errorf("owners %v, want none", got)
	}
	taken := transaction.OfObject(owned, next, owner("Provider", "q"), tx)
	got := transaction.Released(taken, old.UID, pkg.UID)
	if len(got) != 3 || transaction.Orphaned(got) || controllers(got)[0] != "new" {
		t.Errorf("owners %v", got)
	}
}
