package testgit

import (
	"bufio"
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"github.com/go-git/go-git/v5/plumbing/transport/server"
	"golang.org/x/crypto/ssh"
)

// Server serves repositories over HTTP, each at its directory, and counts requests.
type Server struct {
	// Server has the address.
	*httptest.Server
	// Authorization is the required header; empty accepts all requests.
	Authorization atomic.Value
	// Broken makes the server fail each request.
	Broken atomic.Bool
	// Requests counts requests; Packs counts those that fetched objects.
	Requests, Packs atomic.Int64
}

// Serve serves with git itself. The test is skipped if git is not installed.
func Serve(t testing.TB) *Server {
	t.Helper()
	return serve(t, backend(t), httptest.NewServer)
}

// ServeTLS is Serve over TLS. CA returns its certificate.
func ServeTLS(t testing.TB) *Server {
	t.Helper()
	return serve(t, backend(t), httptest.NewTLSServer)
}

// CA returns the certificate of a server over TLS, in PEM.
func CA(s *httptest.Server) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
}

// ServeOld serves with git itself as servers do that require multi_ack, and have neither
// multi_ack_detailed nor atomic pushes, such as Azure DevOps.
func ServeOld(t testing.TB) *Server {
	t.Helper()
	next := backend(t, "receive.advertiseAtomic", "false")
	return serve(t, http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		switch {
		case strings.HasSuffix(request.URL.Path, "/info/refs"):
			answer := httptest.NewRecorder()
			next.ServeHTTP(answer, request)
			maps.Copy(w.Header(), answer.Header())
			w.WriteHeader(answer.Code)
			// As long as before: each line begins with its length.
			fmt.Fprint(w, strings.ReplaceAll(answer.Body.String(), " multi_ack_detailed", " no_m_ack_detailed!"))
			return
		case strings.HasSuffix(request.URL.Path, "/git-upload-pack"):
			body, err := io.ReadAll(request.Body)
			if err != nil || !bytes.Contains(body, []byte(" multi_ack ")) && !bytes.Contains(body, []byte(" multi_ack\n")) {
				http.Error(w, "TF401035: multi_ack is required", http.StatusBadRequest)
				return
			}
			request.Body = io.NopCloser(bytes.NewReader(body))
		}
		next.ServeHTTP(w, request)
	}), httptest.NewServer)
}

// backend is git's own server, with settings: names and values.
func backend(t testing.TB, settings ...string) http.Handler {
	t.Helper()
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("git is not installed")
	}
	settings = append([]string{"safe.directory", "*"}, settings...)
	env := []string{"GIT_PROJECT_ROOT=/", "GIT_HTTP_EXPORT_ALL=1", fmt.Sprintf("GIT_CONFIG_COUNT=%d", len(settings)/2)}
	for i := 0; i < len(settings); i += 2 {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i/2, settings[i]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i/2, settings[i+1]))
	}
	return &cgi.Handler{Path: git, Args: []string{"http-backend"}, Env: env}
}

// ServePlain serves without shallow fetches, filters and atomic pushes.
func ServePlain(t testing.TB) *Server {
	t.Helper()
	return serve(t, http.HandlerFunc(plain), httptest.NewServer)
}

