package binding

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestEvents(t *testing.T) {
	const yes, no, unknown = metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown
	is := func(kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: "why"}
	}
	synced, ready := is("Synced", yes, "Synced"), is("Ready", yes, "Applied")
	held, delivering := is("RemovalBlocked", yes, "RemovalLimitExceeded"), is("Ready", no, "NotDelivered")
	cases := map[string]struct {
		before, after []metav1.Condition
		want          []string
	}{
		"Same":         {[]metav1.Condition{synced, ready}, []metav1.Condition{synced, ready}, nil},
		"New":          {nil, []metav1.Condition{synced, delivering}, nil},
		"Ready":        {[]metav1.Condition{synced, delivering}, []metav1.Condition{synced, ready}, []string{"Normal Ready: why"}},
		"UnderWay":     {[]metav1.Condition{synced, ready}, []metav1.Condition{synced, delivering}, nil},
		"Errors":       {[]metav1.Condition{synced, ready}, []metav1.Condition{synced, is("Ready", no, "Errors")}, []string{"Warning Errors: why"}},
		"Invalid":      {[]metav1.Condition{synced}, []metav1.Condition{is("Synced", no, "InvalidSpec")}, []string{"Warning InvalidSpec: why"}},
		"StillInvalid": {[]metav1.Condition{is("Synced", no, "InvalidSpec")}, []metav1.Condition{is("Synced", no, "InvalidSpec")}, nil},
		"NameTaken":    {nil, []metav1.Condition{is("Synced", no, "NameTaken")}, []string{"Warning NameTaken: why"}},
		"NotObserved":  {nil, []metav1.Condition{is("Synced", unknown, "NotObserved")}, []string{"Warning NotObserved: why"}},
		"Deleting":     {[]metav1.Condition{synced}, []metav1.Condition{is("Synced", no, "Deleting")}, []string{"Normal Deleting: why"}},
		"Held":         {[]metav1.Condition{synced}, []metav1.Condition{is("Synced", no, "RemovalBlocked"), held}, []string{"Warning RemovalBlocked: why"}},
		"Healthy":      {[]metav1.Condition{ready}, []metav1.Condition{ready, is("Healthy", yes, "Healthy")}, []string{"Normal Healthy: why"}},
		"Unhealthy":    {[]metav1.Condition{ready}, []metav1.Condition{ready, is("Healthy", no, "Unhealthy")}, []string{"Warning Unhealthy: why"}},
		"NothingIsHealthy": { // without destinations
			[]metav1.Condition{ready},
			[]metav1.Condition{is("Ready", no, "NoDestinations"), is("Healthy", yes, "Healthy")},
			[]string{"Warning NoDestinations: why"},
		},
		"NoObjects": {
			[]metav1.Condition{ready},
			[]metav1.Condition{is("Ready", no, "NoObjects"), is("Healthy", yes, "Healthy")},
			[]string{"Normal NoObjects: why"},
		},
		"Released": {
			[]metav1.Condition{is("Synced", no, "RemovalBlocked"), held},
			[]metav1.Condition{synced},
			[]string{"Normal Released: no removal is blocked any more: the change was allowed or reverted"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, e := range Events(tc.before, tc.after) {
				got = append(got, e.Type+" "+e.Reason+": "+e.Note)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestEventNotesAreBounded(t *testing.T) {
	ready := metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Applied", Message: strings.Repeat("…", 1000)}
	if note := Events(nil, []metav1.Condition{ready})[0].Note; len(note) >= 1024 || !utf8.ValidString(note) {
		t.Errorf("%d bytes, valid: %t", len(note), utf8.ValidString(note))
	}
}
