package status

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"

	corestatus "github.com/starlinghq/starling/pkg/core/status"
	"github.com/starlinghq/starling/test/testenv"
)

// expired is a hub that was away for so long that it does not know any more what happened
// meanwhile: each watch that wants to go on where it ended is refused once, and what is watched has
// to be listed again.
type expired struct {
	mu sync.Mutex
	// paths are the watches that were refused; nil as long as none is to be.
	paths map[string]struct{}
}

func (e *expired) config(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return testenv.RoundTripper(func(r *http.Request) (*http.Response, error) {
			query := r.URL.Query()
			if query.Get("watch") == "" || query.Get("resourceVersion") == "" || !e.refuses(r.URL.Path) {
				return next.RoundTrip(r)
			}
			const answer = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","message":"too old resource version","code":410}`
			return &http.Response{
				StatusCode: http.StatusGone, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
				Body: io.NopCloser(bytes.NewReader([]byte(answer))), ContentLength: int64(len(answer)), ProtoMajor: 1, ProtoMinor: 1,
			}, nil
		})
	})
	return config
}

func (e *expired) refuses(path string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, done := e.paths[path]; e.paths == nil || done {
		return false
	}
	e.paths[path] = struct{}{}
	return true
}

// begin has watches refused from now on, and refused returns how many were.
func (e *expired) begin() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.paths = map[string]struct{}{}
}

func (e *expired) refused() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.paths)
}

// TestAgentAfterALongOutageOfTheHub: no event of what happened in the mailbox meanwhile ever
// comes.
func TestAgentAfterALongOutageOfTheHub(t *testing.T) {
	m := enroll(t, "longloss")
	line, history := newWire(t, m.hub), &expired{}
	m.hub = history.config(line.config)
	m.start()
	w := m.work("w-longloss", ourLabels())
	changed, deleted, edited, gone := m.widget("changed", w), m.widget("deleted", w), m.widget("edited", w), m.widget("gone", w)
	m.holds("w-longloss", changed, deleted, edited, gone)
	m.reports(changed, "")
	m.reports(deleted, "")
	m.reports(edited, "")
	m.reports(gone, "")

	line.cut()
	history.begin()
	m.wec.setStatus(t, widgets, m.cluster, "changed", map[string]any{"count": 1})
	m.wec.setStatus(t, widgets, m.cluster, "changed", map[string]any{"count": 2})
	m.wec.Delete(t, widgets, m.cluster, "gone")
	m.its.Delete(t, workStatuses, m.cluster, corestatus.ReportName(deleted))
	m.its.patch(t, workStatuses, m.cluster, corestatus.ReportName(edited), map[string]any{"status": map[string]any{"count": 9}}, "status")
	m.its.patch(t, manifestWorks, m.cluster, "w-longloss", map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"transport.kubestellar.io/originWdsName": "renamed"}},
	})
	later := m.widget("later", w)
	m.holds("w-longloss", changed, deleted, edited, gone, later)
	line.restore()

	m.reports(changed, `{"count":2}`)
	m.reports(gone, "deleted")
	m.reports(deleted, "")
	m.reports(edited, "")
	testenv.Eventually(t, patience, func() (bool, string) {
		ws := m.report(later)
		if ws == nil {
			return false, "what came meanwhile is not reported"
		}
		return ws.GetLabels()["transport.kubestellar.io/originWdsName"] == "renamed", asJSON(ws.GetLabels())
	})
	if history.refused() < 2 {
		t.Errorf("%d watches had to begin again, want those of works and of WorkStatuses", history.refused())
	}
	m.sent.Idle(t)
	m.sent.Nothing(t, "", len(m.sent.Written("")))
}

// TestAgentKilledBetweenTwoWrites: what was created and has no status yet gets it from the next
// one.
func TestAgentKilledBetweenTwoWrites(t *testing.T) {
	m := enroll(t, "killed")
	var dying atomic.Bool
	dying.Store(true)
	hub := m.hub
	m.hub = rest.CopyConfig(hub)
	m.hub.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return testenv.RoundTripper(func(r *http.Request) (*http.Response, error) {
			if dying.Load() && strings.HasSuffix(r.URL.Path, "/status") {
				return nil, errors.New("killed")
			}
			return next.RoundTrip(r)
		})
	})
	w := m.work("w-killed", ourLabels())
	ref := m.widget("one", w)
	m.wec.setStatus(t, widgets, m.cluster, "one", map[string]any{"count": 3})
	m.holds("w-killed", ref)
	m.start()
	uid := m.reports(ref, "").GetUID()
	m.stop()
	dying.Store(false)
	m.hub = hub
	m.start()
	if ws := m.reports(ref, `{"count":3}`); ws.GetUID() != uid {
		t.Error("it is another WorkStatus")
	}
	m.sent.Idle(t)
	if writes := m.sent.Written(""); len(writes) != 1 {
		t.Errorf("want one write, got: %v", writes)
	}
}
