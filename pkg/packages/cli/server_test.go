package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/lifecycle"
	"github.com/starlinghq/starling/pkg/plugin"
)

// server is a fake API server for faults that the real one does not show on demand; the integration
// tests use the real one. It serves the namespace "default".
type server struct {
	t   *testing.T
	url string
	// cache is the cache directory of kubectl.
	cache string

	mu        sync.Mutex
	version   int
	revisions map[string]*porchv1alpha1.PackageRevision
	files     map[string]kpt.Files
	// render, if set, returns the stored files and the status for files that are written.
	render func(kpt.Files) (kpt.Files, porchv1alpha1.RenderStatus)
	// before, if set, is called before each request; a result that is not nil is the response.
	before func(r *http.Request) *metav1.Status
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{t: t, version: 10, revisions: map[string]*porchv1alpha1.PackageRevision{}, files: map[string]kpt.Files{}}
	h := httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(h.Close)
	s.url = h.URL
	s.cache = t.TempDir()
	return s
}

// add adds a revision with the name REPOSITORY.PACKAGE.WORKSPACE.
func (s *server) add(name string, at porchv1alpha1.PackageRevisionLifecycle, files kpt.Files, change ...func(*porchv1alpha1.PackageRevision)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	parts := strings.Split(name, ".")
	s.version++
	r := &porchv1alpha1.PackageRevision{
		TypeMeta:   metav1.TypeMeta{APIVersion: porchv1alpha1.GroupVersion.String(), Kind: "PackageRevision"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name), ResourceVersion: strconv.Itoa(s.version)},
		Spec:       porchv1alpha1.PackageRevisionSpec{RepositoryName: parts[0], PackageName: parts[1], WorkspaceName: parts[2], Lifecycle: at},
	}
	for _, f := range change {
		f(r)
	}
	s.revisions[name], s.files[name] = r, files
}

// change changes a revision as another user would.
func (s *server) change(name string, f func(*porchv1alpha1.PackageRevision, kpt.Files)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	s.revisions[name].ResourceVersion = strconv.Itoa(s.version)
	f(s.revisions[name], s.files[name])
}

func (s *server) resources(name string) *porchv1alpha1.PackageRevisionResources {
	r := s.revisions[name]
	return &porchv1alpha1.PackageRevisionResources{
		TypeMeta:   metav1.TypeMeta{APIVersion: porchv1alpha1.GroupVersion.String(), Kind: "PackageRevisionResources"},
		ObjectMeta: r.ObjectMeta,
		Spec: porchv1alpha1.PackageRevisionResourcesSpec{
			RepositoryName: r.Spec.RepositoryName, PackageName: r.Spec.PackageName, WorkspaceName: r.Spec.WorkspaceName, Resources: s.files[name],
		},
	}
}

