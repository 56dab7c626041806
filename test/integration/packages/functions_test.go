package packages

import (
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/test/testenv"
)

// functionHost runs a program as a container of a function does: from a copy of package-server that
// another one has installed. It returns its URL, and stop.
func functionHost(t *testing.T, address string, program ...string) (url string, stop func()) {
	t.Helper()
	binary, err := testenv.Binary()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), filepath.Join(filepath.Dir(binary), "package-server"), "function-host", "--install", dir).CombinedOutput(); err != nil {
		t.Fatalf("install: %v\n%s", err, out)
	}
	command := exec.CommandContext(t.Context(), filepath.Join(dir, "package-server"), append([]string{"function-host", "--listen=" + address, "--"}, program...)...)
	command.Stderr = os.Stderr
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	url = "http://" + address
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		response, err := http.Get(url + "/healthz")
		if err != nil {
			return false, err.Error()
		}
		defer response.Body.Close()
		_, _ = io.Copy(io.Discard, response.Body)
		return response.StatusCode == http.StatusOK, response.Status
	})
	return url, func() {
		_ = command.Process.Signal(os.Interrupt)
		if err := command.Wait(); err != nil {
			t.Errorf("the host ends: %v", err)
		}
	}
}

// TestFunctionHost: a function that is not built in runs in a host. While the host is away, the
// gate of the pipeline is not met, and says why; the next write of the draft repairs it.
func TestFunctionHost(t *testing.T) {
	e := newEnvironment(t)
	const image = "example.com/team/second:v1"
	address := testenv.Address(t)
	url, stop := functionHost(t, address, "/bin/sh", "-c", "sed 's/: first$/: second/'")
	client := newUser(t, e.start(t, "--leader-elect=false", "--function-host="+image+"="+url).config).resources(e.namespace)
	pr := e.make(t, e.revision("edge", "web", "v1"))
	files := map[string]string{
		"Kptfile": "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: web\npipeline:\n  mutators:\n  - image: " + image + "\n",
		"a.yaml":  "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a # ours\ndata:\n  value: first\n",
	}
	write := func() *porchv1alpha1.PackageRevisionResources {
		t.Helper()
		prr := must[*porchv1alpha1.PackageRevisionResources](t)(client.Get(t.Context(), pr.Name, metav1.GetOptions{}))
		maps.Copy(prr.Spec.Resources, files)
		return must[*porchv1alpha1.PackageRevisionResources](t)(client.Update(t.Context(), prr, metav1.UpdateOptions{}))
	}
	want := strings.Replace(files["a.yaml"], "first", "second", 1)
	if prr := write(); prr.Status.RenderStatus.Err != "" || prr.Spec.Resources["a.yaml"] != want {
		t.Errorf("%s\n%s", prr.Status.RenderStatus.Err, prr.Spec.Resources["a.yaml"])
	}
	stop()
	if prr := write(); !strings.Contains(prr.Status.RenderStatus.Err, image+": its host does not answer") || prr.Spec.Resources["a.yaml"] != files["a.yaml"] {
		t.Errorf("%s\n%s", prr.Status.RenderStatus.Err, prr.Spec.Resources["a.yaml"])
	}
	_, stop = functionHost(t, address, "/bin/sh", "-c", "sed 's/: first$/: second/'")
	defer stop()
	if prr := write(); prr.Status.RenderStatus.Err != "" || prr.Spec.Resources["a.yaml"] != want {
		t.Errorf("%s\n%s", prr.Status.RenderStatus.Err, prr.Spec.Resources["a.yaml"])
	}
	e.move(t, pr, published)

	// The server of the fleet has no hosts.
	other := e.make(t, e.revision("edge", "other", "v1"))
	if prr := e.write(t, other.Name, files); !strings.Contains(prr.Status.RenderStatus.Err, "no function host of this server has it") {
		t.Error(prr.Status.RenderStatus.Err)
	}
}
