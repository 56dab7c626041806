package crdcheck_test

import (
	"strings"
	"testing"

	"github.com/starlinghq/starling/pkg/core/crdcheck"
)

// TestNothingChanges: no schema differs from itself.
func TestNothingChanges(t *testing.T) {
	for seed := range uint64(300) {
		crd := withSchema(t, newGenerator(seed).root())
		if changes := crdcheck.Compare(crd, crd.DeepCopy()); changes != nil {
			t.Fatalf("seed %d: %+v", seed, changes)
		}
		described := crd.DeepCopy()
		described.Spec.Versions[0].Schema.OpenAPIV3Schema.Description = "x" // a different hash, so all is compared
		if changes := crdcheck.Compare(crd, described); changes != nil {
			t.Fatalf("seed %d: %+v", seed, changes)
		}
	}
}

// TestInjectedTightenings: each tightening anywhere is found as breaking, at its place.
func TestInjectedTightenings(t *testing.T) {
	done := map[string]int{}
	for seed := range uint64(4000) {
		g := newGenerator(seed)
		before := g.root()
		after, m, at, ok := g.mutate(&before)
		if !ok || !m.tight {
			continue
		}
		done[m.name]++
		found := false
		for _, change := range crdcheck.Compare(withSchema(t, before), withSchema(t, *after)) {
			found = found || change.Breaking && strings.HasPrefix(change.Path, at)
		}
		if !found {
			t.Errorf("seed %d: %s at %s is not found", seed, m.name, at)
		}
	}
	for _, m := range mutations {
		if m.tight && done[m.name] == 0 {
			t.Errorf("%s never applied", m.name)
		}
	}
}

// TestNothingBreaking: if no change is breaking, an object that was valid and lost nothing is and
// does so under the new schema. This is what allows not to read objects.
func TestNothingBreaking(t *testing.T) {
	valid, invalidated := 0, 0
	for seed := range uint64(700) {
		g := newGenerator(seed)
		before := g.root()
		after := &before
		for range 1 + g.IntN(3) {
			if changed, _, _, ok := g.mutate(after); ok {
				after = changed
			}
		}
		oldCRD, newCRD := withSchema(t, before), withSchema(t, *after)
		breaking := false
		for _, change := range crdcheck.Compare(oldCRD, newCRD) {
			breaking = breaking || change.Breaking
		}
		for range 5 {
			widget := g.widget(&before)
			if violates(t, oldCRD, widget) {
				continue
			}
			valid++
			if violates(t, newCRD, widget) {
				invalidated++
				if !breaking {
					t.Errorf("seed %d: no change is breaking, yet %v is not valid any more", seed, widget)
				}
			}
		}
	}
	if valid < 500 || invalidated < 100 {
		t.Errorf("the test is too weak: %d valid objects, %d invalidated", valid, invalidated)
	}
}

// violates reports whether the API server would refuse a new object, or prune it.
func violates(t *testing.T, crd *crdType, widget map[string]any) bool {
	t.Helper()
	checker := crdcheck.NewTransition(t.Context(), nil, crd).Checker()
	if err := checker.Object(t.Context(), widget); err != nil {
		t.Fatal(err)
	}
	for _, finding := range checker.Findings(false) {
		if finding.Objects.Count > 0 {
			return true
		}
	}
	return false
}

// TestSiblings: the paths of siblings do not overwrite each other.
func TestSiblings(t *testing.T) {
	var names []string
	fields := ""
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		names = append(names, "spec.o.p.q."+name)
		fields += name + ": {type: TYPE},"
	}
	nested := spec("o: {type: object, properties: {p: {type: object, properties: {q: {type: object, properties: {" + fields + "}}}}}}")
	changes := crdcheck.Compare(newCRD(t, "v1", strings.ReplaceAll(nested, "TYPE", "string")), newCRD(t, "v1", strings.ReplaceAll(nested, "TYPE", "integer")))
	var got []string
	for _, change := range changes {
		got = append(got, change.Path)
	}
	if strings.Join(got, " ") != strings.Join(names, " ") {
		t.Errorf("paths %v, want %v", got, names)
	}
}

// TestBlame: whatever an object violates, a new schema that accepts more is not blamed.
func TestBlame(t *testing.T) {
	invalid := 0
	for seed := range uint64(800) {
		g := newGenerator(seed)
		before := g.root()
		after := before.DeepCopy()
		for range 3 {
			if changed, m, _, ok := g.mutate(after); ok && !m.tight {
				after = changed
			}
		}
		widget := g.widget(&before)
		if violates(t, withSchema(t, before), widget) {
			invalid++
		}
		before.Properties["unused"] = schemaType{Type: "string"} // its removal makes objects count
		transition := crdcheck.NewTransition(t.Context(), installed(withSchema(t, before), "v1"), withSchema(t, *after))
		checker := transition.Checker()
		if err := checker.Object(t.Context(), widget); err != nil {
			t.Fatal(err)
		}
		if !transition.NeedsObjects() {
			t.Fatalf("seed %d: objects do not count", seed)
		}
		for _, finding := range checker.Findings(false) {
			if finding.Objects.Count > 0 {
				t.Errorf("seed %d: %s", seed, finding.String())
			}
		}
	}
	if invalid < 100 {
		t.Errorf("only %d objects were not valid", invalid)
	}
}
