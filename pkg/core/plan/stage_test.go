package plan_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/starlinghq/starling/pkg/core/packing"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/transform"
)

func TestStageText(t *testing.T) {
	full := plan.Options{
		NoForce: true, IgnoredFields: ".a.b\n.c.d",
		Stage: plan.Stage{
			Begun: true, Left: ".a.b", Held: ".a.b", By: ".c.d", Dropping: true, Again: true, Refused: ".c.d", UID: "u",
			Values: transform.HashOf([]byte("y")), Target: transform.HashOf([]byte("x")),
		},
	}
	for text, options := range map[string]plan.Options{
		`{}`:             {Stage: plan.Stage{Begun: true}},
		`{"former":"u"}`: {Stage: plan.Stage{Begun: true, Former: "u"}},
		`{"ignored":[".a.b"],"left":[".a.b"],"held":[".a.b"],"uid":"u"}`: {
			IgnoredFields: ".a.b", Stage: plan.Stage{Begun: true, Left: ".a.b", Held: ".a.b", UID: "u"},
		},
		`{"ignored":[".a.b",".c.d"],"left":[".a.b"],"held":[".a.b"],"refused":[".c.d"],"by":".c.d","dropping":true,"again":true,"noForce":true,"uid":"u","values":"` +
			transform.HashOf([]byte("y")).String() + `","target":"` + transform.HashOf([]byte("x")).String() + `"}`: full,
	} {
		if got := options.StageText(); got != text {
			t.Errorf("the text is %s, want %s", got, text)
		}
		if got, ok := plan.ParseStage(text); !ok || got != options {
			t.Errorf("%s: (-want +got):\n%s", text, cmp.Diff(options, got))
		}
	}
	if _, ok := plan.ParseStage("status"); ok {
		t.Error("the name of another rule is a stage")
	}
}

func TestManager(t *testing.T) {
	long := "." + strings.Repeat("x", 200)
	for by, want := range map[string]string{
		"":               "work-agent",
		".spec.replicas": "work-agent.spec.replicas",
		long:             "work-agent." + transform.HashOf([]byte(long)).String(),
	} {
		if got := (plan.Options{Stage: plan.Stage{By: by}}).Manager(); got != want {
			t.Errorf("the manager of %q is %q, want %q", by, got, want)
		}
	}
}

// TestJoinsWhatIsSettled: a work that comes to an object which another work has without its ignored
// fields leaves them out from the start.
func TestJoinsWhatIsSettled(t *testing.T) {
	o, err := ignoring(t, ".spec.replicas")
	if err != nil {
		t.Fatal(err)
	}
	settled := plan.Stage{Begun: true, Left: ".spec.replicas", Held: ".spec.replicas", UID: "u"}
	other := plan.Options{IgnoredFields: ".spec.replicas", Stage: settled}
	m := &mailbox{works: map[string]*plan.Work{}}
	m.owners = plan.Owners{nginx: {plan.OwnerOf(&plan.Work{Name: "other"}, &plan.Item{Ref: nginx, Options: other, Hash: o.Hash})}}
	d := plan.NewDesired([]plan.Object{o}, packing.Limits{Count: 9, Bytes: 9999})
	run(t, m, d, "join")
	item := m.works["uid-1-0"].Items[0]
	if item.Stage != settled || item.Hash != o.Hash {
		t.Errorf("the item is %+v, want the stage %+v", item, settled)
	}
	m = &mailbox{works: map[string]*plan.Work{}}
	run(t, m, d, "come first")
	if item := m.works["uid-1-0"].Items[0]; item.Stage.Left != "" || item.Hash != o.Whole.Hash {
		t.Errorf("the item is %+v, want the whole object", item)
	}
}

// TestSilentStages: nothing follows where no cluster reports.
func TestSilentStages(t *testing.T) {
	o, err := ignoring(t, ".spec.replicas")
	if err != nil {
		t.Fatal(err)
	}
	m := &mailbox{works: map[string]*plan.Work{}}
	d := plan.NewDesired([]plan.Object{o}, packing.Limits{Count: 9, Bytes: 9999})
	run(t, m, d, "place")
	work := m.works["uid-1-0"]
	work.Items[0].State, work.Items[0].Stage = plan.Silent, plan.Stage{}
	if n := run(t, m, d, "written"); n != 0 || work.Items[0].Hash != o.Whole.Hash {
		t.Errorf("%d writes; the item is %+v", n, work.Items[0])
	}
}
