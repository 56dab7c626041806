package ocm

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/health"
	"github.com/starlinghq/starling/pkg/core/objref"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
	"github.com/starlinghq/starling/pkg/statusreports/mailboxes"
	"github.com/starlinghq/starling/pkg/transport/plugin"
)

// heard is a Handler that keeps what it hears of reports.
type heard struct {
	listener
	verdicts map[string]plugin.Report // by mailbox and object
	partial  map[string]bool
	state    plugin.Reports
}

func (h *heard) OnReport(mailbox string, ref objref.Ref, report *plugin.Report) {
	if report == nil {
		delete(h.verdicts, mailbox+": "+ref.String())
	} else {
		h.verdicts[mailbox+": "+ref.String()] = *report
	}
}

func (h *heard) OnPartial(mailbox string, partial bool) { h.partial[mailbox] = partial }
func (h *heard) OnReports(state plugin.Reports)         { h.state = state }

func listen(limits mailboxes.Limits) (*mailboxes.Store[report], *heard) {
	h := &heard{verdicts: map[string]plugin.Report{}, partial: map[string]bool{}}
	return newReports("", limits, h), h
}

// workStatus returns the WorkStatus that the agent of a cluster writes for a Deployment.
func workStatus(cluster, name, status string) *controlv1alpha1.WorkStatus {
	ref := objref.Ref{Group: nginx.Group, Resource: nginx.Resource, Namespace: nginx.Namespace, Name: name}
	return &controlv1alpha1.WorkStatus{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: corestatus.ReportName(ref)},
		Spec: controlv1alpha1.WorkStatusSpec{SourceRef: controlv1alpha1.SourceRef{
			Group: ref.Group, Resource: ref.Resource, Kind: "Deployment", Version: "v1", Namespace: ref.Namespace, Name: ref.Name,
		}},
		Status: &runtime.RawExtension{Raw: []byte(status)},
	}
}

const available, stuck = `{"observedGeneration":1,"conditions":[{"type":"Available","status":"True"}]}`,
	`{"conditions":[{"type":"Progressing","status":"False","reason":"ProgressDeadlineExceeded","message":"timed out"}]}`

// TestReportsAreBounded: a mailbox with more WorkStatuses than are read of one cluster, or larger
// ones, affects only its own cluster: what is refused is not reported as known, until there is room
// again.
func TestReportsAreBounded(t *testing.T) {
	for name, tc := range map[string]struct {
		limits mailboxes.Limits
		prefix string // of the names of objects: they are the only part that an agent can make as long as it likes
	}{
		"ByCount": {limits: mailboxes.Limits{Reports: 20, Bytes: 1 << 20}},
		"BySize":  {limits: mailboxes.Limits{Reports: 1000, Bytes: 20 << 10}, prefix: strings.Repeat("x", 1000)},
	} {
		t.Run(name, func(t *testing.T) {
			s, h := listen(tc.limits)
			of := func(cluster string) (n int) {
				for text := range h.verdicts {
					if strings.HasPrefix(text, cluster+":") {
						n++
					}
				}
				return n
			}
			expect := func(what string, partial bool, greedy ...int) {
				t.Helper()
				if n := of("greedy"); n < greedy[0] || n > greedy[len(greedy)-1] || n != len(s.Of("greedy")) {
					t.Errorf("%s: %d reports of the greedy cluster are known, and %d kept, want %d", what, n, len(s.Of("greedy")), greedy)
				}
				if of("modest") != 2 || h.partial["modest"] || h.partial["greedy"] != partial || h.state != plugin.ReportsRead {
					t.Errorf("%s: %d reports of the other cluster are known; partial: %v; state %d", what, of("modest"), h.partial, h.state)
				}
				if refused := s.Refused(); refused["modest"] > 0 || partial != (refused["greedy"] > 0) {
					t.Errorf("%s: refused %v", what, refused)
				}
			}
			all := []any{workStatus("modest", "1", available)}
			for i := range 100 {
				all = append(all, workStatus("greedy", tc.prefix+fmt.Sprint(i), available))
			}
			if err := s.Replace(append(all, workStatus("modest", "2", stuck)), ""); err != nil {
				t.Fatal(err)
			}
			expect("listed", true, 18, 20)
			for i := range 100 {
				if err := s.Add(workStatus("greedy", tc.prefix+fmt.Sprint("more", i), available)); err != nil {
					t.Fatal(err)
				}
			}
			expect("added", true, 18, 20)
			if err := s.Replace([]any{
				workStatus("modest", "1", available), workStatus("modest", "2", stuck), workStatus("greedy", tc.prefix+"99", available),
			}, ""); err != nil {
				t.Fatal(err)
			}
			expect("with room again", false, 1)
			if _, known := h.verdicts["greedy: deployments.apps web/"+tc.prefix+"99"]; !known {
				t.Error("with room again, what was refused is not known")
			}
		})
	}
}

