package git

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/starlinghq/starling/pkg/packages/remote"
)

const connectTimeout = 30 * time.Second

// newSSH returns a source over SSH. It uses only the credentials of the Secret, and no SSH agent,
// configuration or known hosts of the user of this process. It does not connect to a server whose
// key is not in the Secret.
func newSSH(a address, c credentials, o Options) (*serverSource, error) {
	if len(c.knownHosts) == 0 {
		return nil, remote.Errorf(remote.SecretNotFound, "the Secret has no key %s: it must be the host keys of the server, as ssh-keyscan prints them", keyKnownHosts)
	}
	var auth []ssh.AuthMethod
	if c.signer != nil {
		auth = append(auth, ssh.PublicKeys(c.signer))
	}
	if c.password != "" {
		auth = append(auth, ssh.Password(c.password))
	}
	if len(auth) == 0 {
		return nil, remote.Errorf(remote.SecretNotFound, "the Secret has no key %s", keyPrivateKey)
	}
	check, err := hostKeys(c.knownHosts)
	if err != nil {
		return nil, err
	}
	server := net.JoinHostPort(a.host, strconv.Itoa(cmp.Or(a.port, 22)))
	config := &ssh.ClientConfig{User: cmp.Or(a.user, c.username, "git"), Auth: auth, HostKeyCallback: check, HostKeyAlgorithms: algorithms(check, server), Timeout: connectTimeout}
	received := &transfer{limit: o.Limits.Bytes}
	start := func(service string) *sshSession {
		return &sshSession{server: server, config: config, command: service + " " + quote(a.path), transfer: received}
	}
	return &serverSource{
		upload: func() (transport.UploadPackSession, error) { return start(transport.UploadPackServiceName), nil },
		receive: func() (transport.ReceivePackSession, error) {
			s := start(transport.ReceivePackServiceName)
			s.writes = true
			return s, nil
		},
		closeConnections: func() {},
		limits:           o.Limits,
		transfer:         received,
		temp:             o.TempDir,
	}, nil
}

