package backup_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/starlinghq/starling/pkg/hostedspace/backup"
)

// directory has three complete backups of wds1, incomplete ones, and what is somebody else's.
var directory = []string{
	"lost+found", "notes.txt",
	"wds1-20260101T000000Z.db", "wds1-20260101T000000Z.json",
	"wds1-20260102T000000Z.db",
	"wds1-20260103T000000Z.db", "wds1-20260103T000000Z.json",
	"wds1-20260104T000000Z.db.part",
	"wds1-20260105T000000Z.db", "wds1-20260105T000000Z.json",
	"wds1-20260106T000000Z.db.part",
	"wds1-b-20260107T000000Z.db", "wds1-b-20260107T000000Z.json",
}

func TestChoose(t *testing.T) {
	for name, c := range map[string]struct{ space, name, want, err string }{
		"the newest":         {"wds1", "latest", "wds1-20260105T000000Z.db", ""},
		"by name":            {"wds1", "wds1-20260101T000000Z.db", "wds1-20260101T000000Z.db", ""},
		"incomplete":         {"wds1", "wds1-20260102T000000Z.db", "", "wds1-20260105T000000Z.db, wds1-20260103T000000Z.db, wds1-20260101T000000Z.db"},
		"of another space":   {"wds1", "wds1-b-20260107T000000Z.db", "", "no complete backup"},
		"a longer name":      {"wds1-b", "latest", "wds1-b-20260107T000000Z.db", ""},
		"no backup":          {"its1", "latest", "", `no complete backup of space "its1"`},
		"outside of the dir": {"wds1", "../wds1-20260101T000000Z.db", "", "no complete backup"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := backup.Choose(directory, c.space, c.name)
			if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

func TestExpired(t *testing.T) {
	for name, c := range map[string]struct {
		keep int
		want []string
	}{
		"all are kept": {9, []string{"wds1-20260102T000000Z.db", "wds1-20260104T000000Z.db.part"}},
		"two": {2, []string{
			"wds1-20260101T000000Z.json", "wds1-20260101T000000Z.db", "wds1-20260102T000000Z.db", "wds1-20260104T000000Z.db.part",
		}},
		"one": {1, []string{
			"wds1-20260103T000000Z.json", "wds1-20260103T000000Z.db", "wds1-20260101T000000Z.json", "wds1-20260101T000000Z.db",
			"wds1-20260102T000000Z.db", "wds1-20260104T000000Z.db.part",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, backup.Expired(directory, "wds1", c.keep)); diff != "" {
				t.Errorf("expired (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFileName(t *testing.T) {
	at := time.Date(2026, 1, 5, 10, 0, 0, 0, time.FixedZone("", 3600))
	got := backup.FileName("wds1", at)
	if got != "wds1-20260105T090000Z.db" || backup.InfoFile(got) != "wds1-20260105T090000Z.json" {
		t.Errorf("names are %q and %q", got, backup.InfoFile(got))
	}
}
