package agent

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/starlinghq/starling/pkg/dynamicinformer"
)

func TestRefusals(t *testing.T) {
	widgets := schema.GroupResource{Group: "example.com", Resource: "widgets"}
	gadgets := schema.GroupResource{Group: "example.com", Resource: "gadgets"}
	now := time.Unix(1000, 0)
	r := newRefusals()
	read := func() (resources int) {
		return len(r.without(map[schema.GroupResource]dynamicinformer.Resource{widgets: {}, gadgets: {}}, now))
	}
	if r.next(now) != 0 || read() != 2 {
		t.Error("something is refused already")
	}
	var delays []time.Duration
	for range 12 {
		r.add(widgets, now)
		wait := r.next(now)
		delays = append(delays, wait)
		r.add(widgets, now.Add(wait/2)) // late
		if r.next(now) != wait || read() != 1 {
			t.Errorf("next in %s, and %d are read", r.next(now), read())
		}
		now = now.Add(wait)
		if r.next(now) != 0 || read() != 2 {
			t.Errorf("after %s: next in %s, and %d are read", wait, r.next(now), read())
		}
		now = now.Add(time.Second) // the next response
	}
	const s = time.Second
	if diff := cmp.Diff([]time.Duration{s, 2 * s, 4 * s, 8 * s, 16 * s, 32 * s, 64 * s, 128 * s, 256 * s, 512 * s, 600 * s, 600 * s}, delays); diff != "" {
		t.Errorf("delays (-want +got):\n%s", diff)
	}

	r.add(widgets, now)
	r.add(gadgets, now)
	if r.next(now) != s || read() != 0 {
		t.Errorf("of two, next in %s, and %d are read", r.next(now), read())
	}
	r.forget()
	if r.next(now) != 0 || read() != 2 {
		t.Error("not forgotten")
	}

	// A right that is lost again.
	r.add(widgets, now)
	now = now.Add(s)
	r.add(widgets, now)
	now = now.Add(2 * time.Hour)
	r.add(widgets, now)
	if r.next(now) != s {
		t.Errorf("a right that is lost after hours: next in %s", r.next(now))
	}
	now = now.Add(2 * time.Hour)
	_ = r.next(now)
	if len(r.refused) != 0 {
		t.Errorf("keeps %v", r.refused)
	}
}
