package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/starlinghq/starling/pkg/repository"
)

const connectTimeout = 30 * time.Second

// newSSH returns how to talk to a server over SSH. It knows no agent, no configuration and no known hosts of the user who runs the
// program: only what the Secret holds. A server whose key the Secret does not name is not talked to.
func newSSH(a address, c credentials, o Options) (*wire, error) {
	if len(c.knownHosts) == 0 {
		return nil, repository.Errorf(repository.SecretNotFound, "the Secret lacks %s: the keys of the server, as ssh-keyscan prints them", keyKnownHosts)
	}
	var auth []ssh.AuthMethod
	if c.signer != nil {
		auth = append(auth, ssh.PublicKeys(c.signer))
	}
	if c.password != "" {
		auth = append(auth, ssh.Password(c.password))
	}
	if len(auth) == 0 {
		return nil, repository.Errorf(repository.SecretNotFound, "the Secret lacks %s", keyPrivateKey)
	}
	check, err := hostKeys(c.knownHosts)
	if err != nil {
		return nil, err
	}
	user := a.user
	if user == "" {
		user = c.username
	}
	if user == "" {
		user = "git"
	}
	port := a.port
	if port == 0 {
		port = 22
	}
	server := net.JoinHostPort(a.host, strconv.Itoa(port))
	config := &ssh.ClientConfig{User: user, Auth: auth, HostKeyCallback: check, HostKeyAlgorithms: algorithms(check, server), Timeout: connectTimeout}
	start := func(service string) *sshSession {
		return &sshSession{server: server, config: config, command: service + " " + quote(a.path), limit: o.Limits.Bytes}
	}
	return &wire{
		upload: func() (transport.UploadPackSession, error) { return start(transport.UploadPackServiceName), nil },
		receive: func() (transport.ReceivePackSession, error) {
			s := start(transport.ReceivePackServiceName)
			s.writes = true
			return s, nil
		},
		finish: func() {},
		limits: o.Limits,
		temp:   o.TempDir,
	}, nil
}

// quote quotes for the shell of the server.
func quote(path string) string { return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'" }

// hostKeys reads known hosts. The library takes files only.
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
		return nil, repository.Errorf(repository.SecretNotFound, "the Secret's %s cannot be read: it must be lines as ssh-keyscan prints them", keyKnownHosts)
	}
	return check, nil
}

// algorithms are those of the keys that are known of a server: it is asked for one of these, or it would show another that is not known.
func algorithms(check ssh.HostKeyCallback, server string) []string {
	var known *knownhosts.KeyError
	nobody := &net.TCPAddr{IP: net.IPv4zero}
	if !errors.As(check(server, nobody, noKey{}), &known) {
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

// noKey is a key that no server has.
type noKey struct{}

func (noKey) Type() string                        { return "none" }
func (noKey) Marshal() []byte                     { return nil }
func (noKey) Verify([]byte, *ssh.Signature) error { return errors.New("no key") }

// sshSession is one run of a service at a server: its references, and at most one request.
type sshSession struct {
	server  string
	config  *ssh.ClientConfig
	command string
	writes  bool
	limit   int64

	once   sync.Once
	err    error
	client *ssh.Client
	in     io.WriteCloser
	out    io.Reader
	errors bytes.Buffer
	refs   *packp.AdvRefs
	stop   func() bool
}

// open connects and starts the service. Everything ends with the context.
func (s *sshSession) open(ctx context.Context) error {
	s.once.Do(func() { s.err = s.connect(ctx) })
	return s.err
}

func (s *sshSession) connect(ctx context.Context) error {
	conn, err := (&net.Dialer{Timeout: connectTimeout}).DialContext(ctx, "tcp", s.server)
	if err != nil {
		return err
	}
	s.stop = context.AfterFunc(ctx, func() { conn.Close() })
	c, channels, requests, err := ssh.NewClientConn(conn, s.server, s.config)
	if err != nil {
		conn.Close()
		return s.refused(err)
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
	s.out = &bounded{io.NopCloser(out), s.limit, s.limit}
	session.Stderr = &firstBytes{buffer: &s.errors}
	return session.Start(s.command)
}

// refused says what a failed handshake means.
func (s *sshSession) refused(err error) error {
	var key *knownhosts.KeyError
	switch {
	case errors.As(err, &key) && len(key.Want) == 0:
		return repository.Errorf(repository.Unauthorized, "the Secret's %s does not name %s", keyKnownHosts, s.server)
	case errors.As(err, &key):
		return repository.Errorf(repository.Unauthorized, "%s has another key than the Secret's %s says", s.server, keyKnownHosts)
	case strings.Contains(err.Error(), "unable to authenticate"):
		return repository.Errorf(repository.Unauthorized, "%s does not accept the key of the Secret for user %q", s.server, s.config.User)
	}
	return err
}

// firstBytes keeps the beginning of what a server complains of. It is read only after the session has ended.
type firstBytes struct {
	mutex  sync.Mutex
	buffer *bytes.Buffer
}

// Write keeps what there is room for.
func (f *firstBytes) Write(p []byte) (int, error) {
	const room = 1 << 10
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.buffer.Write(p[:min(len(p), max(0, room-f.buffer.Len()))])
	return len(p), nil
}

// AdvertisedReferences is there for the interface.
func (s *sshSession) AdvertisedReferences() (*packp.AdvRefs, error) {
	return nil, errors.New("needs a context")
}

// AdvertisedReferencesContext reads what the server has.
func (s *sshSession) AdvertisedReferencesContext(ctx context.Context) (*packp.AdvRefs, error) {
	if s.refs != nil {
		return s.refs, nil
	}
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	refs := packp.NewAdvRefs()
	err := refs.Decode(s.out)
	switch {
	case errors.Is(err, packp.ErrEmptyInput):
		return nil, transport.ErrRepositoryNotFound // whatever it said to its errors, the service did not start
	case errors.Is(err, packp.ErrEmptyAdvRefs) || (err == nil && refs.IsEmpty()):
		if !s.writes {
			return nil, transport.ErrEmptyRemoteRepository
		}
	case err != nil:
		return nil, err
	}
	transport.FilterUnsupportedCapabilities(refs.Capabilities)
	s.refs = refs
	return refs, nil
}

// UploadPack asks for objects.
func (s *sshSession) UploadPack(ctx context.Context, request *packp.UploadPackRequest) (*packp.UploadPackResponse, error) {
	if _, err := s.AdvertisedReferencesContext(ctx); err != nil {
		return nil, err
	}
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
		return nil, fmt.Errorf("read answer: %w", err)
	}
	return response, nil
}

// ReceivePack sends objects and changes of references.
func (s *sshSession) ReceivePack(ctx context.Context, request *packp.ReferenceUpdateRequest) (*packp.ReportStatus, error) {
	if _, err := s.AdvertisedReferencesContext(ctx); err != nil {
		return nil, err
	}
	if err := request.Encode(s.in); err != nil {
		return nil, err
	}
	if err := s.in.Close(); err != nil {
		return nil, err
	}
	out := s.out
	switch {
	case request.Capabilities.Supports(capability.Sideband64k):
		out = sideband.NewDemuxer(sideband.Sideband64k, out)
	case request.Capabilities.Supports(capability.Sideband):
		out = sideband.NewDemuxer(sideband.Sideband, out)
	}
	report := packp.NewReportStatus()
	if err := report.Decode(out); err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	err := report.Error()
	return report, err
}

// Close ends the connection.
func (s *sshSession) Close() error {
	if s.stop != nil {
		s.stop()
	}
	if s.client == nil {
		return nil
	}
	return s.client.Close()
}
