package cli

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/starlinghq/starling/pkg/install/ocm"
)

const published = `
apiVersion: v1
kind: Config
clusters:
- name: ""
  cluster: {server: "https://its1.example.com", certificate-authority-data: cHVibGlzaGVk}
`

func TestHubAddress(t *testing.T) {
	own := &rest.Config{Host: "https://10.1.2.3:6443", TLSClientConfig: rest.TLSClientConfig{ServerName: "its1", CAData: []byte("own")}}
	local := &rest.Config{Host: "https://127.0.0.1:6443", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("own")}}
	for name, c := range map[string]struct {
		server, published string
		own               *rest.Config
		want              address
		problem           string
	}{
		"as the user":         {own: own, want: address{"https://10.1.2.3:6443", "its1", []byte("own")}},
		"published":           {published: published, own: own, want: address{"https://its1.example.com", "", []byte("published")}},
		"asked for":           {server: "https://hub", published: published, own: own, want: address{"https://hub", "", []byte("published")}},
		"here only":           {own: local, problem: "set --hub-server"},
		"localhost":           {own: &rest.Config{Host: "https://localhost:6443"}, problem: "set --hub-server"},
		"here, and published": {published: published, own: local, want: address{"https://its1.example.com", "", []byte("published")}},
		"damaged":             {published: "{", own: own, problem: "cluster-info"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := hubAddress(&request{server: c.server}, c.published, c.own)
			if c.problem != "" {
				if err == nil || !strings.Contains(err.Error(), c.problem) {
					t.Errorf("got %v, want an error with %q", err, c.problem)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(address{})); diff != "" {
				t.Errorf("address (-want +got):\n%s", diff)
			}
		})
	}
}

// TestKubeconfig: the agent can use what it gets, and it has no more than the token.
func TestKubeconfig(t *testing.T) {
	text, err := address{server: "https://hub", serverName: "its1", ca: []byte("ca")}.kubeconfig("secret")
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(text)
	if err != nil {
		t.Fatal(err)
	}
	got := []string{config.Host, config.ServerName, string(config.CAData), config.BearerToken, string(config.CertData)}
	if diff := cmp.Diff([]string{"https://hub", "its1", "ca", "secret", ""}, got); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
}

// TestCheck: a cluster in which another agent runs is not changed.
func TestCheck(t *testing.T) {
	r, a := &request{name: "prod"}, address{server: "https://hub"}
	for name, c := range map[string]struct {
		observed observed
		want     string
	}{
		"nothing runs":    {},
		"joined already":  {observed: observed{agentName: "prod", hub: "https://hub"}},
		"asks already":    {observed: observed{hub: "https://hub"}},
		"another name":    {observed: observed{agentName: "test", hub: "https://hub"}, want: `it has joined as "test": use --name test`},
		"another hub":     {observed: observed{agentName: "prod", hub: "https://other"}, want: "it has joined the hub at https://other"},
		"OCM's operator":  {observed: observed{operator: true}, want: "clusteradm unjoin"},
		"several reasons": {observed: observed{agentName: "test", hub: "https://other"}, want: "; "},
	} {
		t.Run(name, func(t *testing.T) {
			err := check(r, a, c.observed)
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "nothing was changed")):
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

// TestWorkRights: the rights of the agent change only on request.
func TestWorkRights(t *testing.T) {
	for _, c := range []struct{ requested, observed, want ocm.WorkRights }{
		{"", "", ocm.WorkRightsAll},
		{"", ocm.WorkRightsListed, ocm.WorkRightsListed},
		{"", ocm.WorkRightsAll, ocm.WorkRightsAll},
		{ocm.WorkRightsListed, ocm.WorkRightsAll, ocm.WorkRightsListed},
		{ocm.WorkRightsAll, ocm.WorkRightsListed, ocm.WorkRightsAll},
	} {
		if got := workRights(c.requested, c.observed); got != c.want {
			t.Errorf("requested %q, observed %q: got %q, want %q", c.requested, c.observed, got, c.want)
		}
	}
}

func TestValidate(t *testing.T) {
	for _, r := range []request{{name: "Prod", image: "i"}, {name: "prod"}, {name: "prod", image: "i", server: "its1.example.com"}} {
		if err := r.validate(); err == nil {
			t.Errorf("%+v is valid", r)
		}
	}
	if err := (&request{name: "prod", image: "i", server: "https://its1.example.com:443"}).validate(); err != nil {
		t.Error(err)
	}
}
