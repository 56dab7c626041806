package access

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// plane returns a ControlPlane with a condition Ready and a reference to a Secret.
func plane(condition, ref map[string]any) *unstructured.Unstructured {
	status := map[string]any{}
	if condition != nil {
		condition["type"] = "Ready"
		status["conditions"] = []any{map[string]any{"type": "Synced", "status": "True"}, condition}
	}
	if ref != nil {
		status["secretRef"] = ref
	}
	return &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "wds1"}, "status": status}}
}

func TestOfControlPlane(t *testing.T) {
	ready := map[string]any{"status": "True", "reason": "Available"}
	ref := map[string]any{"namespace": "wds1-system", "name": "admin-kubeconfig", "key": "kubeconfig", "inClusterKey": "kubeconfig-incluster"}
	for name, c := range map[string]struct {
		plane   *unstructured.Unstructured
		want    key
		missing string
	}{
		"ready":       {plane: plane(ready, ref), want: key{"wds1-system", "admin-kubeconfig", "kubeconfig-incluster"}},
		"one key":     {plane: plane(ready, map[string]any{"namespace": "a", "name": "b", "key": "c"}), want: key{"a", "b", "c"}},
		"new":         {plane: plane(nil, nil), missing: `ControlPlane "wds1" is not ready: KubeFlex has not reported on it`},
		"not ready":   {plane: plane(map[string]any{"status": "False", "reason": "Creating"}, ref), missing: `ControlPlane "wds1" is not ready: Creating`},
		"why":         {plane: plane(map[string]any{"status": "False", "reason": "Unavailable", "message": "no database"}, ref), missing: `ControlPlane "wds1" is not ready: no database`},
		"no Secret":   {plane: plane(ready, nil), missing: `ControlPlane "wds1" does not name a Secret with its kubeconfig in status.secretRef`},
		"no key":      {plane: plane(ready, map[string]any{"namespace": "a", "name": "b"}), missing: `ControlPlane "wds1" does not name a Secret with its kubeconfig in status.secretRef`},
		"odd content": {plane: plane(ready, map[string]any{"namespace": int64(1)}), missing: `ControlPlane "wds1" does not name a Secret with its kubeconfig in status.secretRef`},
	} {
		t.Run(name, func(t *testing.T) {
			got, missing := ofControlPlane(c.plane)
			if got != c.want || missing != c.missing {
				t.Errorf("ofControlPlane() = %v, %q, want %v, %q", got, missing, c.want, c.missing)
			}
		})
	}
}

// kubeconfig returns one with a token, after a change.
func kubeconfig(t *testing.T, change func(*clientcmdapi.Config)) []byte {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: "https://wds1.example.com", CertificateAuthorityData: []byte("ca")}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: "secret"}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	if change != nil {
		change(config)
	}
	text, err := clientcmd.Write(*config)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// broken are kubeconfigs that a Job cannot use.
var broken = map[string]func(*clientcmdapi.Config){
	"no current context": func(c *clientcmdapi.Config) { c.CurrentContext = "y" },
	"a command": func(c *clientcmdapi.Config) {
		c.AuthInfos["u"].Exec = &clientcmdapi.ExecConfig{Command: "aws", APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: "Never"}
	},
	"a file of the user": func(c *clientcmdapi.Config) { c.AuthInfos["u"].TokenFile = "/home/me/token" },
	"a file of the cluster": func(c *clientcmdapi.Config) {
		c.Clusters["c"].CertificateAuthorityData, c.Clusters["c"].CertificateAuthority = nil, "/home/me/ca.crt"
	},
	"no cluster": func(c *clientcmdapi.Config) { delete(c.Clusters, "c") },
}

func TestRead(t *testing.T) {
	secret := &corev1.Secret{Data: map[string][]byte{"kubeconfig": kubeconfig(t, nil)}}
	config, err := read(secret, key{key: "kubeconfig"})
	if err != nil {
		t.Fatal(err)
	}
	got := []string{config.Host, config.BearerToken, string(config.CAData)}
	if diff := cmp.Diff([]string{"https://wds1.example.com", "secret", "ca"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, change := range broken {
		secret.Data["kubeconfig"] = kubeconfig(t, change)
		if config, err := read(secret, key{key: "kubeconfig"}); err == nil {
			t.Errorf("%s: no error, but the host %s", name, config.Host)
		}
	}
}
