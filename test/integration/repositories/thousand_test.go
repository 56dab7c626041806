package repositories

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/transport"

	"github.com/starlinghq/starling/test/testenv"
	"github.com/starlinghq/starling/test/testgit"
)

// requests counts what is asked of an API server, watches left out.
type requests struct {
	next   http.RoundTripper
	mutex  *sync.Mutex
	counts map[string]int
}

func (r requests) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Query().Get("watch") == "" {
		parts := strings.Split(strings.Trim(request.URL.Path, "/"), "/")
		if i := slices.Index(parts, "namespaces"); i >= 0 && len(parts) > i+2 {
			parts = parts[i+2:]
		} else {
			parts = parts[min(3, len(parts)-1):] // behind /apis/GROUP/VERSION
		}
		resource := parts[0]
		r.mutex.Lock()
		r.counts[request.Method+" "+resource]++
		r.mutex.Unlock()
	}
	return r.next.RoundTrip(request)
}

// TestThousandRevisions: a catalogue of a thousand revisions is imported once. A pass that finds
// nothing new is one request, and one that finds a tag costs the same, however many there are.
func TestThousandRevisions(t *testing.T) {
	t.Parallel()
	const packages = 500 // each with a tag, and a placeholder
	e := newEnvironment(t)
	asked := requests{mutex: &sync.Mutex{}, counts: map[string]int{}}
	e.controllers.WrapTransport = transport.Wrappers(e.controllers.WrapTransport, func(next http.RoundTripper) http.RoundTripper {
		asked.next = next
		return requests{next, asked.mutex, asked.counts}
	})
	taken := func() map[string]int {
		asked.mutex.Lock()
		defer asked.mutex.Unlock()
		counts := maps.Clone(asked.counts)
		clear(asked.counts)
		return counts
	}
	r, s := testgit.New(t), testgit.Serve(t)
	for i := range packages {
		r.Package(fmt.Sprintf("group%d/package%d", i%10, i), "one")
	}
	commit := r.Commit("main", "one")
	for i := range packages {
		r.Tag(fmt.Sprintf("group%d/package%d/v1", i%10, i), commit)
	}
	e.run(t)
	began := time.Now()
	e.create(t, "up", fmt.Sprintf("{type: git, sync: {schedule: '@every 24h'}, git: {repo: %q}}", s.URL(r)))
	imported := func(want int) {
		t.Helper()
		testenv.Eventually(t, 5*time.Minute, func() (bool, string) { // a list of all would delay the import
			n := e.repository(t, "up").Status.PackageCount
			return n == want, fmt.Sprintf("%d revisions", n)
		})
		if list, err := e.stored().List(t.Context(), metav1.ListOptions{FieldSelector: "spec.repository=up"}); err != nil || len(list.Items) != want {
			t.Fatalf("%d revisions: %v", len(list.Items), err)
		}
	}
	imported(2 * packages)
	t.Logf("imported %d revisions in %s", 2*packages, time.Since(began).Round(time.Millisecond))
	e.waitForCondition(t, "up", "Ready", "Ready")
	e.quiet(t)
	t.Logf("requests for it: %v", taken())

	look := func() {
		t.Helper()
		before := e.repository(t, "up").Status.ObservedRunOnceAt
		at := metav1.Now().Rfc3339Copy()
		if before != nil && !before.Before(&at) {
			at = metav1.NewTime(before.Add(time.Second))
		}
		testenv.Eventually(t, testenv.Patience, func() (bool, string) { return !time.Now().Before(at.Time), "not yet" })
		patch := fmt.Sprintf(`{"spec":{"sync":{"runOnceAt":%q}}}`, at.UTC().Format(time.RFC3339))
		if _, err := e.repositories().Patch(t.Context(), "up", "application/merge-patch+json", []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		testenv.Eventually(t, testenv.Patience, func() (bool, string) {
			got := e.repository(t, "up").Status.ObservedRunOnceAt
			return got != nil && got.Equal(&at), fmt.Sprintf("observed %s, want %s", got, at)
		})
	}
	gitRequests, packs := s.Requests.Load(), s.Packs.Load()
	look()
	if got := s.Requests.Load() - gitRequests; got != 1 || s.Packs.Load() != packs {
		t.Errorf("a look that finds nothing new takes %d requests of git and %d fetches", got, s.Packs.Load()-packs)
	}
	for what, n := range taken() {
		if !strings.HasSuffix(what, " repositories") {
			t.Errorf("a look that finds nothing new takes %d %s", n, what)
		}
	}
	r.Tag("group3/package3/v2", commit)
	packs = s.Packs.Load()
	look()
	imported(2*packages + 1)
	e.quiet(t)
	if got := s.Packs.Load() - packs; got != 1 {
		t.Errorf("a new tag takes %d fetches", got)
	}
	counts := taken()
	t.Logf("requests for one tag more: %v", counts)
	all := 0
	for what, n := range counts {
		if what != "GET secrets" { // each look reads it, and how many looks there are is a matter of time
			all += n
		}
	}
	const most = 12
	if all > most {
		t.Errorf("a new tag takes %d requests, more than %d: %v", all, most, counts)
	}
}
