package cli

import (
	"io"
	"testing"

	"github.com/starlinghq/starling/pkg/core/foresight/forecast"
	"github.com/starlinghq/starling/pkg/core/foresight/packages"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/plugin"
)

// TestVerdict: a plan that does not know everything is never a plan in which nothing changes, also
// for --fail-on. What somebody holds is no error.
func TestVerdict(t *testing.T) {
	t.Parallel()
	with := func(item forecast.Item) *Plan {
		item.Ref = objref.Ref{Resource: "configmaps", Namespace: "shop", Name: "settings"}
		return &Plan{Forecast: forecast.Forecast{Groups: []forecast.Group{{Clusters: []string{"c1"}, Items: []forecast.Item{item}}}}}
	}
	unknown := func(p *Plan) *Plan {
		p.Unknown = []string{"the clusters of ITS its1: forbidden"}
		return p
	}
	held, failed := with(forecast.Item{Verb: forecast.Keep, Why: "held by transaction tx-1"}), with(forecast.Item{Verb: forecast.Keep, Why: "cannot be delivered", Error: true})
	for name, tc := range map[string]struct {
		plan   *Plan
		failOn []string
		want   int
	}{
		"NothingChanges":           {&Plan{}, []string{failOnRemoval, failOnConflict, failOnError}, 0},
		"Changes":                  {with(forecast.Item{Verb: forecast.Update}), nil, 2},
		"NothingKnownChanges":      {unknown(&Plan{}), nil, 3},
		"ChangesAndMore":           {unknown(with(forecast.Item{Verb: forecast.Update})), nil, 3},
		"MaybeARemoval":            {unknown(&Plan{}), []string{failOnRemoval}, 3},
		"ARemoval":                 {unknown(with(forecast.Item{Verb: forecast.Delete})), []string{failOnRemoval}, 1},
		"ASetOfWhichNothingIsRead": {&Plan{Sets: []packages.Set{{Name: "web", Unknown: "which objects it selects"}}}, nil, 3},
		"AHold":                    {held, []string{failOnError}, 2},
		"AnError":                  {failed, []string{failOnError}, 1},
	} {
		tc.plan.total()
		got := plugin.Report(io.Discard, (&planner{failOn: tc.failOn}).verdict(tc.plan))
		if got != tc.want {
			t.Errorf("%s: exit code %d, want %d", name, got, tc.want)
		}
	}
}
