package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/starlinghq/starling/pkg/localfleet"
	"github.com/starlinghq/starling/test/testenv"
)

// TestRestartOfControllers attacks invariant 3: a restart writes nothing.
func TestRestartOfControllers(t *testing.T) {
	fleet := testenv.Shared(t)
	s := tell(t, fleet)
	s.namespace()
	s.configMap("settings", "one")
	s.policy("{}")
	was := map[string]string{}
	for _, cluster := range []string{"cluster1", "cluster2"} {
		was[cluster] = string(s.arrives(cluster, "settings", "one").GetUID())
	}
	s.isReady()
	works := s.works()
	if len(works) == 0 {
		t.Fatal("no work carries our labels: this test would prove nothing")
	}

	controllers := map[string][]string{}
	for _, c := range fleet.Components(t) {
		controllers[c.Program] = append(controllers[c.Program], c.Name)
	}
	restarted := 0
	for _, program := range []string{"binding-controller", "transport-controller", "status-agent"} {
		fleet.Restart(t, controllers[program]...)
		restarted += len(controllers[program])
	}
	if restarted < 5 {
		t.Errorf("restarted %d controllers, want at least 5", restarted)
	}
	s.isReady()
	// An edit proves that the restarted controllers are at work, so that what they did not write
	// they chose not to.
	s.patch("wds1", configMaps, s.name, "settings", `{"data":{"key":"two"}}`)
	for cluster, uid := range was {
		if now := s.arrives(cluster, "settings", "two"); string(now.GetUID()) != uid {
			t.Errorf("%s: the object was replaced: UID %s, was %s", cluster, now.GetUID(), uid)
		}
	}
	changed := map[string]string{}
	for name, state := range s.works() {
		if works[name] != state {
			changed[name] = state
		}
	}
	if len(changed) != len(was) {
		t.Errorf("works changed by %d restarts and one edit on %d clusters: %v", restarted, len(was), sorted(changed))
	}
	if diff := cmp.Diff(sorted(works), sorted(s.works())); diff != "" {
		t.Errorf("works (-before +after):\n%s", diff)
	}
}

// TestKillOfEveryChild kills everything at once, API servers and etcd among it.
func TestKillOfEveryChild(t *testing.T) {
	fleet := testenv.Shared(t)
	s := tell(t, fleet)
	s.namespace()
	s.configMap("settings", "one")
	s.policy("{}")
	was := map[string]string{}
	for _, cluster := range []string{"cluster1", "cluster2"} {
		was[cluster] = string(s.arrives(cluster, "settings", "one").GetUID())
	}

	before := map[string]int{}
	for _, c := range fleet.KillAll(t) {
		before[c.Name] = c.PID
	}
	testenv.Eventually(t, 3*time.Minute, func() (bool, string) {
		var waiting []string
		for _, c := range fleet.Components(t) {
			if c.State != localfleet.StateReady || c.PID == before[c.Name] {
				waiting = append(waiting, fmt.Sprintf("%s (%s)", c.Name, c.State))
			}
		}
		return len(waiting) == 0, "not ready: " + strings.Join(waiting, ", ")
	})
	s.patch("wds1", configMaps, s.name, "settings", `{"data":{"key":"two"}}`)
	for cluster, uid := range was {
		if now := s.arrives(cluster, "settings", "two"); string(now.GetUID()) != uid {
			t.Errorf("%s: the object was replaced: UID %s, was %s", cluster, now.GetUID(), uid)
		}
	}
	s.isReady()
}
