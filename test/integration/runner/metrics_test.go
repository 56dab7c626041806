package runner

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/starlinghq/starling/pkg/runner"
	"github.com/starlinghq/starling/test/testenv"
)

// TestSecureMetrics: the API server knows the clients and their rights. The program itself has no
// more rights than system:auth-delegator. Probes are open.
func TestSecureMetrics(t *testing.T) {
	config := testenv.Shared(t).Config(t, "wds1")
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	createNamespace(t, client)
	name := testenv.Name(t)
	program, prometheus, other := account(t, client, name+"-program"), account(t, client, name+"-prometheus"), account(t, client, name+"-other")
	bind(t, client, name+"-program", "system:auth-delegator")
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Rules:      []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}},
	}
	if _, err := client.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	bind(t, client, name+"-prometheus", name)

	o := runner.NewOptions()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.AddFlags(flags)
	probes, metrics := testenv.Address(t), testenv.Address(t)
	err = flags.Parse([]string{
		"--leader-elect=false", "--pprof", "--health-address=" + probes, "--secure-metrics-address=" + metrics,
		"--secure-metrics-kubeconfig=" + kubeconfig(t, config, program),
	})
	if err != nil {
		t.Fatal(err)
	}
	err = runner.Run(t.Context(), o, runner.Program{Name: name, Ready: func() error { return nil }, Run: func(context.Context, <-chan struct{}) error {
		testenv.Eventually(t, testenv.Patience, func() (bool, string) { // rights apply a moment after they were written
			code, body := fetch(t, "https://"+metrics+"/metrics", prometheus)
			return code == http.StatusOK && strings.Contains(body, "go_goroutines"), body
		})
		for _, c := range []struct {
			url, token string
			want       int
		}{
			{"https://" + metrics + "/metrics", "", http.StatusUnauthorized},
			{"https://" + metrics + "/metrics", "not-a-token", http.StatusUnauthorized},
			{"https://" + metrics + "/metrics", other, http.StatusForbidden},
			{"https://" + metrics + "/debug/pprof/", other, http.StatusForbidden},
			{"https://" + metrics + "/debug/pprof/", prometheus, http.StatusForbidden},
			{"https://" + metrics + "/healthz", "", http.StatusUnauthorized},
			{"http://" + probes + "/metrics", prometheus, http.StatusNotFound},
			{"http://" + probes + "/debug/pprof/", prometheus, http.StatusNotFound},
			{"http://" + probes + "/healthz", "", http.StatusOK},
			{"http://" + probes + "/readyz", "", http.StatusOK},
		} {
			if code, body := fetch(t, c.url, c.token); code != c.want {
				t.Errorf("%s: got %d %q, want %d", c.url, code, body, c.want)
			}
		}
		return nil
	}})
	if err != nil {
		t.Errorf("Run: %v", err)
	}
}

// account creates a ServiceAccount and returns a token of it.
func account(t *testing.T, client kubernetes.Interface, name string) string {
	t.Helper()
	accounts := client.CoreV1().ServiceAccounts(runner.Namespace) // a WDS issues tokens of no others
	if _, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	request, err := accounts.CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

// bind gives a ServiceAccount the rights of a ClusterRole.
func bind(t *testing.T, client kubernetes.Interface, account, role string) {
	t.Helper()
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: account},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: runner.Namespace, Name: account}},
	}
	if _, err := client.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// kubeconfig returns a file with which the owner of a token connects to the same API server.
func kubeconfig(t *testing.T, config *rest.Config, token string) string {
	t.Helper()
	config = rest.CopyConfig(config)
	if err := rest.LoadTLSFiles(config); err != nil {
		t.Fatal(err)
	}
	out := clientcmdapi.NewConfig()
	out.Clusters["space"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	out.AuthInfos["account"] = &clientcmdapi.AuthInfo{Token: token}
	out.Contexts["space"], out.CurrentContext = &clientcmdapi.Context{Cluster: "space", AuthInfo: "account"}, "space"
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*out, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// fetch returns the code and the body of a response. An empty token sends none.
func fetch(t *testing.T, url, token string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	// The certificate is self-signed.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}
