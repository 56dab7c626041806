package plan_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/packing"
	"github.com/starlinghq/starling/pkg/core/plan"
)

// TestDefinitionStaysWhileItIsNeeded: a CustomResourceDefinition that is not wanted any more leaves
// exactly if the cluster loses no object of its kind with it.
func TestDefinitionStaysWhileItIsNeeded(t *testing.T) {
	t.Parallel()
	limits := packing.Limits{Count: 100, Bytes: 1000}
	foreign := plan.Owner{WDS: plan.WDS{UID: "other"}, Binding: "b", State: plan.OwnerPending, Work: &plan.Work{Name: "theirs"}, Item: &plan.Item{Ref: crd}}
	theirs := plan.Dependent{Ref: widget, Owner: foreign}
	claim := foreign
	claim.State = plan.OwnerClaimed
	leaves := plan.Owner{Binding: "b", State: plan.OwnerApplied, Work: &plan.Work{Name: "x"}, Item: &plan.Item{Ref: crd}, Leaving: true}
	applied := leaves
	applied.Leaving = false
	cases := map[string]struct {
		before, after []plan.Object
		now           func(*mailbox)
		stays         bool
		own           []objref.Ref
	}{
		"NothingNeedsIt": {before: []plan.Object{object(crd, "1")}},
		"TheBindingWantsAnObject": {
			before: []plan.Object{object(crd, "1"), object(widget, "1")}, after: []plan.Object{object(widget, "1")}, stays: true, own: []objref.Ref{widget},
		},
		"TheBindingIsToHaveAnObject": {
			before: []plan.Object{object(crd, "1")}, after: []plan.Object{object(widget, "1")}, stays: true, own: []objref.Ref{widget},
		},
		"AllLeaveTogether": {before: []plan.Object{object(crd, "1"), object(widget, "1")}},
		"AnObjectIsHeld": {
			before: []plan.Object{object(crd, "1"), object(widget, "1")}, now: func(m *mailbox) { m.hold = holdOf(widget) }, stays: true,
		},
		"AnotherHasAnObject": {
			before: []plan.Object{object(crd, "1")}, now: func(m *mailbox) { m.dependents = plan.Dependents{crd: {theirs}} }, stays: true,
		},
		"WhatAnotherHasIsUnknown": {
			before: []plan.Object{object(crd, "1")}, now: func(m *mailbox) { m.dependents = plan.Dependents{crd: {{Owner: applied, Unknown: true}}} }, stays: true,
		},
		"NobodyWaitsForTheCluster": {
			before: []plan.Object{object(crd, "1")}, now: func(m *mailbox) { m.dependents = plan.Dependents{crd: {theirs}} }, stays: true,
		},
		"AnotherDeliversItToo": {
			before: []plan.Object{object(crd, "1")}, now: func(m *mailbox) {
				m.dependents, m.owners = plan.Dependents{crd: {theirs}}, plan.Owners{crd: {applied}}
			},
		},
		"AnotherOnlyClaimsIt": { // it is released to the other, and stays in the cluster
			before: []plan.Object{object(crd, "1")}, now: func(m *mailbox) {
				m.dependents, m.owners = plan.Dependents{crd: {theirs}}, plan.Owners{crd: {claim}}
			}, stays: true,
		},
		"AnotherThatHasItLeavesToo": {
			before: []plan.Object{object(crd, "1")}, now: func(m *mailbox) {
				m.dependents, m.owners = plan.Dependents{crd: {theirs}}, plan.Owners{crd: {leaves}}
			}, stays: true,
		},
		"ItStaysInTheClusterAnyway": {
			before: []plan.Object{func() plan.Object { o := object(crd, "1"); o.Orphan = true; return o }()},
			now:    func(m *mailbox) { m.dependents = plan.Dependents{crd: {theirs}} },
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &mailbox{works: map[string]*plan.Work{}}
			for range 3 {
				run(t, m, plan.NewDesired(append([]plan.Object(nil), tc.before...), limits), "before")
				m.report(every, plan.Applied)
			}
			if tc.now != nil {
				tc.now(m)
			}
			d := plan.NewDesired(tc.after, limits)
			built := plan.Build(d, m.current())
			for i := range built.Actions {
				m.do(t, &built.Actions[i])
			}
			if got := placed(m)[crd] && !withdrawnIn(m, crd); got != tc.stays {
				t.Errorf("the definition stays: %v, want %v; actions:\n%s", got, tc.stays, trace(built.Actions))
			}
			if tc.own != nil && (len(built.Required) != 1 || cmp.Diff(tc.own, built.Required[0].Own) != "") {
				t.Errorf("required %+v, want one because of %v", built.Required, tc.own)
			}
			// When nothing needs it any more, it leaves.
			m.hold, m.dependents, m.owners = plan.Hold{}, nil, nil
			settle(t, m, plan.NewDesired(nil, limits), nil, limits, 0)
		})
	}
}

