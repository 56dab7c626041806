package variantsets

import (
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/starlinghq/starling/pkg/controller/variantsets"
	"github.com/starlinghq/starling/test/testenv"
)

// kill runs binding-controller until it kills itself at a point.
func (e *environment) kill(t *testing.T, point string) {
	t.Helper()
	fleet := testenv.Shared(t)
	binary, err := testenv.Binary()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(filepath.Dir(binary), "binding-controller"), "--controllers=packages", "--leader-elect=false",
		"--wds-kubeconfig="+fleet.Kubeconfig(), "--wds-context=wds1")
	cmd.Env = append(cmd.Environ(), "STARLING_KILL_AT="+point)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(soon, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })
	defer late.Stop()
	err = cmd.Wait()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		t.Fatalf("it was to be killed at %s: %v\n%s", point, err, out.String())
	}
}

// TestCrash: a controller that is killed between any two writes leaves nothing that the next one does not finish: nothing is lost, and
// nothing is made twice.
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
	for _, point := range []string{variantsets.PointCreated, variantsets.PointCreated + "#5", variantsets.PointTold} {
		e.kill(t, point)
		for name, pv := range e.variants(t) {
			if was, ok := first[name]; ok && was != string(pv.UID) {
				t.Errorf("at %s, %s is another one", point, name)
			}
			first[name] = string(pv.UID)
		}
	}
	if got, want := slices.Sorted(maps.Keys(first)), names("s", list(0, 12)...); !slices.Equal(got, want) {
		t.Fatalf("there are %v, want %v", got, want)
	}

	// Others are asked for, in another revision: six come, six go, six change. That many may go at once.
	e.upstream(t, "up", "foo", 2, "")
	e.patch(t, sets, "s", ask(2, list(6, 18)))
	for _, point := range []string{
		variantsets.PointCreated + "#3", variantsets.PointUpdated, variantsets.PointUpdated + "#2", variantsets.PointDeleted, variantsets.PointDeleted + "#2",
	} {
		e.kill(t, point)
		there := e.living(t)
		for _, name := range names("s", list(6, 12)...) {
			if there[name] == nil || string(there[name].UID) != first[name] {
				t.Fatalf("at %s, %s was lost", point, name)
			}
		}
		if gone := 12 - len(there); gone > 0 && there["s-r17-foo"] == nil {
			t.Errorf("at %s, some are gone before all have come", point)
		}
	}
	e.run(t, options{})
	e.has(t, names("s", list(6, 18)...)...)
	e.condition(t, "s", "Ready", "Reconciled")
	for name, pv := range e.living(t) {
		if pv.Spec.Upstream.Revision.IntValue() != 2 || first[name] != "" && first[name] != string(pv.UID) {
			t.Errorf("%s: %v, UID %s", name, pv.Spec.Upstream, pv.UID)
		}
	}
	e.settle(t.Context(), t)
}

// TestCrashWhileReleasing: what was released, and interrupted, is held again as far as it is too much by itself; the annotation goes when
// all is done.
func TestCrashWhileReleasing(t *testing.T) {
	e := newEnvironment(t)
	e.upstream(t, "up", "foo", 1, "")
	e.create(t, repositories, "r1", "{metadata: {labels: {a: b}}, spec: {}}")
	e.create(t, repositories, "r2", "{metadata: {labels: {a: b}}, spec: {}}")
	e.create(t, sets, "s", spec("{repositorySelector: {matchLabels: {a: b}}}"))
	running := e.run(t, options{})
	e.has(t, names("s", "r1", "r2")...)
	release := func(of string) {
		var token string
		testenv.Eventually(t, soon, func() (bool, string) { // the condition may be that of the last time
			text := e.condition(t, "s", "Held", "SafetyValve")
			_, token, _ = strings.Cut(text, "starling.io/release-held=")
			return strings.HasPrefix(text, of), text
		})
		running.stop()
		e.patch(t, sets, "s", fmt.Sprintf("{metadata: {annotations: {starling.io/release-held: %q}}}", token))
	}
	e.patch(t, sets, "s", "{spec: {targets: [{repositorySelector: {matchLabels: {a: c}}}]}}")
	release("2 of 2")
	e.kill(t, variantsets.PointDeleted)
	e.settle(t.Context(), t)
	if len(e.living(t)) == 1 { // the other deletion was under way, or it was not
		running = e.run(t, options{})
		release("1 of 1")
	}
	e.kill(t, variantsets.PointReleased)
	e.settle(t.Context(), t)
	e.run(t, options{})
	e.has(t)
	testenv.Eventually(t, soon, func() (bool, string) {
		set := e.set(t, "s")
		return len(set.Annotations) == 0 && meta.IsStatusConditionTrue(set.Status.Conditions, "Ready"), fmt.Sprint(set.Annotations, set.Status.Conditions)
	})
}
