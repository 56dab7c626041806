package credentials

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/starlinghq/starling/pkg/install/manifest"
	"github.com/starlinghq/starling/pkg/spaces"
)

var now = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

func request(change func(*Request)) *Request {
	r := &Request{
		Space: "wds1", Server: "https://wds1.example.com", CA: []byte("authority"), Namespace: "starling", Prefix: "wds1-",
		Credentials: List{{Name: "transport", Account: manifest.Account{Namespace: "starling-system", Name: "transport-controller"}}},
		Lifetime:    24 * time.Hour, RenewBefore: 18 * time.Hour, Timeout: time.Minute,
	}
	if change != nil {
		change(r)
	}
	return r
}

// written returns the Secret that was written for request(nil) a while ago.
func written(t *testing.T, ago time.Duration) *corev1.Secret {
	t.Helper()
	r := request(nil)
	secret, err := desired(r, r.Credentials[0], nil, "a-token", now.Add(r.Lifetime-ago))
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

func TestDecide(t *testing.T) {
	type change func(*Request, *corev1.Secret)
	for name, tc := range map[string]struct {
		ago     time.Duration
		change  change
		want    string
		foreign bool
	}{
		"just written":       {},
		"almost too old":     {ago: 6 * time.Hour},
		"too old":            {ago: 6*time.Hour + time.Second, want: "less than 18h0m0s is left of its lifetime"},
		"expired":            {ago: 48 * time.Hour, want: "less than 18h0m0s is left of its lifetime"},
		"with other labels":  {change: func(_ *Request, s *corev1.Secret) { s.Labels["mine"] = "x"; s.Annotations["mine"] = "y" }},
		"no label":           {change: func(_ *Request, s *corev1.Secret) { s.Labels = nil }, foreign: true},
		"of another space":   {change: func(_ *Request, s *corev1.Secret) { s.Labels[SpaceLabel] = "wds2" }, foreign: true},
		"no expiry":          {change: func(_ *Request, s *corev1.Secret) { delete(s.Annotations, ExpiresAnnotation) }, want: "the annotation starling.io/token-expires is missing or invalid"},
		"invalid expiry":     {change: func(_ *Request, s *corev1.Secret) { s.Annotations[ExpiresAnnotation] = "soon" }, want: "the annotation starling.io/token-expires is missing or invalid"},
		"no token":           {change: func(_ *Request, s *corev1.Secret) { s.Data["token"] = nil }, want: "its keys are not those of a credential"},
		"one key too many":   {change: func(_ *Request, s *corev1.Secret) { s.Data["more"] = []byte("x") }, want: "its keys are not those of a credential"},
		"authority removed":  {change: func(r *Request, _ *corev1.Secret) { r.CA = nil }, want: "its key kubeconfig is not as it should be"},
		"another authority":  {change: func(r *Request, _ *corev1.Secret) { r.CA = []byte("other") }, want: "its key ca.crt is not as it should be"},
		"another server":     {change: func(r *Request, _ *corev1.Secret) { r.Server = "https://other" }, want: "its key kubeconfig is not as it should be"},
		"another account":    {change: func(r *Request, _ *corev1.Secret) { r.Credentials[0].Account.Name = "other" }, want: "it is for another ServiceAccount"},
		"shorter lifetime":   {change: func(r *Request, _ *corev1.Secret) { r.Lifetime, r.RenewBefore = time.Hour, time.Minute }, want: "its lifetime is longer than 1h0m0s"},
		"clock of the space": {ago: -30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			r, secret := request(nil), written(t, tc.ago)
			if tc.change != nil {
				tc.change(r, secret)
			}
			got, err := decide(r, r.Credentials[0], secret, now)
			if (err != nil) != tc.foreign {
				t.Errorf("decide() = %v, want an error: %t", err, tc.foreign)
			}
			if got != tc.want {
				t.Errorf("decide() = %q, want %q", got, tc.want)
			}
		})
	}
	if got, err := decide(request(nil), request(nil).Credentials[0], nil, now); got != "it does not exist" || err != nil {
		t.Errorf("decide() of a missing Secret = %q, %v", got, err)
	}
}

// TestDesiredIsKept checks that what is written is not renewed at once, for any request.
func TestDesiredIsKept(t *testing.T) {
	for name, r := range map[string]*Request{
		"all":             request(nil),
		"no authority":    request(func(r *Request) { r.CA = nil }),
		"name of server":  request(func(r *Request) { r.ServerName = "other" }),
		"short lifetimes": request(func(r *Request) { r.Lifetime, r.RenewBefore = 10*time.Minute, time.Second }),
	} {
		c := r.Credentials[0]
		old := written(t, time.Hour)
		old.Labels["mine"], old.ResourceVersion = "stays", "7"
		secret, err := desired(r, c, old, "another-token", now.Add(r.Lifetime))
		if err != nil {
			t.Fatal(err)
		}
		if reason, err := decide(r, c, secret, now); reason != "" || err != nil {
			t.Errorf("%s: renewed at once: %q, %v", name, reason, err)
		}
		if secret.Labels["mine"] != "stays" || secret.ResourceVersion != "7" || string(secret.Data["token"]) != "another-token" {
			t.Errorf("%s: %v", name, secret.ObjectMeta)
		}
		if diff := cmp.Diff(written(t, time.Hour).Data["token"], old.Data["token"]); diff != "" {
			t.Errorf("the old Secret was changed (-want +got):\n%s", diff)
		}
	}
}

// TestKubeconfigIsRelative checks that a client finds the files beside the kubeconfig.
func TestKubeconfigIsRelative(t *testing.T) {
	dir := t.TempDir()
	for key, data := range written(t, 0).Data {
		if err := os.WriteFile(filepath.Join(dir, key), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	options, err := spaces.Named{Name: "wds1", Kubeconfig: filepath.Join(dir, "kubeconfig")}.Options(spaces.Options{QPS: 1, Burst: 1})
	if err != nil {
		t.Fatal(err)
	}
	config, err := options.Load()
	if err != nil {
		t.Fatal(err)
	}
	type found struct{ Context, Host, TokenFile, CAFile string }
	want := found{"wds1", "https://wds1.example.com", filepath.Join(dir, "token"), filepath.Join(dir, "ca.crt")}
	if diff := cmp.Diff(want, found{options.Context, config.Host, config.BearerTokenFile, config.CAFile}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRequestFromKubeconfig(t *testing.T) {
	o := &Options{request: *request(func(r *Request) { r.Server, r.CA = "", nil })}
	space := &rest.Config{Host: "https://admin", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("of the kubeconfig"), ServerName: "name"}}
	got, err := o.Request(space)
	if err != nil {
		t.Fatal(err)
	}
	want := request(func(r *Request) { r.Server, r.ServerName, r.CA = "https://admin", "name", []byte("of the kubeconfig") })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := o.Request(&rest.Config{TLSClientConfig: rest.TLSClientConfig{Insecure: true}}); err == nil {
		t.Error("credentials that verify nothing were accepted")
	}
}
