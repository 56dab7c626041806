package inventory_test

import (
	"testing"
	"time"

	"github.com/starlinghq/starling/pkg/core/inventory"
)

func TestChoose(t *testing.T) {
	early, late := time.Unix(1, 0), time.Unix(2, 0)
	cases := map[string]struct {
		candidates map[string]inventory.Candidate
		unknown    bool
		want       string
		wantNone   bool
	}{
		"None":       {wantNone: true},
		"One":        {candidates: map[string]inventory.Candidate{"its1": {}}, want: "its1"},
		"TheEarlier": {candidates: map[string]inventory.Candidate{"its1": {Since: late, UID: "1"}, "its2": {Since: early, UID: "2"}}, want: "its2"},
		"ByUID":      {candidates: map[string]inventory.Candidate{"its1": {Since: early, UID: "2"}, "its2": {Since: early, UID: "1"}}, want: "its2"},
		"NoLonger":   {candidates: map[string]inventory.Candidate{"its2": {Since: late, Refused: true}}, want: "its2"},
		"PerhapsStill": {
			candidates: map[string]inventory.Candidate{"its2": {Since: late, Refused: true}}, unknown: true, wantNone: true,
		},
		"NeverRefused": {
			candidates: map[string]inventory.Candidate{"its2": {Since: late}, "its3": {Since: early, Refused: true}}, unknown: true, want: "its2",
		},
		"MarkedWronglyAndAllKnown": {
			candidates: map[string]inventory.Candidate{"its2": {Since: late}, "its3": {Since: early, Refused: true}}, want: "its3",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			members := map[string]inventory.Member{}
			for its, c := range tc.candidates {
				members[its] = inventory.Member{Candidate: c, Accepted: true}
			}
			got, state := inventory.Choose(members, !tc.unknown)
			if got != tc.want || (state == inventory.Accepted) == tc.wantNone {
				t.Errorf("Choose() = %q, %d, want %q, accepted: %t", got, state, tc.want, !tc.wantNone)
			}
		})
	}
}