// TestReportChanges: the Handler hears of each change of a verdict, and of nothing that was written
// by hand.
func TestReportChanges(t *testing.T) {
	s, h := listen(mailboxes.DefaultLimits())
	byHand := workStatus("c", "web", stuck)
	byHand.Name = "by-hand"
	moved := workStatus("c", "web", available)
	moved.Spec.SourceRef.Name, moved.ResourceVersion = "api", "3"
	edited := workStatus("c", "web", stuck)
	edited.ResourceVersion = "2"
	const object = "c: deployments.apps web/web"
	recreated := workStatus("c", "web", stuck)
	recreated.ResourceVersion, recreated.Annotations = "3", map[string]string{controlv1alpha1.AnnotationSourceGeneration: "0/u2"}
	gone := workStatus("c", "web", "{}")
	gone.Status, gone.ResourceVersion, gone.Annotations = nil, "4", map[string]string{controlv1alpha1.AnnotationGone: "true"}
	nothing := health.Evaluate(schema.GroupKind{Group: "apps", Kind: "Deployment"}, nil, 0)
	illAgain := map[string]plugin.Report{object: {Verdict: health.Verdict{State: health.Unhealthy, Message: "ProgressDeadlineExceeded: timed out"}, Source: "u2"}}
	ill := map[string]plugin.Report{object: {Verdict: health.Verdict{State: health.Unhealthy, Message: "ProgressDeadlineExceeded: timed out"}}}
	for _, step := range []struct {
		what string
		do   func() error
		want map[string]plugin.Report
	}{
		{"by hand", func() error { return s.Add(byHand) }, nil},
		{"added", func() error { return s.Add(workStatus("c", "web", available)) }, map[string]plugin.Report{object: {}}},
		{"by hand again", func() error { return s.Update(byHand) }, map[string]plugin.Report{object: {}}},
		{"changed", func() error { return s.Update(edited) }, ill},
		{"of another object of that name", func() error { return s.Update(recreated) }, illAgain},
		{"that it is gone", func() error { return s.Update(gone) }, map[string]plugin.Report{object: {Verdict: nothing, Gone: true}}},
		{"of this one again", func() error { return s.Update(edited) }, ill},
		{"by hand, deleted", func() error { return s.Delete(byHand) }, ill},
		{"listed", func() error { return s.Replace([]any{edited, byHand}, "") }, ill},
		{"about another object", func() error { return s.Update(moved) }, nil},
		{"corrected", func() error { return s.Update(edited) }, ill},
		{"gone while nobody watched", func() error { return s.Replace(nil, "") }, nil},
		{"added again", func() error { return s.Add(edited) }, ill},
		{"deleted", func() error { return s.Delete(edited) }, nil},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(step.want, h.verdicts) {
			t.Errorf("%s (-want +got):\n%s", step.what, cmp.Diff(step.want, h.verdicts))
		}
	}
	if partial := slices.Collect(maps.Keys(h.partial)); len(partial) > 0 || len(s.Refused()) > 0 {
		t.Errorf("partial: %q, refused: %v", partial, s.Refused())
	}
}
