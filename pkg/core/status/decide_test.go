package status

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/starlinghq/starling/pkg/core/match"
)

var deployments = schema.GroupResource{Group: "apps", Resource: "deployments"}

// form is one form of status return, nil for one that no policy requests.
type form []string

func want(clusters ...string) form { return append(form{}, clusters...) }

type request struct{ Singleton, MultiWEC form }

func TestDecide(t *testing.T) {
	status := map[string]any{"replicas": int64(3)}
	reported := map[string]*Report{"c1": {Status: status}, "bare": {}, "c3": {Status: map[string]any{"replicas": int64(2)}}}
	cleared := func(reason, executing string, from ...string) Decision {
		return Decision{Action: Clear, Reason: reason, Executing: executing, Known: true, Clusters: from}
	}
	keep := func(reason, executing string, from ...string) Decision {
		d := cleared(reason, executing, from...)
		d.Action = Keep
		return d
	}
	copied := Decision{Action: Copy, Clusters: []string{"c1"}, Status: status, Reason: "reported", Executing: "1", Known: true}
	half := Decision{
		Action: Combine, Clusters: []string{"c1"}, Silent: []string{"c2"}, Reason: "reported by 1 of 2", Executing: "2", Known: true,
		Status: map[string]any{"replicas": int64(3), "unavailableReplicas": int64(3), "conditions": []any{map[string]any{
			"type": "starling.io/Incomplete", "status": "True", "reason": "NotReported", "message": "clusters whose status is not known: c2",
			"lastTransitionTime": "1970-01-01T00:00:00Z",
		}}},
	}
	for name, tc := range map[string]struct {
		resource schema.GroupResource
		request  request
		unknown  bool
		unread   bool
		// reading: reports are read since a moment ago.
		reading bool
		// unasked are clusters that no policy asks.
		unasked []string
		want    Decision
	}{
		"NotRequested": {want: cleared("not requested", "")},
		"NotEvaluated": {
			request: request{Singleton: want("c1")}, unknown: true,
			want: Decision{Action: Keep, Reason: "not evaluated yet"},
		},
		"SingletonOneCluster":                   {request: request{Singleton: want("c1")}, want: copied},
		"SingletonSameClusterTwice":             {request: request{Singleton: want("c1", "c1")}, want: copied},
		"SingletonNoCluster":                    {request: request{Singleton: want()}, want: cleared("no cluster", "0")},
		"SingletonSeveralClusters":              {request: request{Singleton: want("c1", "c2")}, want: cleared("several clusters", "2")},
		"SingletonNotReported":                  {request: request{Singleton: want("c2")}, want: cleared("not reported", "1", "c2")},
		"SingletonNotReportedYet":               {request: request{Singleton: want("c2")}, unread: true, want: keep("reports not known", "1", "c2")},
		"SingletonReportedWhileOthersAreUnread": {request: request{Singleton: want("c1")}, unread: true, want: copied},
		"SingletonReportedWithoutStatus":        {request: request{Singleton: want("bare")}, want: keep("reported without a status", "1", "bare")},
		"MultiOneClusterIsSingleton":            {request: request{MultiWEC: want("c1")}, want: copied},
		"MultiNoCluster":                        {request: request{MultiWEC: want()}, want: cleared("no cluster", "0")},
		"MultiOneReportOfSeveralIsNoCopy":       {request: request{MultiWEC: want("c2", "c1")}, want: half},
		"MultiNothingReported":                  {request: request{MultiWEC: want("c5", "c2", "bare")}, want: cleared("not reported", "3", "bare", "c2", "c5")},
		"MultiNotReadYet":                       {request: request{MultiWEC: want("c1", "c2")}, unread: true, reading: true, want: keep("reports not known", "2", "c2")},
		"MultiOneCannotBeRead":                  {request: request{MultiWEC: want("c1", "c2")}, unread: true, want: half},
		"MultiNothingCanBeRead":                 {request: request{MultiWEC: want("c2", "c5", "bare")}, unread: true, want: keep("reports not known", "3", "c2", "c5")},
		"MultiSeveral": {
			request: request{MultiWEC: want("c1", "c3", "c1")},
			want: Decision{
				Action: Combine, Clusters: []string{"c1", "c3"}, Status: map[string]any{"replicas": int64(2)}, Reason: "reported by 2 of 2",
				Executing: "2", Known: true,
			},
		},
		"MultiOneWithoutStatus": {
			request: request{MultiWEC: want("bare", "c1")},
			want: func() Decision {
				d := half
				d.Silent = []string{"bare"}
				d.Status = map[string]any{"replicas": int64(3), "unavailableReplicas": int64(3), "conditions": []any{map[string]any{
					"type": "starling.io/Incomplete", "status": "True", "reason": "NotReported", "message": "clusters whose status is not known: bare",
					"lastTransitionTime": "1970-01-01T00:00:00Z",
				}}}
				return d
			}(),
		},
		"BothOneClusterInUnion":            {request: request{Singleton: want("c1"), MultiWEC: want("c1")}, want: copied},
		"BothOneClusterInOne":              {request: request{Singleton: want(), MultiWEC: want("c1")}, want: copied},
		"BothOneClusterEach":               {request: request{Singleton: want("c1"), MultiWEC: want("c2")}, want: half},
		"BothSeveralSingletonNoMulti":      {request: request{Singleton: want("c1", "c2"), MultiWEC: want()}, want: half},
		"BothNoCluster":                    {request: request{Singleton: want(), MultiWEC: want()}, want: cleared("no cluster", "0")},
		"ClustersWithoutRequestDoNotCount": {unasked: []string{"c1"}, want: cleared("not requested", "")},
		"Namespace": {
			resource: schema.GroupResource{Resource: "namespaces"}, request: request{Singleton: want("c1")},
			want: Decision{Action: Keep, Known: true, Reason: "status of this kind is never returned"},
		},
		"KindWithoutStatus": {
			resource: schema.GroupResource{Group: "rbac.authorization.k8s.io", Resource: "rolebindings"}, request: request{Singleton: want("c1")},
			want: Decision{Action: Keep, Known: true, Reason: "status of this kind is never returned"},
		},
		"CustomResourceDefinition": {
			resource: schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"},
			request:  request{MultiWEC: want("c1", "c2")},
			want:     Decision{Action: Keep, Known: true, Reason: "status of this kind is never returned"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			resource := tc.resource
			if resource.Empty() {
				resource = deployments
			}
			got := Decide(resource, Evidence{
				Requests: match.Requests{
					Known: !tc.unknown, Singleton: tc.request.Singleton != nil, SingletonClusters: append(tc.unasked, tc.request.Singleton...),
					MultiWEC: tc.request.MultiWEC != nil, MultiWECClusters: tc.request.MultiWEC,
				},
				Report:  func(cluster string) (*Report, bool) { return reported[cluster], !tc.unread },
				Reading: tc.reading,
			})
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Decide (-want +got):\n%s", diff)
			}
		})
	}
}

