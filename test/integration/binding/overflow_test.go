package binding

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/test/testenv"
)

// homes returns the Binding of the policy that lists each object, as the part of its name after the
// policy's name.
func (e *environment) homes(policy string) map[string]string {
	e.t.Helper()
	list, err := e.wds.Resource(bindings).List(e.t.Context(), metav1.ListOptions{})
	if err != nil {
		e.t.Fatal(err)
	}
	owner := e.getPolicy(policy)
	found := map[string]string{}
	for i := range list.Items {
		item := &list.Items[i]
		if owner == nil || !metav1.IsControlledBy(item, owner) {
			continue
		}
		suffix := strings.TrimPrefix(item.GetName(), policy)
		found[suffix] = ""
		for _, entry := range entries(e.getBinding(item.GetName())) {
			if object, ok := strings.CutPrefix(entry, "configmaps "); ok {
				if other, twice := found[object]; twice {
					e.t.Fatalf("%s is listed by %q and by %q", object, other, suffix)
				}
				found[object] = "in " + suffix
			}
		}
	}
	return found
}

// answer writes the status of a Binding, as a transport would.
func (e *environment) answer(name string, applied bool) {
	e.t.Helper()
	conditions := `{"type":"Delivered","status":"True","reason":"Delivered","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"},`
	if applied {
		conditions += `{"type":"Applied","status":"True","reason":"Applied","message":"all","lastTransitionTime":"2026-01-01T00:00:00Z"}`
	} else {
		conditions += `{"type":"Applied","status":"False","reason":"Applying","message":"nothing yet","lastTransitionTime":"2026-01-01T00:00:00Z"}`
	}
	e.patch(bindings, "", name, fmt.Sprintf(`{"status":{"observedGeneration":%d,"conditions":[%s]}}`, e.getBinding(name).Generation, conditions), "status")
}

