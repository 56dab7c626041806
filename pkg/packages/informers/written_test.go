package informers

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestPendingWriteObserved checks that a cache is recognised as behind or up to date.
func TestPendingWriteObserved(t *testing.T) {
	object := func(version, uid string, deleting bool) metav1.Object {
		o := &metav1.ObjectMeta{ResourceVersion: version, UID: "1"}
		if deleting {
			o.DeletionTimestamp = &metav1.Time{}
		}
		if uid != "" {
			o.UID = "2"
		}
		return o
	}
	for name, tc := range map[string]struct {
		wrote PendingWrite
		has   metav1.Object
		want  bool
	}{
		"Older":         {PendingWrite{Version: "10"}, object("9", "", false), false},
		"Same":          {PendingWrite{Version: "10"}, object("10", "", false), true},
		"Newer":         {PendingWrite{Version: "10"}, object("11", "", false), true},
		"NotYet":        {PendingWrite{Version: "10"}, nil, false},
		"DeletedStill":  {PendingWrite{Deleted: "1"}, object("9", "", false), false},
		"Deleting":      {PendingWrite{Deleted: "1"}, object("11", "", true), true},
		"Gone":          {PendingWrite{Deleted: "1"}, nil, true},
		"CreatedNotYet": {PendingWrite{AlreadyExists: true}, nil, false},
		"Created":       {PendingWrite{AlreadyExists: true}, object("9", "", false), true},
		"AnotherOfThat": {PendingWrite{Deleted: "1"}, object("12", "other", false), true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.wrote.isObservedIn(tc.has); got != tc.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

// TestPendingWritesWait checks that writes that were observed, or timed out, are not waited for.
func TestPendingWritesWait(t *testing.T) {
	now := time.Now()
	w := PendingWrites{
		"shown": {Version: "1", At: now}, "missed": {Version: "9", At: now.Add(-pendingTimeout)},
		"behind": {Version: "9", At: now.Add(-time.Second)}, "later": {Version: "9", At: now.Add(-2 * time.Second)},
	}
	shown := func(string) metav1.Object { return &metav1.ObjectMeta{ResourceVersion: "5"} }
	if got := w.Wait(now, shown); got != pendingTimeout-time.Second || len(w) != 2 {
		t.Errorf("%s, with %v", got, w)
	}
	if got := w.Wait(now, func(string) metav1.Object { return &metav1.ObjectMeta{ResourceVersion: "9"} }); got != 0 || len(w) != 0 {
		t.Errorf("%s, with %v", got, w)
	}
}
