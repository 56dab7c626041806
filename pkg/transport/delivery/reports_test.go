package delivery

import (
	"testing"

	"github.com/starlinghq/starling/pkg/core/health"
	"github.com/starlinghq/starling/pkg/transport/plugin"
)

func TestReportsAreNewsOnce(t *testing.T) {
	var r reports
	ill := &health.Verdict{State: health.Unhealthy, Message: "x"}
	steps := []struct {
		verdict *health.Verdict
		want    bool
	}{{nil, false}, {&health.Verdict{}, true}, {&health.Verdict{}, false}, {ill, true}, {ill, false}, {nil, true}, {nil, false}}
	for i, step := range steps {
		if got := r.set("a", nginx, step.verdict); got != step.want {
			t.Errorf("step %d: news: %t", i, got)
		}
	}
	if len(r.verdicts) != 0 {
		t.Errorf("what is gone is kept: %v", r.verdicts)
	}
	if !r.setState(plugin.ReportsRead) || r.setState(plugin.ReportsRead) || r.now() != plugin.ReportsRead {
		t.Error("the state is not reported exactly once")
	}
}
