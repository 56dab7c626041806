package git

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/go-git/go-git/v5/plumbing/transport"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/packages/remote"
	"github.com/starlinghq/starling/test/golden"
)

// TestTexts has errors in the specs of Repositories, and of servers.
func TestTexts(t *testing.T) {
	var texts []golden.Text
	add := func(heading string, err error) {
		t.Helper()
		if err == nil {
			t.Errorf("%s: no error", heading)
			return
		}
		texts = append(texts, golden.Text{Heading: fmt.Sprintf("%s: %s", remote.KindOf(err), heading), Text: err.Error()})
	}
	for _, repo := range []string{
		"git.example", "https://", "http://git.example/packages.git", "https://git.example/packages.git?a=b", "file://packages.git",
		"file:///etc/packages.git",
	} {
		_, err := parseAddress(repo, nil, false)
		add("spec.git.repo "+repo, err)
	}
	for _, key := range []string{keyPrivateKey, remote.KeyCA} {
		_, err := parseCredentials(map[string][]byte{key: []byte("x")})
		add("Secret with an invalid "+key, err)
	}
	ssh := address{scheme: "ssh", host: "git.example"}
	_, err := newSSH(ssh, credentials{}, Options{})
	add("Secret without known_hosts", err)
	_, err = newSSH(ssh, credentials{knownHosts: []byte("x")}, Options{})
	add("Secret without credentials", err)
	_, err = newSSH(ssh, credentials{knownHosts: []byte("x"), password: "x"}, Options{})
	add("Secret with invalid known_hosts", err)
	_, err = openLocal(filepath.Join(t.TempDir(), "none"), remote.Limits{})
	add("no repository", err)
	server := &serverSource{transfer: &transfer{limit: 512 << 20}}
	add("no repository", server.classify(transport.ErrRepositoryNotFound))
	add("credentials", server.classify(transport.ErrAuthenticationRequired))
	add("redirect", server.classify(errRedirectHost))
	add("transfer", server.transfer.errTooLarge())
	texts = append(texts, golden.Text{Heading: "problem of a package", Text: remote.CheckFiles(kpt.Files{"a.yaml": "a: 1\n"})})
	golden.Texts(t, texts...)
}
