package delivery

import (
	"testing"

	"github.com/starlinghq/starling/pkg/core/health"
	"github.com/starlinghq/starling/pkg/transport/plugin"
)

func TestReportsAreNewsOnce(t *testing.T) {
	var r reports
	ill := &plugin.Report{Verdict: health.Verdict{State: health.Unhealthy, Message: "x"}}
	other := &plugin.Report{Verdict: ill.Verdict, Source: "u2"}
	steps := []struct {
		report *plugin.Report
		want   bool
	}{{nil, false}, {&plugin.Report{}, true}, {&plugin.Report{}, false}, {ill, true}, {ill, false}, {other, true}, {other, false}, {nil, true}, {nil, false}}
	for i, step := range steps {
		if got := r.set("a", nginx, step.report); got != step.want {
			t.Errorf("step %d: news: %t", i, got)
		}
	}
	if len(r.known) != 0 {
		t.Errorf("what is gone is kept: %v", r.known)
	}
	if !r.setState(plugin.ReportsRead) || r.setState(plugin.ReportsRead) || r.missing("a") != plugin.ReportsRead {
		t.Error("the state is not reported exactly once")
	}
	if r.setPartial("a", false) || !r.setPartial("a", true) || r.setPartial("a", true) {
		t.Error("that a part is read is not news exactly once")
	}
	if r.missing("a") != plugin.ReportsPartial || r.missing("b") != plugin.ReportsRead {
		t.Errorf("a missing report means %d and %d", r.missing("a"), r.missing("b"))
	}
	r.setState(plugin.ReportsNone)
	if r.missing("a") != plugin.ReportsNone {
		t.Error("where nobody reports, it is said that a part is read")
	}
	r.setState(plugin.ReportsRead)
	if !r.setPartial("a", false) || r.missing("a") != plugin.ReportsRead || len(r.partial) > 0 {
		t.Error("that all is read is not news")
	}
}
