package localfleet

import (
	"crypto/x509"
	"os"
	"testing"
	"time"
)

func TestPKI(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	p := pkiDir{dir: t.TempDir(), now: now}
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
	roots := x509.NewCertPool()
	roots.AddCert(ca.Leaf)
	_, err = admin.Leaf.Verify(x509.VerifyOptions{
		Roots: roots, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		t.Errorf("verify: %v", err)
	}
	if s := admin.Leaf.Subject; s.CommonName != "somebody" || len(s.Organization) != 1 || s.Organization[0] != "some-group" {
		t.Errorf("subject is %v", s)
	}
	info, err := os.Stat(p.key("admin"))
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the key has mode %v", info.Mode())
	}
}

func TestCertificateIsRenewed(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	dir := t.TempDir()
	cases := map[string]struct {
		after   time.Duration
		otherCA bool
		// otherKey is the state after a renewal that was interrupted between its two files.
		otherKey bool
		want     bool
	}{
		"new":                {after: 24 * time.Hour},
		"in its last month":  {after: leafLife - 29*24*time.Hour, want: true},
		"expired":            {after: leafLife + time.Hour, want: true},
		"of another CA":      {after: time.Hour, otherCA: true, want: true},
		"with another's key": {after: time.Hour, otherKey: true, want: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			first := pkiDir{dir: dir + "/" + name, now: now}
			ca, err := first.ca("ca")
			if err != nil {
				t.Fatal(err)
			}
			if err := first.server("server", ca, nil, "example"); err != nil {
				t.Fatal(err)
			}
			before, err := first.load("server")
			if err != nil {
				t.Fatal(err)
			}
			later := pkiDir{dir: first.dir, now: now.Add(c.after)}
			if c.otherCA {
				if ca, err = later.ca("other"); err != nil {
					t.Fatal(err)
				}
			}
			if c.otherKey {
				key, err := os.ReadFile(later.key("ca"))
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(later.key("server"), key, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := later.server("server", ca, nil, "example"); err != nil {
				t.Fatal(err)
			}
			after, err := later.load("server")
			if err != nil {
				t.Fatal(err)
			}
			if got := !before.Leaf.Equal(after.Leaf); got != c.want {
				t.Errorf("renewed: want %t, got %t", c.want, got)
			}
		})
	}
}
