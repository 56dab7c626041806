package variantsets

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/starlinghq/starling/test/testenv"
)

// Writes of the controller, as testenv.Proxy names them.
const (
	created  = "POST packagevariants"
	updated  = "(PUT|PATCH) packagevariants"
	deleted  = "DELETE packagevariants"
	released = "(PUT|PATCH) packagevariantsets" // the annotation that allows a removal is taken away
	reported = "(PUT|PATCH) packagevariantsets/status"
)

// kill runs binding-controller and kills it when the API server has carried out the n-th write of
// that kind.
func (e *environment) kill(t *testing.T, write string, n int) {
	t.Helper()
	proxy := testenv.NewProxy(t, e.config)
	proxy.KillAfter(t, write, n, "binding-controller", "--controllers=packages", "--leader-elect=false", "--wds-kubeconfig="+proxy.Kubeconfig(t))()
}

// point is the n-th write of a kind.
type point struct {
	write string
	n     int
}

// TestCrash: the controller is killed between two writes. The next one does what is left: nothing
// is lost, and nothing is created twice.
func TestCrash(t *testing.T) {
	e := newEnvironment(t)
	e.upstream(t, "up", "foo", 1, "")
	list := func(from, to int) (repositories []string) {
		for i := from; i < to; i++ {
			repositories = append(repositories, fmt.Sprintf("r%02d", i))
		}
		return repositories
	}
	e.repositories(t, list(0, 18)...)
	ask := func(revision int, repositories []string) string {
		return fmt.Sprintf("{spec: {upstream: {repo: up, package: foo, revision: %d}, targets: [{repositories: [{name: %s}]}]}}", revision, strings.Join(repositories, "}, {name: "))
	}
	e.create(t, sets, "s", ask(1, list(0, 12)))
	first := map[string]string{}
	for _, at := range []point{{created, 1}, {created, 5}, {reported, 1}} {
		e.kill(t, at.write, at.n)
		for name, pv := range e.variants(t) {
			if was, ok := first[name]; ok && was != string(pv.UID) {
				t.Errorf("at %v, %s is another one", at, name)
			}
			first[name] = string(pv.UID)
		}
	}
	if got, want := slices.Sorted(maps.Keys(first)), names("s", list(0, 12)...); !slices.Equal(got, want) {
		t.Fatalf("there are %v, want %v", got, want)
	}

	// Others are asked for, in another revision: six come, six go, six change. That many may go at
	// once.
	e.upstream(t, "up", "foo", 2, "")
	e.patch(t, sets, "s", ask(2, list(6, 18)))
	for _, at := range []point{{created, 3}, {updated, 1}, {updated, 2}, {deleted, 1}, {deleted, 2}} {
		e.kill(t, at.write, at.n)
		there := e.notDeleted(t)
		for _, name := range names("s", list(6, 12)...) {
			if there[name] == nil || string(there[name].UID) != first[name] {
				t.Fatalf("at %v, %s was lost", at, name)
			}
		}
		if gone := 12 - len(there); gone > 0 && there["s-r17-foo"] == nil {
			t.Errorf("at %v, some are gone before all have come", at)
		}
	}
	e.run(t, options{})
	e.waitForVariants(t, names("s", list(6, 18)...)...)
	e.waitForCondition(t, "s", "Ready", "Reconciling")
	for name, pv := range e.notDeleted(t) {
		if pv.Spec.Upstream.Revision.IntValue() != 2 || first[name] != "" && first[name] != string(pv.UID) {
			t.Errorf("%s: %v, UID %s", name, pv.Spec.Upstream, pv.UID)
		}
	}
	e.removeFinalizers(t.Context(), t)
}

// TestCrashDuringAllowedRemoval: the controller is killed during deletions that a user allowed.
// What is left of them is blocked again if it exceeds the limits by itself. The annotation is
// removed when all are done.
func TestCrashDuringAllowedRemoval(t *testing.T) {
	e := newEnvironment(t)
	e.upstream(t, "up", "foo", 1, "")
	e.create(t, repositories, "r1", "{metadata: {labels: {a: b}}, spec: {}}")
	e.create(t, repositories, "r2", "{metadata: {labels: {a: b}}, spec: {}}")
	e.create(t, sets, "s", spec("{repositorySelector: {matchLabels: {a: b}}}"))
	running := e.run(t, options{})
	e.waitForVariants(t, names("s", "r1", "r2")...)
	release := func(of string) {
		var token string
		testenv.Eventually(t, testenv.Patience, func() (bool, string) { // the condition may be that of the last time
			text := e.waitForCondition(t, "s", "RemovalBlocked", "RemovalLimitExceeded")
			_, token, _ = strings.Cut(text, "starling.io/allow-removal=")
			return strings.Contains(text, " "+of+" "), text
		})
		running.stop()
		e.patch(t, sets, "s", fmt.Sprintf("{metadata: {annotations: {starling.io/allow-removal: %q}}}", token))
	}
	e.patch(t, sets, "s", "{spec: {targets: [{repositorySelector: {matchLabels: {a: c}}}]}}")
	release("2 of 2")
	e.kill(t, deleted, 1)
	e.removeFinalizers(t.Context(), t)
	if len(e.notDeleted(t)) == 1 { // the other deletion was under way, or it was not
		running = e.run(t, options{})
		release("1 of 1")
	}
	e.kill(t, released, 1)
	e.removeFinalizers(t.Context(), t)
	e.run(t, options{})
	e.waitForVariants(t)
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		set := e.set(t, "s")
		return len(set.Annotations) == 0 && meta.IsStatusConditionTrue(set.Status.Conditions, "Ready"), fmt.Sprint(set.Annotations, set.Status.Conditions)
	})
}