// TestGenerations: observedGeneration is one of the object in the WDS.
func TestGenerations(t *testing.T) {
	for name, tc := range map[string]struct {
		generation int64 // of the object in the WDS
		report     Report
		want       int64 // 0 for none
	}{
		"Observed":               {generation: 3, report: Report{Generation: 7, Source: Source{UID: "u", Generation: 3}}, want: 3},
		"NotObservedYet":         {generation: 3, report: Report{Generation: 8, Source: Source{UID: "u", Generation: 3}}, want: 2},
		"ObservedALaterOne":      {generation: 4, report: Report{Generation: 6, Source: Source{UID: "u", Generation: 3}}, want: 3},
		"FirstNotObservedYet":    {generation: 1, report: Report{Generation: 8, Source: Source{UID: "u", Generation: 1}}, want: 0},
		"NewContentOnItsWay":     {generation: 4, report: Report{Generation: 7, Source: Source{UID: "u", Generation: 3}}, want: 3},
		"ContentNotKnown":        {generation: 4, report: Report{}, want: 3},
		"ContentNotKnownFewer":   {generation: 40, report: Report{}, want: 7},
		"ContentNotKnownOfFirst": {generation: 1, report: Report{}, want: 0},
		"OfALaterOne":            {generation: 2, report: Report{Generation: 7, Source: Source{UID: "u", Generation: 5}}, want: 1},
		"MadeAnew":               {generation: 3, report: Report{Generation: 7, Source: Source{UID: "before", Generation: 3}}, want: 2},
		"MadeAnewFirst":          {generation: 1, report: Report{Generation: 7, Source: Source{UID: "before", Generation: 1}}, want: 0},
		"KindWithoutGeneration":  {generation: 0, report: Report{}, want: 7},
	} {
		t.Run(name, func(t *testing.T) {
			condition := func(n int64) map[string]any {
				c := map[string]any{"type": "Ready", "status": "True"}
				if n > 0 {
					c["observedGeneration"] = n
				}
				return c
			}
			status := func(n int64) map[string]any {
				s := map[string]any{"replicas": int64(3), "conditions": []any{map[string]any{"type": "Other"}, condition(n), "odd"}}
				if n > 0 {
					s["observedGeneration"] = n
				}
				return s
			}
			tc.report.Status = status(7)
			got := tc.report.inTermsOf(Source{UID: "u", Generation: tc.generation})
			if diff := cmp.Diff(status(tc.want), got); diff != "" {
				t.Errorf("in terms of the WDS (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(status(7), tc.report.Status); diff != "" {
				t.Errorf("the report was changed:\n%s", diff)
			}
		})
	}
}

func TestParseSource(t *testing.T) {
	for text, want := range map[string]Source{
		"3/5a7c-u": {UID: "5a7c-u", Generation: 3}, "": {}, "3": {}, "3/": {}, "/u": {}, "-3/u": {}, "0/u": {UID: "u"}, "x/u": {},
		"0/u/ab12": {UID: "u", Hash: "ab12"}, "0//ab12": {}, "99999999999999999999/u": {},
	} {
		got, ok := ParseSource(text)
		if got != want || ok != (want != Source{}) || ok && got.String() != text {
			t.Errorf("ParseSource(%q) = %v, %v; want %v", text, got, ok, want)
		}
	}
}
