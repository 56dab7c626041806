package localfleet

import (
	"os"
	"testing"
	"time"
)

// TestPKI checks that files keep what pkg/certificates issues, and nobody else can read a key.
func TestPKI(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	p := pkiDir{dir: t.TempDir(), now: now}
	issue := func(p pkiDir) string {
		t.Helper()
		ca, err := p.ca("ca")
		if err != nil {
			t.Fatal(err)
		}
		if err := p.client("admin", ca, "somebody", "some-group"); err != nil {
			t.Fatal(err)
		}
		admin, err := p.load("admin")
		if err != nil {
			t.Fatal(err)
		}
		if s := admin.Leaf.Subject; s.CommonName != "somebody" || len(s.Organization) != 1 || s.Organization[0] != "some-group" {
			t.Errorf("subject is %v", s)
		}
		return admin.Leaf.SerialNumber.String()
	}
	first := issue(p)
	for name, c := range map[string]struct {
		after   time.Duration
		renewed bool
	}{
		"the next day":      {after: 24 * time.Hour},
		"in its last month": {after: leafLife - 29*24*time.Hour, renewed: true},
	} {
		later := pkiDir{dir: t.TempDir(), now: now.Add(c.after)}
		if err := os.CopyFS(later.dir, os.DirFS(p.dir)); err != nil {
			t.Fatal(err)
		}
		if renewed := issue(later) != first; renewed != c.renewed {
			t.Errorf("%s: renewed: want %t, got %t", name, c.renewed, renewed)
		}
	}
	for _, name := range []string{"ca", "admin"} {
		info, err := os.Stat(p.key(name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("the key of %s has mode %v", name, info.Mode())
		}
	}
}
