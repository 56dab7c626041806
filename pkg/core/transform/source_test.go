package transform

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/status"
)

func TestSource(t *testing.T) {
	ref := objref.Ref{Group: "apps", Resource: "deployments", Namespace: "web", Name: "nginx"}
	apply := func(t *testing.T, annotations string, steps ...Step) Object {
		t.Helper()
		var obj map[string]any
		if err := json.Unmarshal([]byte(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"nginx","generation":3`+annotations+`},"spec":{}}`), &obj); err != nil {
			t.Fatal(err)
		}
		object, err := Standard(steps...).Apply(ref, obj)
		if err != nil {
			t.Fatal(err)
		}
		return object
	}
	plain, noted := apply(t, ""), apply(t, `,"annotations":{"note":"x"}`)
	for name, tc := range map[string]struct {
		annotations string
		generation  int64
		want        string
		wantContent Hash
	}{
		"Plain":            {generation: 3, want: `{"annotations":{"starling.io/source-generation":"3/u"},"name":"nginx"}`, wantContent: plain.Hash},
		"BesidesOthers":    {`,"annotations":{"note":"x"}`, 4, `{"annotations":{"note":"x","starling.io/source-generation":"4/u"},"name":"nginx"}`, noted.Hash},
		"NoGeneration":     {want: `{"annotations":{"starling.io/source-generation":"0/u/` + plain.Hash.String()[:16] + `"},"name":"nginx"}`, wantContent: plain.Hash},
		"WrittenByTheUser": {`,"annotations":{"starling.io/source-generation":"99"}`, 3, `{"annotations":{"starling.io/source-generation":"3/u"},"name":"nginx"}`, plain.Hash},
		"OfAPackage":       {`,"annotations":{"starling.io/source-generation":"99"}`, -1, `{"name":"nginx"}`, plain.Hash},
	} {
		t.Run(name, func(t *testing.T) {
			from := status.Source{UID: "u", Generation: tc.generation}
			if tc.generation < 0 {
				from = status.Source{}
			}
			object := apply(t, tc.annotations, Source(from))
			var got struct {
				Metadata json.RawMessage `json:"metadata"`
			}
			if err := json.Unmarshal(object.JSON, &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, string(got.Metadata)); diff != "" {
				t.Errorf("metadata (-want +got):\n%s", diff)
			}
			if object.Content() != tc.wantContent {
				t.Error("the hash of the content counts what differs between WDSes")
			}
			if object.Hash != HashOf(object.JSON) {
				t.Error("the hash is not that of the bytes")
			}
		})
	}
	third, fourth := apply(t, "", Source(status.Source{UID: "u", Generation: 3})), apply(t, "", Source(status.Source{UID: "u", Generation: 4}))
	anew := apply(t, "", Source(status.Source{UID: "v", Generation: 3}))
	if third.Hash == fourth.Hash || third.Hash == anew.Hash || third.Content() != fourth.Content() || third.Content() != anew.Content() {
		t.Error("want other bytes, and the same content")
	}
	a, errA := third.Shared(false)
	b, errB := fourth.Shared(false)
	if errA != nil || errB != nil || a.Hash != b.Hash || a.Content() != plain.Hash {
		t.Errorf("want the same bytes beside each other (%v, %v)", errA, errB)
	}
	if same, err := third.Shared(true); err != nil || same.Hash != plain.Hash {
		t.Errorf("want the bytes of what names no source (%v)", err)
	}
	if same, err := plain.Shared(false); err != nil || same.Hash != plain.Hash {
		t.Errorf("what names no source changed (%v)", err)
	}
}