// TestOverflow: a policy that selects more than a Binding holds has several; no object moves,
// whatever comes and goes, and over restarts.
func TestOverflow(t *testing.T) {
	e := newEnvironment(t)
	e.maxBindingSize = 2 << 10
	e.cluster(e.name, map[string]string{"test": e.name})
	name := func(i int) string { return fmt.Sprintf("c%02d", i) }
	label := map[string]string{"app": e.name}
	for i := range 30 {
		e.create(configMaps, object(e.name, name(i), label))
	}
	c := e.start()
	policy := e.policy("p", fmt.Sprintf(`{"clusterSelectors":[{"matchLabels":{"test":%q}}],"downsync":[{"objectSelectors":[{"matchLabels":{"app":%q}}]}]}`, e.name, e.name))
	listed := func(want func(i int) bool, parts ...string) map[string]string {
		t.Helper()
		var homes map[string]string
		testenv.Eventually(t, patience, func() (bool, string) {
			homes = e.homes(policy)
			for i := range 40 {
				if home, ok := homes[name(i)]; ok != want(i) {
					return false, fmt.Sprintf("%s is in %q", name(i), home)
				}
			}
			for _, part := range parts {
				if _, ok := homes[part]; !ok {
					return false, fmt.Sprintf("there is no Binding %s%s", policy, part)
				}
			}
			return true, ""
		})
		return homes
	}
	first := listed(func(i int) bool { return i < 30 }, "", "--2")
	e.eventuallyCondition(policy, synced, "True Synced")
	e.eventuallyCondition(policy, ready, "False NotDelivered")
	for _, part := range []string{"", "--2"} {
		b := e.getBinding(policy + part)
		if got := entries(b); got[len(got)-1] != "-> "+e.name {
			t.Errorf("%s goes to %q", b.Name, got)
		}
	}

	// The policy is ready when all its Bindings are.
	for part := range first {
		if part == "" || strings.HasPrefix(part, "--") {
			e.answer(policy+part, part != "--2")
		}
	}
	message := e.eventuallyCondition(policy, ready, "False NotApplied")
	if message != "nothing yet" {
		t.Errorf("message %q", message)
	}
	e.answer(policy+"--2", true)
	e.eventuallyCondition(policy, ready, "True Applied")

	// New entries use the space in the first Binding; existing entries stay. A restart writes
	// nothing.
	var inFirst []string
	for object, home := range first {
		if home == "in " {
			inFirst = append(inFirst, object)
		}
	}
	slices.Sort(inFirst)
	e.remove(configMaps, e.name, inFirst[0])
	gone := func(i int) bool { return name(i) == inFirst[0] }
	listed(func(i int) bool { return i < 30 && !gone(i) })
	e.create(configMaps, object(e.name, name(35), label))
	second := listed(func(i int) bool { return i < 30 && !gone(i) || i == 35 })
	if second[name(35)] != "in " {
		t.Errorf("the new one is %s", second[name(35)])
	}
	for object, home := range second {
		if was, known := first[object]; known && was != home {
			t.Errorf("%s moved: it was %s, is %s", object, was, home)
		}
	}
	e.eventuallyCondition(policy, ready, "False NotDelivered")
	c.stop()
	c = e.start()
	e.expectNoWrites(c)

	// One that is edited or deleted by hand is put right.
	e.patch(bindings, "", policy+"--2", `{"spec":{"workload":{"namespaceScope":[]}}}`)
	listed(func(i int) bool { return i < 30 && !gone(i) || i == 35 })
	if err := e.wds.Resource(bindings).Delete(t.Context(), policy+"--2", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	listed(func(i int) bool { return i < 30 && !gone(i) || i == 35 })

	// What is not needed any more goes; what is left does not move.
	before := e.homes(policy)
	for object, home := range before {
		if strings.HasPrefix(home, "in --") {
			e.remove(configMaps, e.name, object)
		}
	}
	testenv.Eventually(t, patience, func() (bool, string) {
		homes := e.homes(policy)
		for part := range homes {
			if strings.HasPrefix(part, "--") {
				return false, "there still is " + part
			}
		}
		return true, ""
	})
	for object, home := range before {
		if home == "in " && e.homes(policy)[object] != home {
			t.Errorf("%s moved", object)
		}
	}
}

// TestOverflowIsDeletedWithItsPolicy: the policy goes when the last of its Bindings has gone, and a
// Binding of somebody else that has the name of an overflow stays.
func TestOverflowIsDeletedWithItsPolicy(t *testing.T) {
	e := newEnvironment(t)
	e.maxBindingSize = 1 << 10
	label := map[string]string{"app": e.name}
	for i := range 20 {
		e.create(configMaps, object(e.name, fmt.Sprintf("c%02d", i), label))
	}
	policy := e.name + "-p"
	stranger := object("", policy+"--2", nil)
	e.create(bindings, stranger)
	c := e.start()
	e.policy("p", fmt.Sprintf(`{"downsync":[{"objectSelectors":[{"matchLabels":{"app":%q}}]}]}`, e.name))
	var parts []string
	testenv.Eventually(t, patience, func() (bool, string) {
		homes := e.homes(policy)
		parts = nil
		for part := range homes {
			if part == "" || strings.HasPrefix(part, "--") {
				parts = append(parts, part)
			}
		}
		return len(homes)-len(parts) == 20, fmt.Sprint(homes)
	})
	slices.Sort(parts)
	if len(parts) < 3 || slices.Contains(parts, "--2") {
		t.Fatalf("parts %q", parts)
	}
	last := policy + parts[len(parts)-1]
	e.patch(bindings, "", last, `{"metadata":{"finalizers":["`+controlv1alpha1.BindingFinalizer+`"]}}`)
	c.stop() // also a controller that has just started finds them all
	e.start()
	e.delete(policy)
	testenv.Eventually(t, patience, func() (bool, string) {
		return len(e.homes(policy)) < 20 && e.getBinding(policy) == nil, fmt.Sprint(e.homes(policy))
	})
	e.eventuallyCondition(policy, synced, "False Deleting")
	if e.getBinding(last) == nil {
		t.Error("the finalizer did not keep it")
	}
	e.patch(bindings, "", last, `{"metadata":{"finalizers":null}}`)
	testenv.Eventually(t, patience, func() (bool, string) { return e.getPolicy(policy) == nil, "the policy is still there" })
	if e.getBinding(policy+"--2") == nil {
		t.Error("the Binding of another owner is gone")
	}
}
