package certificates_test

import (
	"crypto/x509"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/starlinghq/starling/pkg/certificates"
)

const (
	life        = 90 * 24 * time.Hour
	renewBefore = 30 * 24 * time.Hour
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func newAuthority(t *testing.T) (*certificates.Authority, certificates.Pair) {
	t.Helper()
	authority, pair, err := certificates.EnsureAuthority(certificates.Pair{}, "ca", now)
	if err != nil {
		t.Fatal(err)
	}
	return authority, pair
}

func leafOf(t *testing.T, p certificates.Pair) *x509.Certificate {
	t.Helper()
	pair, err := p.Parse()
	if err != nil {
		t.Fatal(err)
	}
	return pair.Leaf
}

func server() certificates.Leaf {
	return certificates.Leaf{
		User: "apiserver", Names: []string{"kubernetes", "wds1.starling-system.svc"}, IPs: []net.IP{net.IPv4(10, 0, 0, 1)},
		Life: life, RenewBefore: renewBefore,
	}
}

func TestLeafIsValid(t *testing.T) {
	authority, ca := newAuthority(t)
	client := certificates.Leaf{User: "somebody", Groups: []string{"some-group"}, Life: life}
	peer := server()
	peer.Peer = true
	roots := x509.NewCertPool()
	roots.AddCert(leafOf(t, ca))
	for name, c := range map[string]struct {
		leaf   certificates.Leaf
		usages []x509.ExtKeyUsage
		host   string
	}{
		"server": {leaf: server(), usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, host: "wds1.starling-system.svc"},
		"at IP":  {leaf: server(), usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, host: "10.0.0.1"},
		"client": {leaf: client, usages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}},
		"peer":   {leaf: peer, usages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, host: "kubernetes"},
	} {
		t.Run(name, func(t *testing.T) {
			pair, err := authority.Ensure(certificates.Pair{}, c.leaf, now)
			if err != nil {
				t.Fatal(err)
			}
			got := leafOf(t, pair)
			for _, usage := range c.usages {
				_, err := got.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now, DNSName: c.host, KeyUsages: []x509.ExtKeyUsage{usage}})
				if err != nil {
					t.Errorf("verify for usage %v: %v", usage, err)
				}
			}
			if len(got.ExtKeyUsage) != len(c.usages) {
				t.Errorf("usages are %v, want %v", got.ExtKeyUsage, c.usages)
			}
			if want := now.Add(life); !got.NotAfter.Equal(want) {
				t.Errorf("valid until %v, want %v", got.NotAfter, want)
			}
		})
	}
	pair, err := authority.Ensure(certificates.Pair{}, client, now)
	if err != nil {
		t.Fatal(err)
	}
	if s := leafOf(t, pair).Subject; s.CommonName != "somebody" || len(s.Organization) != 1 || s.Organization[0] != "some-group" {
		t.Errorf("subject is %v", s)
	}
}

func TestLeafIsReplaced(t *testing.T) {
	authority, _ := newAuthority(t)
	other, _ := newAuthority(t)
	old, err := authority.Ensure(certificates.Pair{}, server(), now)
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := authority.Ensure(certificates.Pair{}, server(), now)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		by    *certificates.Authority
		old   certificates.Pair
		leaf  func(*certificates.Leaf)
		after time.Duration
		want  bool
	}{
		"new":                {after: 24 * time.Hour},
		"before its end":     {after: life - renewBefore - time.Hour},
		"near its end":       {after: life - renewBefore + time.Hour, want: true},
		"expired":            {after: life + time.Hour, want: true},
		"of another CA":      {by: other, want: true},
		"with another's key": {old: certificates.Pair{Certificate: old.Certificate, Key: foreign.Key}, want: true},
		"garbled":            {old: certificates.Pair{Certificate: old.Certificate[:30], Key: old.Key}, want: true},
		"another name":       {leaf: func(l *certificates.Leaf) { l.Names = append(l.Names, "api.example.com") }, want: true},
		"another IP":         {leaf: func(l *certificates.Leaf) { l.IPs = nil }, want: true},
		"another user":       {leaf: func(l *certificates.Leaf) { l.User = "else" }, want: true},
		"another group":      {leaf: func(l *certificates.Leaf) { l.Groups = []string{"else"} }, want: true},
		"another usage":      {leaf: func(l *certificates.Leaf) { l.Peer = true }, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			by, before, leaf := authority, old, server()
			if c.by != nil {
				by = c.by
			}
			if c.old.Key != nil {
				before = c.old
			}
			if c.leaf != nil {
				c.leaf(&leaf)
			}
			got, err := by.Ensure(before, leaf, now.Add(c.after))
			if err != nil {
				t.Fatal(err)
			}
			if replaced := !got.Equal(before); replaced != c.want {
				t.Errorf("replaced: want %t, got %t", c.want, replaced)
			}
			again, err := by.Ensure(got, leaf, now.Add(c.after))
			if err != nil || !again.Equal(got) {
				t.Errorf("replaced twice, or %v", err)
			}
		})
	}
}

// TestAuthorityIsNeverReplaced checks that no damage makes what an authority has signed invalid.
func TestAuthorityIsNeverReplaced(t *testing.T) {
	_, ca := newAuthority(t)
	_, other := newAuthority(t)
	for name, c := range map[string]struct {
		old  certificates.Pair
		lost bool
	}{
		"whole":                                       {old: ca},
		"the certificate is missing":                  {old: certificates.Pair{Key: ca.Key}},
		"the certificate is empty":                    {old: certificates.Pair{Certificate: []byte{}, Key: ca.Key}},
		"the certificate is garbled":                  {old: certificates.Pair{Certificate: ca.Certificate[:20], Key: ca.Key}},
		"the key is missing":                          {old: certificates.Pair{Certificate: ca.Certificate}, lost: true},
		"the key is empty":                            {old: certificates.Pair{Certificate: ca.Certificate, Key: []byte{}}, lost: true},
		"the key is garbled":                          {old: certificates.Pair{Certificate: ca.Certificate, Key: ca.Key[:20]}, lost: true},
		"the key is another one":                      {old: certificates.Pair{Certificate: ca.Certificate, Key: other.Key}, lost: true},
		"the key is a certificate":                    {old: certificates.Pair{Certificate: ca.Certificate, Key: ca.Certificate}, lost: true},
		"both are damaged":                            {old: certificates.Pair{Certificate: []byte{}, Key: []byte{}}, lost: true},
		"the certificate is damaged, the key is gone": {old: certificates.Pair{Certificate: []byte("?")}, lost: true},
	} {
		t.Run(name, func(t *testing.T) {
			_, got, err := certificates.EnsureAuthority(c.old, "ca", now.Add(time.Hour))
			if lost := errors.Is(err, certificates.ErrLost); lost != c.lost {
				t.Fatalf("lost: want %t, got %v", c.lost, err)
			}
			if c.lost {
				if !got.Equal(c.old) {
					t.Error("the pair changed")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if string(got.Key) != string(ca.Key) {
				t.Error("the authority has another key: what it signed is invalid now")
			}
			leafOf(t, got)
		})
	}
}