func (s *server) serve(w http.ResponseWriter, r *http.Request) {
	if s.before != nil {
		if refused := s.before(r); refused != nil {
			s.answer(w, int(refused.Code), refused)
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	path := strings.TrimPrefix(r.URL.Path, "/apis/porch.kpt.dev/v1alpha1/namespaces/default/")
	parts := strings.Split(path, "/")
	if len(parts) == 1 && r.Method == http.MethodGet {
		s.list(w, r)
		return
	}
	if len(parts) == 1 {
		s.create(w, r)
		return
	}
	name := parts[1]
	if s.revisions[name] == nil {
		s.answer(w, http.StatusNotFound, status(http.StatusNotFound, metav1.StatusReasonNotFound, fmt.Sprintf("packagerevisions.porch.kpt.dev %q not found", name)))
		return
	}
	switch {
	case parts[0] == "packagerevisions" && r.Method == http.MethodGet:
		s.answer(w, http.StatusOK, s.revisions[name])
	case parts[0] == "packagerevisions":
		s.update(w, r, name, len(parts) == 3)
	case r.Method == http.MethodGet:
		s.answer(w, http.StatusOK, s.resources(name))
	default:
		s.push(w, r, name)
	}
}

func (s *server) list(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("watch") != "" {
		s.answer(w, http.StatusOK, nil) // a watch that ends at once
		return
	}
	list := porchv1alpha1.PackageRevisionList{TypeMeta: metav1.TypeMeta{APIVersion: porchv1alpha1.GroupVersion.String(), Kind: "PackageRevisionList"}}
	for _, revision := range s.revisions {
		list.Items = append(list.Items, *revision)
	}
	s.answer(w, http.StatusOK, list)
}

func (s *server) create(w http.ResponseWriter, r *http.Request) {
	var wanted porchv1alpha1.PackageRevision
	s.read(r, &wanted)
	wanted.Name = lifecycle.Name(wanted.Spec.RepositoryName, wanted.Spec.PackageName, wanted.Spec.WorkspaceName)
	s.revisions[wanted.Name] = &wanted
	s.answer(w, http.StatusCreated, wanted)
}

func (s *server) update(w http.ResponseWriter, r *http.Request, name string, approval bool) {
	var wanted porchv1alpha1.PackageRevision
	s.read(r, &wanted)
	now := s.revisions[name]
	check := lifecycle.CheckUpdate
	if approval {
		check = lifecycle.CheckApproval
	}
	switch text := check(now.Spec.Lifecycle, wanted.Spec.Lifecycle); {
	case wanted.ResourceVersion != now.ResourceVersion:
		s.answer(w, http.StatusConflict, status(http.StatusConflict, metav1.StatusReasonConflict, "the object has been modified"))
	case text != "":
		s.answer(w, http.StatusForbidden, status(http.StatusForbidden, metav1.StatusReasonForbidden, text))
	default:
		s.version++
		wanted.ResourceVersion = strconv.Itoa(s.version)
		s.revisions[name] = &wanted
		s.answer(w, http.StatusOK, wanted)
	}
}

func (s *server) push(w http.ResponseWriter, r *http.Request, name string) {
	var wanted porchv1alpha1.PackageRevisionResources
	s.read(r, &wanted)
	if wanted.ResourceVersion != s.revisions[name].ResourceVersion {
		s.answer(w, http.StatusConflict, status(http.StatusConflict, metav1.StatusReasonConflict, "the object has been modified"))
		return
	}
	files, said := kpt.Files(wanted.Spec.Resources), porchv1alpha1.RenderStatus{}
	if s.render != nil {
		files, said = s.render(files)
	}
	s.files[name] = files
	s.version++
	s.revisions[name].ResourceVersion = strconv.Itoa(s.version)
	after := s.resources(name)
	after.Status.RenderStatus = said
	s.answer(w, http.StatusOK, after)
}

func status(code int32, reason metav1.StatusReason, message string) *metav1.Status {
	return &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Code: code, Reason: reason, Message: message}
}

func (s *server) read(r *http.Request, into any) {
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(body, into)
	}
	if err != nil {
		s.t.Error(err)
	}
}

func (s *server) answer(w http.ResponseWriter, code int, what any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if what == nil {
		return
	}
	if err := json.NewEncoder(w).Encode(what); err != nil {
		s.t.Error(err)
	}
}

// run runs the program and returns its output and exit code.
func (s *server) run(args ...string) (out, errOut string, code int) {
	s.t.Helper()
	kubeconfig := filepath.Join(s.t.TempDir(), "kubeconfig")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: %q}}]\ncontexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n", s.url)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	cmd := NewCommand(genericiooptions.IOStreams{In: strings.NewReader(""), Out: &stdout, ErrOut: &stderr})
	cmd.SetArgs(append([]string{"--kubeconfig", kubeconfig, "--cache-dir", s.cache, "package"}, args...))
	code = plugin.Report(&stderr, cmd.ExecuteContext(s.t.Context()))
	return stdout.String(), stderr.String(), code
}