// quote quotes a path for the shell of the server.
func quote(path string) string { return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'" }

// hostKeys parses known hosts. The library only accepts files.
func hostKeys(known []byte) (ssh.HostKeyCallback, error) {
	dir, err := os.MkdirTemp("", "starling-known-hosts-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, keyKnownHosts)
	if err := os.WriteFile(file, known, 0o600); err != nil {
		return nil, err
	}
	check, err := knownhosts.New(file)
	if err != nil {
		return nil, remote.Errorf(remote.SecretNotFound, "the key %s of the Secret is invalid: it must have the format of ssh-keyscan", keyKnownHosts)
	}
	return check, nil
}

// algorithms returns the algorithms of the known keys of a server. The client offers only these;
// otherwise the server could present another key, which is not known.
func algorithms(check ssh.HostKeyCallback, server string) []string {
	var known *knownhosts.KeyError
	nobody := &net.TCPAddr{IP: net.IPv4zero}
	if !errors.As(check(server, nobody, unknownKey{}), &known) {
		return nil
	}
	var all []string
	for _, key := range known.Want {
		if kind := key.Key.Type(); kind == ssh.KeyAlgoRSA {
			all = append(all, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256)
		} else {
			all = append(all, kind)
		}
	}
	return all
}

// unknownKey is a key that no server has.
type unknownKey struct{}

func (unknownKey) Type() string                        { return "none" }
func (unknownKey) Marshal() []byte                     { return nil }
func (unknownKey) Verify([]byte, *ssh.Signature) error { return errors.New("no key") }

// sshSession is one run of a service on a server: it reads references, and sends at most one
// request.
type sshSession struct {
	server   string
	config   *ssh.ClientConfig
	command  string
	writes   bool
	transfer *transfer

	client *ssh.Client
	in     io.WriteCloser
	out    io.Reader
	stop   func() bool
}

// connect connects and starts the service. Everything ends with the context.
func (s *sshSession) connect(ctx context.Context) error {
	conn, err := (&net.Dialer{Timeout: connectTimeout}).DialContext(ctx, "tcp", s.server)
	if err != nil {
		return err
	}
	s.stop = context.AfterFunc(ctx, func() { conn.Close() })
	c, channels, requests, err := ssh.NewClientConn(conn, s.server, s.config)
	if err != nil {
		conn.Close()
		return s.handshakeError(err)
	}
	s.client = ssh.NewClient(c, channels, requests)
	session, err := s.client.NewSession()
	if err != nil {
		return err
	}
	if s.in, err = session.StdinPipe(); err != nil {
		return err
	}
	out, err := session.StdoutPipe()
	if err != nil {
		return err
	}
	s.out = s.transfer.bound(io.NopCloser(out))
	return session.Start(s.command)
}

// handshakeError returns the error of a failed handshake with its kind.
func (s *sshSession) handshakeError(err error) error {
	var key *knownhosts.KeyError
	switch {
	case errors.As(err, &key) && len(key.Want) == 0:
		return remote.Errorf(remote.Unauthorized, "the key %s of the Secret has no host key of %s", keyKnownHosts, s.server)
	case errors.As(err, &key):
		return remote.Errorf(remote.Unauthorized, "the host key of %s differs from the one in the key %s of the Secret", s.server, keyKnownHosts)
	case strings.Contains(err.Error(), "unable to authenticate"): // x/crypto/ssh v0.46 has no type for it
		return remote.Errorf(remote.Unauthorized, "%s does not accept the credentials of the Secret for user %q", s.server, s.config.User)
	}
	return err
}

// AdvertisedReferences is required by the interface and not used.
func (s *sshSession) AdvertisedReferences() (*packp.AdvRefs, error) {
	return nil, errors.New("AdvertisedReferences is not supported")
}

// AdvertisedReferencesContext connects and reads the references.
func (s *sshSession) AdvertisedReferencesContext(ctx context.Context) (*packp.AdvRefs, error) {
	if err := s.connect(ctx); err != nil {
		return nil, err
	}
	refs := packp.NewAdvRefs()
	err := refs.Decode(s.out)
	switch {
	case errors.Is(err, packp.ErrEmptyInput):
		return nil, transport.ErrRepositoryNotFound // whatever the error output says, the service did not start
	case errors.Is(err, packp.ErrEmptyAdvRefs) || (err == nil && refs.IsEmpty()):
		if !s.writes {
			return nil, transport.ErrEmptyRemoteRepository
		}
	case err != nil:
		return nil, err
	}
	transport.FilterUnsupportedCapabilities(refs.Capabilities)
	return refs, nil
}

// UploadPack requests objects, after AdvertisedReferencesContext.
func (s *sshSession) UploadPack(_ context.Context, request *packp.UploadPackRequest) (*packp.UploadPackResponse, error) {
	if err := request.Validate(); err != nil {
		return nil, err
	}
	if err := request.UploadRequest.Encode(s.in); err != nil {
		return nil, err
	}
	if err := request.UploadHaves.Encode(s.in, false); err != nil {
		return nil, err
	}
	if err := pktline.NewEncoder(s.in).EncodeString("done\n"); err != nil {
		return nil, err
	}
	if err := s.in.Close(); err != nil {
		return nil, err
	}
	response := packp.NewUploadPackResponse(request)
	if err := response.Decode(io.NopCloser(s.out)); err != nil {
		return nil, fmt.Errorf("read response: %w", err)
	}
	return response, nil
}

// ReceivePack sends objects and changes of references, after AdvertisedReferencesContext.
func (s *sshSession) ReceivePack(_ context.Context, request *packp.ReferenceUpdateRequest) (*packp.ReportStatus, error) {
	if err := request.Encode(s.in); err != nil {
		return nil, err
	}
	if err := s.in.Close(); err != nil {
		return nil, err
	}
	report := packp.NewReportStatus()
	if err := report.Decode(withoutSideband(s.out, request.Capabilities)); err != nil {
		return nil, fmt.Errorf("read response: %w", err)
	}
	err := report.Error()
	return report, err
}

func (s *sshSession) Close() error {
	if s.stop != nil {
		s.stop()
	}
	if s.client == nil {
		return nil
	}
	return s.client.Close()
}