func serve(t testing.TB, next http.Handler, start func(http.Handler) *httptest.Server) *Server {
	t.Helper()
	s := &Server{}
	s.Authorization.Store("")
	s.Server = start(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		s.Requests.Add(1)
		if strings.HasSuffix(request.URL.Path, "/git-upload-pack") {
			s.Packs.Add(1)
		}
		switch want := s.Authorization.Load(); {
		case s.Broken.Load():
			http.Error(w, "broken", http.StatusBadGateway)
		case want != "" && request.Header.Get("Authorization") != want:
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			http.Error(w, "who are you?", http.StatusUnauthorized)
		default:
			next.ServeHTTP(w, request)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// URL returns the address of a repository.
func (s *Server) URL(r *Repository) string { return s.Server.URL + r.Dir }

func plain(w http.ResponseWriter, request *http.Request) {
	fail := func(err error) bool {
		if err == nil {
			return false
		}
		http.Error(w, err.Error(), http.StatusNotFound)
		return true
	}
	dir, service := request.URL.Path, ""
	switch {
	case strings.HasSuffix(dir, "/info/refs"):
		dir, service = strings.TrimSuffix(dir, "/info/refs"), request.URL.Query().Get("service")
	default:
		at := strings.LastIndex(dir, "/")
		dir, service = dir[:at], dir[at+1:]
	}
	host := server.NewServer(server.NewFilesystemLoader(osfs.New("/")))
	endpoint := &transport.Endpoint{Protocol: "file", Path: dir}
	advertise := func(refs *packp.AdvRefs, err error) {
		if fail(err) {
			return
		}
		refs.Prefix = [][]byte{[]byte("# service=" + service), pktline.Flush}
		if err := refs.Encode(w); err != nil {
			panic(err)
		}
	}
	if service == transport.ReceivePackServiceName {
		session, err := host.NewReceivePackSession(endpoint, nil)
		if fail(err) {
			return
		}
		if request.Method == http.MethodGet {
			advertise(session.AdvertisedReferencesContext(request.Context()))
			return
		}
		update := packp.NewReferenceUpdateRequest()
		if fail(update.Decode(request.Body)) {
			return
		}
		if !slices.ContainsFunc(update.Commands, func(c *packp.Command) bool { return c.Action() != packp.Delete }) {
			update.Packfile = nil // deletions have none
		}
		report, err := session.ReceivePack(request.Context(), update)
		if report == nil {
			fail(err)
			return
		}
		_ = report.Encode(w)
		return
	}
	session, err := host.NewUploadPackSession(endpoint, nil)
	if fail(err) {
		return
	}
	if request.Method == http.MethodGet {
		advertise(session.AdvertisedReferencesContext(request.Context()))
		return
	}
	upload := packp.NewUploadPackRequest()
	body := bufio.NewReader(request.Body)
	if fail(upload.UploadRequest.Decode(body)) {
		return
	}
	for lines := pktline.NewScanner(body); lines.Scan(); {
		if have, ok := strings.CutPrefix(strings.TrimSpace(string(lines.Bytes())), "have "); ok {
			upload.Haves = append(upload.Haves, plumbing.NewHash(have))
		}
	}
	response, err := session.UploadPack(request.Context(), upload)
	if fail(err) {
		return
	}
	_ = response.Encode(w)
}

// ServeSSH serves all directories to clients with the authorized key, with git itself. The test is
// skipped if git is not installed. It returns the address as host:port.
func ServeSSH(t testing.TB, host ssh.Signer, authorized ssh.PublicKey) string {
	t.Helper()
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("git is not installed")
	}
	config := &ssh.ServerConfig{
		PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			if string(key.Marshal()) != string(authorized.Marshal()) {
				return nil, fmt.Errorf("unknown key")
			}
			return nil, nil
		},
	}
	config.AddHostKey(host)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go serveConnection(git, conn, config)
		}
	}()
	return listener.Addr().String()
}

func serveConnection(git string, conn net.Conn, config *ssh.ServerConfig) {
	defer conn.Close()
	_, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for offered := range channels {
		channel, requests, err := offered.Accept()
		if err != nil {
			return
		}
		for request := range requests {
			if request.Type != "exec" {
				_ = request.Reply(false, nil)
				continue
			}
			_ = request.Reply(true, nil)
			line := string(request.Payload[4:])
			command := exec.Command("sh", "-c", strings.Replace(line, "git-", git+" ", 1))
			command.Env = []string{"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"}
			command.Stdout, command.Stderr = channel, channel.Stderr()
			in, err := command.StdinPipe() // not Stdin: Run would wait for its end, and the client may wait for us
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(in, channel)
				in.Close()
			}()
			status := struct{ Code uint32 }{}
			if command.Run() != nil {
				status.Code = 1
			}
			_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(status))
			channel.Close()
		}
	}
}
