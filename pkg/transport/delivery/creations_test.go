package delivery

import (
	"errors"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/starlinghq/starling/pkg/core/plan"
)

func TestCreations(t *testing.T) {
	var c creations
	a, b := &plan.Action{Mailbox: "a", Name: "w"}, &plan.Action{Mailbox: "b", Name: "w"}
	check := func(what string, at time.Time, wantRecheck time.Duration, want ...string) {
		t.Helper()
		got, recheck := c.mailboxes("1", at)
		if !slices.Equal(want, got) || recheck != wantRecheck {
			t.Errorf("%s: %q for %s, want %q for %s", what, got, recheck, want, wantRecheck)
		}
	}
	c.begin("1", b)
	c.begin("1", a)
	c.begin("2", a)
	check("under way", now, 0, "a", "b")
	c.end("1", a, nil, now)
	check("created", now, unreportedFor, "a", "b")
	c.end("1", b, apierrors.NewInternalError(errors.New("?")), now)
	check("perhaps", now.Add(time.Second), unansweredFor-time.Second, "a", "b")
	check("not seen", now.Add(unansweredFor), unreportedFor-unansweredFor, "a")
	c.reported(&plan.Work{BindingUID: "1", Mailbox: "a", Name: "w"})
	check("told", now, 0)
	c.begin("1", a)
	c.reported(&plan.Work{BindingUID: "1", Mailbox: "a", Name: "w"})
	c.end("1", a, nil, now)
	check("told before the answer came", now, 0)
	c.begin("1", a)
	c.end("1", a, apierrors.NewConflict(schema.GroupResource{}, "", nil), now)
	check("refused", now, 0)
	c.reported(&plan.Work{BindingUID: "2", Mailbox: "a", Name: "w"})
	if len(c.pending) != 0 {
		t.Errorf("%v is remembered", c.pending)
	}
}
