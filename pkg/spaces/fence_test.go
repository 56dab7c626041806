package spaces

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/starlinghq/starling/pkg/runner"
)

// apiServer is an API server of which the Namespace kube-system and an object can be read.
type apiServer struct {
	*httptest.Server
	namespace      atomic.Pointer[string]
	asked, content atomic.Int64
	fails          atomic.Bool
}

func newAPIServer(t *testing.T) *apiServer {
	t.Helper()
	s := &apiServer{}
	s.restored("u", "")
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case !strings.HasSuffix(r.URL.Path, "/namespaces/kube-system"):
			s.content.Add(1)
			fmt.Fprint(w, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"default"}}`)
		case s.fails.Load():
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			s.asked.Add(1)
			fmt.Fprint(w, *s.namespace.Load())
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *apiServer) restored(uid, id string) {
	annotations := ""
	if id != "" {
		annotations = fmt.Sprintf(`,"annotations":{"starling.io/restored":%q}`, id)
	}
	text := fmt.Sprintf(`{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"kube-system","uid":%q%s}}`, uid, annotations)
	s.namespace.Store(&text)
}

// connect connects to the server as a program does.
func (s *apiServer) connect(ctx context.Context, t *testing.T) (*Space, kubernetes.Interface) {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: a, clusters: [{name: a, cluster: {server: %q}}], contexts: [{name: a, context: {cluster: a}}]}`, s.URL)
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	space, err := Connect(ctx, "wds1", Options{Kubeconfig: kubeconfig, QPS: 1000, Burst: 1000})
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(space.Config)
	if err != nil {
		t.Fatal(err)
	}
	return space, client
}

func read(t *testing.T, client kubernetes.Interface) error {
	t.Helper()
	_, err := client.CoreV1().ConfigMaps("default").Get(t.Context(), "a", metav1.GetOptions{})
	return err
}

// TestFence: a space is asked once for each connection who it is. No response of another space
// reaches the program, which ends.
func TestFence(t *testing.T) {
	for name, change := range map[string]func(*apiServer){
		"restored":      func(s *apiServer) { s.restored("u", "r1") },
		"another space": func(s *apiServer) { s.restored("v", "") },
	} {
		t.Run(name, func(t *testing.T) {
			s := newAPIServer(t)
			err := runner.Run(t.Context(), &runner.Options{}, runner.Program{Name: "test", Run: func(ctx context.Context, _ <-chan struct{}) error {
				_, client := s.connect(ctx, t)
				for range 3 {
					if err := read(t, client); err != nil {
						t.Errorf("read: %v", err)
					}
				}
				if asked := s.asked.Load(); asked > 2 { // to connect, and for the connection of this client
					t.Errorf("the space was asked %d times who it is", asked)
				}
				s.CloseClientConnections()
				if err := read(t, client); err != nil {
					t.Errorf("read over another connection: %v", err)
				}
				s.CloseClientConnections()
				change(s)
				for range 2 {
					if err := read(t, client); !errors.Is(err, ErrReplaced) {
						t.Errorf("read what is of another space: %v", err)
					}
				}
				<-ctx.Done()
				return nil
			}})
			if !errors.Is(err, ErrReplaced) {
				t.Errorf("the program ends with %v", err)
			}
		})
	}
}

// TestFenceWithoutAnswer: a space that cannot say who it is fails requests, and not the program.
func TestFenceWithoutAnswer(t *testing.T) {
	s := newAPIServer(t)
	s.restored("u", "r1")
	space, client := s.connect(t.Context(), t)
	if space.Restored != "r1" || space.UID != "u" {
		t.Errorf("the space is %+v", space)
	}
	s.CloseClientConnections()
	s.fails.Store(true)
	if err := read(t, client); err == nil || errors.Is(err, ErrReplaced) {
		t.Errorf("read without an answer: %v", err)
	}
	s.fails.Store(false)
	if err := read(t, client); err != nil {
		t.Errorf("read: %v", err)
	}
}
