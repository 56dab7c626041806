package packages

import (
	"strings"
	"testing"
	"time"

	"github.com/starlinghq/starling/pkg/localfleet"
	"github.com/starlinghq/starling/test/testenv"
)

// TestFleet: the package-server of a fleet starts with its space and restarts after a crash. It can
// be disabled: the space works without it, and its objects exist when it is enabled again.
func TestFleet(t *testing.T) {
	t.Parallel()
	fleet := testenv.Start(t, testenv.Options{Spaces: []string{"wds1"}, Packages: true})
	kubectl := func(args ...string) string { return fleet.Kubectl(t, "wds1", args...) }
	kubectl("create", "namespace", "packages")
	for _, file := range []string{"repository.yaml", "web.yaml"} {
		kubectl("create", "--filename", "../../../docs/examples/packages/"+file)
	}
	uid := kubectl("--namespace", "packages", "get", "packagerevision", "blueprints.web.v1", "--output=jsonpath={.metadata.uid}")

	fleet.Restart(t, "wds1/package-server")
	testenv.Eventually(t, testTimeout, func() (bool, string) {
		out, err := fleet.Run("kubectl", "--", "--context", "wds1", "--namespace", "packages", "get", "packagerevisions", "--no-headers")
		return err == nil && strings.Contains(out, "Draft"), out
	})

	if _, err := fleet.Up("--no-packages"); err != nil {
		t.Fatal(err)
	}
	for _, c := range fleet.Components(t) {
		if c.Program == "package-server" {
			t.Errorf("%s is %s", c.Name, c.State)
		}
	}
	kubectl("create", "namespace", "other")
	kubectl("delete", "namespace", "other", "--timeout=60s")

	if _, err := fleet.Up("--no-packages=false"); err != nil {
		t.Fatal(err)
	}
	if c := fleet.Component(t, "wds1/package-server"); c.State != localfleet.StateReady {
		t.Errorf("%s is %s", c.Name, c.State)
	}
	testenv.Eventually(t, time.Minute, func() (bool, string) {
		out, err := fleet.Run("kubectl", "--", "--context", "wds1", "--namespace", "packages", "get", "packagerevision", "blueprints.web.v1", "--output=jsonpath={.metadata.uid}")
		return err == nil && out == uid, out
	})
}
