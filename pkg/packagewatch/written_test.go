package packagewatch

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestShownBy: a cache that is behind what was written is told from one that is not.
func TestShownBy(t *testing.T) {
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
		wrote Written
		has   metav1.Object
		want  bool
	}{
		"Older":         {Written{Version: "10"}, object("9", "", false), false},
		"Same":          {Written{Version: "10"}, object("10", "", false), true},
		"Newer":         {Written{Version: "10"}, object("11", "", false), true},
		"NotYet":        {Written{Version: "10"}, nil, false},
		"DeletedStill":  {Written{Deleted: "1"}, object("9", "", false), false},
		"Deleting":      {Written{Deleted: "1"}, object("11", "", true), true},
		"Gone":          {Written{Deleted: "1"}, nil, true},
		"CreatedNotYet": {Written{Created: true}, nil, false},
		"Created":       {Written{Created: true}, object("9", "", false), true},
		"AnotherOfThat": {Written{Deleted: "1"}, object("12", "other", false), true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.wrote.shownBy(tc.has); got != tc.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

// TestBehind: what is shown, or was waited for too long, is not waited for any more.
func TestBehind(t *testing.T) {
	now := time.Now()
	w := Writes{
		"shown": {Version: "1", At: now}, "missed": {Version: "9", At: now.Add(-patience)},
		"behind": {Version: "9", At: now.Add(-time.Second)}, "later": {Version: "9", At: now.Add(-2 * time.Second)},
	}
	shown := func(string) metav1.Object { return &metav1.ObjectMeta{ResourceVersion: "5"} }
	if got := w.Behind(now, shown); got != patience-time.Second || len(w) != 2 {
		t.Errorf("%s, with %v", got, w)
	}
	if got := w.Behind(now, func(string) metav1.Object { return &metav1.ObjectMeta{ResourceVersion: "9"} }); got != 0 || len(w) != 0 {
		t.Errorf("%s, with %v", got, w)
	}
}
