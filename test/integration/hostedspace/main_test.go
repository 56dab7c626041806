// Package hostedspace_test checks the commands that install a space and keep its credentials, with
// real spaces: what they write, that they write nothing twice, and what they refuse.
package hostedspace_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/starlinghq/starling/test/testenv"
)

// host is a space that plays the hosting cluster: an API server is all that these commands need of
// one. Nothing is installed in it.
const host = "wds2"

func TestMain(m *testing.M) {
	testenv.Main(m, testenv.Options{Spaces: []string{"its1", "wds1", host}})
}

// Resources that tests read.
var (
	namespaces      = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	configMaps      = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	secrets         = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	serviceAccounts = schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}
	apiServices     = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
	policies        = schema.GroupVersionResource{Group: "control.kubestellar.io", Version: "v1alpha1", Resource: "bindingpolicies"}
	admission       = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies"}
	mutatingHooks   = schema.GroupVersionResource{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"}
)

// run runs `starling space` and returns what it prints, and its exit code.
func run(t testing.TB, args ...string) (output string, code int) {
	t.Helper()
	var stderr bytes.Buffer
	code = runTo(t, &stderr, args...)
	return stderr.String(), code
}

// runTo is run for a command whose output is read while it runs.
func runTo(t testing.TB, stderr io.Writer, args ...string) (code int) {
	t.Helper()
	bin, err := testenv.Binary()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, bin, append([]string{"space"}, args...)...)
	var stdout bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, stderr
	err = cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	if stdout.Len() > 0 {
		t.Errorf("starling space %s prints on stdout: %s", args[0], stdout.String())
	}
	return code
}

// succeeds runs `starling space`, which must succeed and print all this.
func succeeds(t testing.TB, args []string, want ...string) string {
	t.Helper()
	out, code := run(t, args...)
	if code != 0 {
		t.Fatalf("starling space %s: exit code %d: %s", strings.Join(args, " "), code, out)
	}
	contains(t, out, want...)
	return out
}

// fails runs `starling space`, which must fail and print all this.
func fails(t testing.TB, args []string, want ...string) string {
	t.Helper()
	out, code := run(t, args...)
	if code != 1 {
		t.Fatalf("starling space %s: exit code %d, want 1: %s", strings.Join(args, " "), code, out)
	}
	contains(t, out, want...)
	return out
}

func contains(t testing.TB, out string, want ...string) {
	t.Helper()
	for _, text := range want {
		if !strings.Contains(out, text) {
			t.Errorf("it does not print %q:\n%s", text, out)
		}
	}
}

// kubeconfig writes the kubeconfig of the administrator of a space, after a change, and returns its
// path.
func kubeconfig(t testing.TB, space string, change func(*clientcmdapi.Cluster, *clientcmdapi.AuthInfo)) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(testenv.Shared(t).Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	config.CurrentContext = space
	if change != nil {
		change(config.Clusters[space], config.AuthInfos[space])
	}
	file := filepath.Join(t.TempDir(), space+".kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// as makes a kubeconfig that of another user.
func as(user string) func(*clientcmdapi.Cluster, *clientcmdapi.AuthInfo) {
	return func(_ *clientcmdapi.Cluster, info *clientcmdapi.AuthInfo) { info.Impersonate = user }
}

// authority writes the authority of a space into a file and returns its path.
func authority(t testing.TB, space string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, testenv.Shared(t).Config(t, space).CAData, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// snapshot returns the versions of all objects of a space, except those that its own controllers
// write all the time.
func snapshot(t testing.TB, s *testenv.Space) map[string]string {
	t.Helper()
	client, err := discovery.NewDiscoveryClientForConfig(s.Config)
	if err != nil {
		t.Fatal(err)
	}
	lists, err := client.ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for _, list := range lists {
		groupVersion, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for i := range list.APIResources {
			resource := groupVersion.WithResource(list.APIResources[i].Name)
			if resource.Resource == "leases" || resource.Resource == "events" || resource.Resource == "endpoints" || resource.Resource == "componentstatuses" ||
				!strings.Contains(list.APIResources[i].Verbs.String(), "list") {
				continue
			}
			objs, err := s.Client.Resource(resource).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for j := range objs.Items {
				obj := &objs.Items[j]
				versions[fmt.Sprintf("%s %s/%s", resource.GroupResource(), obj.GetNamespace(), obj.GetName())] = obj.GetResourceVersion()
			}
		}
	}
	return versions
}

// quiet returns the snapshot of a space when its own controllers have written what follows from
// what was written before.
func quiet(t testing.TB, s *testenv.Space) map[string]string {
	t.Helper()
	const long = 2 * time.Second
	testenv.Still(t, long, func() string { return fmt.Sprint(snapshot(t, s)) })
	return snapshot(t, s)
}

// unchanged fails the test if a space is not as it was.
func unchanged(t testing.TB, s *testenv.Space, before map[string]string, except ...string) {
	t.Helper()
	after := snapshot(t, s)
	for _, key := range except {
		if before[key] == after[key] {
			t.Errorf("%s was not written", key)
		}
		delete(before, key)
		delete(after, key)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("it has changed (-before +after):\n%s", diff)
	}
}
