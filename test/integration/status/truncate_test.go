package status

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/starlinghq/starling/pkg/core/objref"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
	"github.com/starlinghq/starling/test/testenv"
)

const truncated = "starling.io/truncated"

// bytesOf returns the size of the status of a WorkStatus.
func bytesOf(t *testing.T, ws *unstructured.Unstructured) int {
	t.Helper()
	if ws == nil || ws.Object["status"] == nil {
		return 0
	}
	text, err := json.Marshal(ws.Object["status"])
	if err != nil {
		t.Fatal(err)
	}
	return len(text)
}

// TestAgentTruncatesLargeStatuses: a status that no API server would take is reported as far as it
// fits, says so, and is not written again and again; nor does it stop others.
func TestAgentTruncatesLargeStatuses(t *testing.T) {
	m := enroll(t, "truncated")
	m.start()
	w := m.work("w-truncated", ourLabels())
	large, other := m.widget("large", w), m.widget("other", w)
	m.holds("w-truncated", large, other)
	m.reports(large, "")

	var items []any
	for i := range 1300 {
		items = append(items, fmt.Sprintf("%04d-%s", i, strings.Repeat("x", 1000)))
	}
	m.wec.setStatus(t, widgets, m.cluster, "large", map[string]any{"ready": true, "count": 1, "items": items})
	var ws *unstructured.Unstructured
	testenv.Eventually(t, patience, func() (bool, string) {
		ws = m.report(large)
		return bytesOf(t, ws) > corestatus.MaxStatus*9/10, fmt.Sprintf("%d bytes are reported", bytesOf(t, ws))
	})
	if got := bytesOf(t, ws); got > corestatus.MaxStatus {
		t.Errorf("%d bytes are reported, more than %d", got, corestatus.MaxStatus)
	}
	if got, want := ws.GetAnnotations()[truncated], "the status has about 1.2 MiB, more than 400 KiB; shortened: .items"; got != want {
		t.Errorf("the WorkStatus says %q, want %q", got, want)
	}
	if ready, _, _ := unstructured.NestedBool(ws.Object, "status", "ready"); !ready {
		t.Error("what is short is lost")
	}
	left, _, _ := unstructured.NestedSlice(ws.Object, "status", "items")
	for i := range left {
		if left[i] != items[i] {
			t.Fatalf("item %d is another one", i)
		}
	}
	m.wec.setStatus(t, widgets, m.cluster, "other", map[string]any{"count": 1})
	m.reports(other, `{"count":1}`)

	m.sent.Idle(t)
	before := len(m.sent.Written(""))
	// What is cut off may change as it likes.
	m.wec.setStatus(t, widgets, m.cluster, "large", map[string]any{"items": append(slices.Clip(items), "more")})
	m.sent.Nothing(t, "", before)
	m.stop()
	m.start()
	m.sent.Nothing(t, "", 0)

	m.wec.setStatus(t, widgets, m.cluster, "large", map[string]any{"items": []any{"a"}})
	m.reports(large, `{"count":1,"items":["a"],"ready":true}`)
	testenv.Eventually(t, patience, func() (bool, string) {
		annotations := m.report(large).GetAnnotations()
		return annotations[truncated] == "", asJSON(annotations)
	})
}

// TestLimitOfAStatus: a status that is just not truncated fits into a WorkStatus even if each of
// its bytes is a field, of which an API server also keeps who set it.
func TestLimitOfAStatus(t *testing.T) {
	m := enroll(t, "limit")
	m.start()
	w := m.work("w-limit", ourLabels())
	ref := objref.New(gadgets.GroupResource(), "", "limit")
	fields, size := map[string]any{}, 0
	for i := 0; size < corestatus.MaxStatus-100; i++ {
		name := fmt.Sprintf("k%05d", i)
		fields[name] = int64(1)
		size += len(name) + 5
	}
	m.wec.create(t, gadgets, map[string]any{
		"apiVersion": "test.example.com/v1", "kind": "Gadget",
		"metadata": map[string]any{"name": "limit", "ownerReferences": ownedBy(w)}, "spec": map[string]any{"size": 1},
		"status": map[string]any{"fields": fields},
	})
	m.holds("w-limit", ref)
	var ws *unstructured.Unstructured
	testenv.Eventually(t, patience, func() (bool, string) {
		ws = m.report(ref)
		return bytesOf(t, ws) > 0, "nothing is reported"
	})
	if got := bytesOf(t, ws); got < size || ws.GetAnnotations()[truncated] != "" {
		t.Errorf("%d of %d bytes are reported: %s", got, size, ws.GetAnnotations()[truncated])
	}
	written := m.sent.Written("")
	if len(written) != 2 { // it, and its status
		t.Errorf("want two writes, got: %v", written)
	}
}

// TestAgentReportsWhatTheHubCanStore: a hub whose storage takes less than others gets less, after a
// few attempts.
func TestAgentReportsWhatTheHubCanStore(t *testing.T) {
	m := enroll(t, "narrow")
	const limit = 100 << 10
	var refused atomic.Int64
	m.hub = narrow(m.hub, limit, &refused)
	m.start()
	w := m.work("w-narrow", ourLabels())
	ref := m.widget("large", w)
	m.holds("w-narrow", ref)
	m.reports(ref, "")
	m.wec.setStatus(t, widgets, m.cluster, "large", map[string]any{"count": 3, "items": []any{strings.Repeat("x", 1<<20)}})
	var ws *unstructured.Unstructured
	testenv.Eventually(t, patience, func() (bool, string) {
		ws = m.report(ref)
		return bytesOf(t, ws) > 0, "nothing is reported"
	})
	if got := bytesOf(t, ws); got > limit || got < limit/3 {
		t.Errorf("%d bytes are reported, limit %d", got, limit)
	}
	if got := ws.GetAnnotations()[truncated]; !strings.Contains(got, "about 1.0 MiB") || !strings.Contains(got, ".items[]") {
		t.Errorf("the WorkStatus says %q", got)
	}
	if refused.Load() > 4 {
		t.Errorf("refused %d times", refused.Load())
	}
	before := refused.Load()
	testenv.Never(t, testenv.Held, func() string {
		if refused.Load() != before {
			return "it is tried again and again"
		}
		return ""
	})
}

// narrow returns the config of a space that refuses large statuses, as an API server does whose
// etcd takes no more.
func narrow(config *rest.Config, limit int, refused *atomic.Int64) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return testenv.RoundTripper(func(r *http.Request) (*http.Response, error) {
			if !strings.HasSuffix(r.URL.Path, "/status") || r.ContentLength < int64(limit) {
				return next.RoundTrip(r)
			}
			refused.Add(1)
			const answer = `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"etcdserver: request is too large","code":500}`
			return &http.Response{
				StatusCode: http.StatusInternalServerError, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
				Body: io.NopCloser(bytes.NewReader([]byte(answer))), ContentLength: int64(len(answer)),
				ProtoMajor: 1, ProtoMinor: 1,
			}, nil
		})
	})
	return config
}
