package charts_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/starlinghq/starling/pkg/hostedspace/access"
	"github.com/starlinghq/starling/test/testenv"
)

// plane is a ControlPlane that KubeFlex would create, as far as it is ready.
func plane(name, kind string) string {
	return `
apiVersion: tenancy.kflex.kubestellar.org/v1alpha1
kind: ControlPlane
metadata: {name: ` + name + `, labels: {kflex.kubestellar.io/cptype: ` + kind + `}}
spec: {type: k8s, backend: shared}
`
}

// ready makes a ControlPlane ready, with the kubeconfig of a space.
func ready(t *testing.T, space *testenv.Space, name, of string) {
	t.Helper()
	namespace := name + "-system"
	space.Apply(t, "{apiVersion: v1, kind: Namespace, metadata: {name: "+namespace+"}}")
	space.Create(t, secrets, namespace, "admin-kubeconfig", map[string]any{"data": map[string]any{"kubeconfig-incluster": encoded(t, of)}})
	space.Patch(t, controlPlanes, "", name, `{"status":{"conditions":[{"type":"Ready","status":"True","reason":"Available"}],"secretRef":{"namespace":"`+
		namespace+`","name":"admin-kubeconfig","key":"kubeconfig","inClusterKey":"kubeconfig-incluster"}}}`, "status")
}