// TestNoObjectLosesItsDefinition attacks the rule with random histories: of what is wanted, what
// others have, what they deliver, what is held and what the cluster reports.
func TestNoObjectLosesItsDefinition(t *testing.T) {
	t.Parallel()
	noObjectLoses(t, func(kind int) objref.Ref {
		return objref.Ref{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions", Name: fmt.Sprintf("k%d.example.com", kind)}
	}, func(kind, n int) objref.Ref {
		return objref.Ref{Group: "example.com", Resource: fmt.Sprint("k", kind), Name: fmt.Sprint(n)}
	})
}

// TestNoObjectLosesItsNamespace does the same with Namespaces.
func TestNoObjectLosesItsNamespace(t *testing.T) {
	t.Parallel()
	noObjectLoses(t, func(kind int) objref.Ref {
		return objref.Ref{Resource: "namespaces", Name: fmt.Sprint("n", kind)}
	}, func(kind, n int) objref.Ref {
		return objref.Ref{Resource: "configmaps", Namespace: fmt.Sprint("n", kind), Name: fmt.Sprint(n)}
	})
}

func noObjectLoses(t *testing.T, definition func(kind int) objref.Ref, instance func(kind, n int) objref.Ref) {
	t.Helper()
	const kinds = 3
	stayed, left := 0, 0
	for seed := range uint64(400) {
		random := rand.New(rand.NewPCG(seed, 7))
		limits := packing.Limits{Count: 1 + random.IntN(6), Bytes: 100_000}
		m := &mailbox{works: map[string]*plan.Work{}, repacks: true}
		want := map[objref.Ref]string{}
		for step := range 40 {
			kind := random.IntN(kinds)
			ref := definition(kind)
			if random.IntN(3) > 0 {
				ref = instance(kind, random.IntN(2))
			}
			if random.IntN(2) == 0 {
				want[ref] = fmt.Sprint(random.IntN(3))
			} else {
				delete(want, ref)
			}
			m.dependents, m.owners, m.hold = plan.Dependents{}, plan.Owners{}, plan.Hold{}
			for kind := range kinds {
				crd := definition(kind)
				if random.IntN(4) == 0 {
					m.dependents[crd] = []plan.Dependent{{Ref: instance(kind, 9), Owner: plan.Owner{WDS: plan.WDS{UID: "other"}}}}
				}
				if random.IntN(6) == 0 {
					m.owners[crd] = []plan.Owner{{
						Binding: "b", State: []plan.OwnerState{plan.OwnerPending, plan.OwnerApplied}[random.IntN(2)], Leaving: random.IntN(2) == 0,
						Work: &plan.Work{Name: "theirs"}, Item: &plan.Item{Ref: crd},
					}}
				}
			}
			if random.IntN(5) == 0 {
				m.hold = holdOf(instance(random.IntN(kinds), random.IntN(2)), definition(random.IntN(kinds)))
			}
			if random.IntN(2) == 0 {
				m.report(every, []plan.State{plan.Applied, plan.Failed, plan.Pending}[random.IntN(3)])
			}
			before := map[objref.Ref]bool{}
			for kind := range kinds {
				crd := definition(kind)
				before[crd] = placed(m)[crd] && !withdrawnIn(m, crd)
			}
			held := placed(m)
			d := desired(want, nil, nil, limits)
			built := plan.Build(d, m.current())
			for i := range built.Actions {
				m.do(t, &built.Actions[i])
			}
			after := placed(m)
			for kind := range kinds {
				crd := definition(kind)
				needed := len(m.dependents[crd]) > 0
				for n := range 2 {
					ref := instance(kind, n)
					_, wanted := want[ref]
					needed = needed || wanted || m.hold.Holds(ref) && held[ref] && !withdrawnIn(m, ref)
				}
				kept := false
				for _, o := range m.owners[crd] {
					kept = kept || !o.Leaving && o.State == plan.OwnerApplied
				}
				stays := after[crd] && !withdrawnIn(m, crd)
				switch {
				case before[crd] && needed && !kept && !stays:
					t.Fatalf("seed %d step %d: %s leaves although it is needed:\n%s", seed, step, crd, trace(built.Actions))
				case before[crd] && needed && want[crd] == "":
					stayed++
				case before[crd] && !stays:
					left++
				}
			}
		}
		m.hold, m.dependents, m.owners = plan.Hold{}, nil, nil
		settle(t, m, plan.NewDesired(nil, limits), nil, limits, seed)
	}
	if stayed < 500 || left < 100 {
		t.Errorf("definitions stayed %d times and left %d times: the histories test too little", stayed, left)
	}
}