// encoded returns the kubeconfig of the administrator of a space, with nothing else in it.
func encoded(t *testing.T, space string) []byte {
	t.Helper()
	config, err := clientcmd.LoadFromFile(testenv.Shared(t).Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	config.CurrentContext = space
	if err := clientcmdapi.MinifyConfig(config); err != nil {
		t.Fatal(err)
	}
	if err := clientcmdapi.FlattenConfig(config); err != nil {
		t.Fatal(err)
	}
	text, err := clientcmd.Write(*config)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestControlPlanes: helm finds a ControlPlane by name, or the only one with a label, and refuses
// one that does not exist or is not ready. The Jobs may read its Secret, and no other one.
func TestControlPlanes(t *testing.T) {
	space := hosting(t)
	h := inNamespace(t, space, testenv.Name(t))
	its := func(more string) string { return "ITSes: [{name: its1, type: kubeflex" + more + "}]" }
	install := func(values, want string) {
		t.Helper()
		_, err := h.install(t, "starling", "fleet", values, "none")
		refused(t, err, want)
		nothing(t, space, h)
	}
	install(its(", controlPlane: flex-a"), `space "its1": ControlPlane "flex-a" does not exist`)
	install(its(""), `space "its1": there is no ControlPlane with label kflex.kubestellar.io/cptype=its`)
	space.Apply(t, plane("flex-a", "its"))
	t.Cleanup(func() { space.Remove(t, controlPlanes, "", "flex-a") })
	install(its(", controlPlane: flex-a"), `ControlPlane "flex-a" is not ready yet`)
	install(its(""), `ControlPlane "flex-a" is not ready yet`)
	space.Apply(t, plane("flex-b", "its"))
	t.Cleanup(func() { space.Remove(t, controlPlanes, "", "flex-b") })
	install(its(""), `there are 2 ControlPlanes with label kflex.kubestellar.io/cptype=its: set controlPlane to one of flex-a, flex-b`)
	space.Remove(t, controlPlanes, "", "flex-b")

	ready(t, space, "flex-a", "its1")
	r, err := h.install(t, "starling", "fleet", its(""), "none")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(r.Manifest, "--control-plane=flex-a\n") {
		t.Errorf("the Jobs do not use the ControlPlane:\n%s", r.Manifest)
	}
	if _, err := h.upgrade(t, "starling", "fleet", its(", controlPlane: flex-a")); err != nil {
		t.Error(err)
	}

	// What a Job does, with its rights.
	space.Create(t, secrets, "flex-a-system", "another", nil)
	job := space.AsServiceAccount(h.namespace, "its1-install")
	client, err := kubernetes.NewForConfig(job)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Secrets("flex-a-system").Get(t.Context(), "another", metav1.GetOptions{}); err == nil {
		t.Error("the Job may read another Secret of the ControlPlane")
	}
	if _, err := client.CoreV1().Secrets("flex-a-system").List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Error("the Job may list Secrets")
	}
	of(t, h.as("its1-install"), "its1", "--control-plane", "flex-a")
	of(t, h.as("its1-credentials"), "its1", "--control-plane", "flex-a")
	misses(t, h.as("its1-install"), "1s", "forbidden", "--control-plane", "flex-c")
}

// TestAccess: a Job waits for the Secret of an external space, and says what is wrong with it.
func TestAccess(t *testing.T) {
	space := hosting(t)
	h := inNamespace(t, space, testenv.Name(t))
	flags := []string{"--kubeconfig-secret", h.namespace + "/wds2", "--kubeconfig-key", "config"}
	values := "ITSes: [{name: its1, type: external, kubeconfigSecret: wds2, kubeconfigKey: config}]"
	if _, err := h.install(t, "starling", "fleet", values, "none"); err != nil {
		t.Fatal(err)
	}
	user := h.as("its1-credentials")
	misses(t, user, "1s", `not within 1s: the hosting cluster has no Secret "`+h.namespace+`/wds2": create it`, flags...)
	space.Create(t, secrets, h.namespace, "wds2", map[string]any{"data": map[string]any{"kubeconfig": encoded(t, "its1")}})
	misses(t, user, "1m", `it has no key "config" with a kubeconfig; its keys are kubeconfig`, flags...)
	of(t, user, "its1", flags[:2]...)
	misses(t, user, "1s", "forbidden", "--kubeconfig-secret", h.namespace+"/another")
	misses(t, "", "1s", `ControlPlane "flex-none" does not exist in the hosting cluster`, "--control-plane", "flex-none")

	bare := testenv.Shared(t).Space(t, "its1") // has no KubeFlex
	out, err := find(t, bare.Name, "", "1s", "--control-plane", "flex-none")
	if err == nil || !strings.Contains(err.Error(), "the hosting cluster serves no ControlPlanes: install KubeFlex") || !strings.Contains(out, "Waiting: ") {
		t.Errorf("without KubeFlex: %v, %s", err, out)
	}
}

// as returns the user of a ServiceAccount of the release.
func (h *helm) as(account string) string {
	return fmt.Sprintf("system:serviceaccount:%s:%s", h.namespace, account)
}

// find finds a kubeconfig as a user of the hosting cluster does. It returns the address of the
// space, or what was printed and the error.
func find(t *testing.T, host, user, timeout string, flags ...string) (out string, err error) {
	t.Helper()
	config, err := clientcmd.LoadFromFile(testenv.Shared(t).Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	config.CurrentContext = host
	config.AuthInfos[config.Contexts[host].AuthInfo].Impersonate = user
	file := t.TempDir() + "/kubeconfig"
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	options := &access.Options{}
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	options.AddFlags(set)
	if err := set.Parse(append(flags, "--host-kubeconfig", file)); err != nil {
		t.Fatal(err)
	}
	limit, err := time.ParseDuration(timeout)
	if err != nil {
		t.Fatal(err)
	}
	var printed strings.Builder
	found, err := options.Space(t.Context(), "its1", limit, &printed)
	if err != nil {
		return printed.String(), err
	}
	return found.Host, nil
}

// of fails the test unless a user finds the kubeconfig of a space.
func of(t *testing.T, user, space string, flags ...string) {
	t.Helper()
	want := testenv.Shared(t).Config(t, space).Host
	testenv.Eventually(t, testenv.Patience, func() (bool, string) { // rights count a moment after they were written
		got, err := find(t, host, user, "1s", flags...)
		return err == nil && got == want, fmt.Sprintf("%s is found, want %s: %v", got, want, err)
	})
}

// misses fails the test if a user finds a kubeconfig, or does not for another reason.
func misses(t *testing.T, user, timeout, want string, flags ...string) {
	t.Helper()
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		_, err := find(t, host, user, timeout, flags...)
		return err != nil && strings.Contains(err.Error(), want), fmt.Sprintf("got %v, want an error with %q", err, want)
	})
}
