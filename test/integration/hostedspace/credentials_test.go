package hostedspace_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/starlinghq/starling/pkg/hostedspace/credentials"
	"github.com/starlinghq/starling/pkg/spaces"
	"github.com/starlinghq/starling/test/testenv"
)

// cluster is the hosting cluster, with a Namespace for the Secrets of a test.
type cluster struct {
	space     *testenv.Space
	namespace string
	// outputs is everything that the commands have printed.
	outputs strings.Builder
}

func hosting(t testing.TB) *cluster {
	t.Helper()
	c := &cluster{space: testenv.Shared(t).Space(t, host), namespace: testenv.Name(t)}
	c.space.Apply(t, "{apiVersion: v1, kind: Namespace, metadata: {name: "+c.namespace+"}}")
	return c
}

// args returns the command that keeps credentials for wds1.
func (c *cluster) args(t testing.TB, names ...string) []string {
	t.Helper()
	args := []string{
		"credentials", "--kubeconfig", kubeconfig(t, "wds1", nil), "--host-kubeconfig", kubeconfig(t, host, nil), "--space", "wds1",
		"--namespace", c.namespace, "--secret-prefix", "wds1-",
	}
	for _, name := range names {
		args = append(args, "--credential", name+"=starling-system/"+name)
	}
	return args
}

func (c *cluster) succeeds(t testing.TB, args []string, want ...string) {
	t.Helper()
	c.outputs.WriteString(succeeds(t, args, want...))
}

func (c *cluster) fails(t testing.TB, args []string, want ...string) {
	t.Helper()
	c.outputs.WriteString(fails(t, args, want...))
}

// secret returns a Secret of the hosting cluster. It checks that no command has printed its token.
func (c *cluster) secret(t testing.TB, name string) *corev1.Secret {
	t.Helper()
	obj := c.space.Get(t, secrets, c.namespace, name)
	if obj == nil {
		t.Fatalf("Secret %s does not exist", name)
	}
	secret := testenv.Into[corev1.Secret](t, obj)
	if token := string(secret.Data["token"]); token != "" && strings.Contains(c.outputs.String(), token) {
		t.Error("a token was printed")
	}
	return secret
}

// user returns who a client is that has mounted the Secret.
func user(t testing.TB, secret *corev1.Secret) string {
	t.Helper()
	dir := t.TempDir()
	for key, data := range secret.Data {
		if err := os.WriteFile(filepath.Join(dir, key), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config, err := (&spaces.Options{Kubeconfig: filepath.Join(dir, "kubeconfig"), Context: "wds1", QPS: 1, Burst: 1}).Load()
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return review.Status.UserInfo.Username
}

func TestCredentials(t *testing.T) { //nolint:paralleltest // the tests of this package install the same spaces
	succeeds(t, installArgs(t, "wds", "wds1"))
	c := hosting(t)
	args := c.args(t, "transport-controller", "binding-controller")
	c.succeeds(t, args, "Wrote Secret "+c.namespace+"/wds1-transport-controller", "because it does not exist")
	first := c.secret(t, "wds1-transport-controller")
	if got, want := user(t, first), "system:serviceaccount:starling-system:transport-controller"; got != want {
		t.Errorf("the client is %q, want %q", got, want)
	}
	if got, want := user(t, c.secret(t, "wds1-binding-controller")), "system:serviceaccount:starling-system:binding-controller"; got != want {
		t.Errorf("the client is %q, want %q", got, want)
	}
	if first.Labels[credentials.SpaceLabel] != "wds1" {
		t.Errorf("the labels are %v", first.Labels)
	}
	expires := func(s *corev1.Secret) time.Duration {
		at, err := time.Parse(time.RFC3339, s.Annotations[credentials.ExpiresAnnotation])
		if err != nil {
			t.Error(err)
		}
		return time.Until(at)
	}
	if left := expires(first); left < 23*time.Hour || left > 24*time.Hour+time.Minute {
		t.Errorf("the token expires in %s, want a day", left)
	}

	c.succeeds(t, args, "is valid until")
	if again := c.secret(t, first.Name); again.ResourceVersion != first.ResourceVersion {
		t.Error("the second run wrote the Secret")
	}

	// It is renewed in time, and others are not.
	other := c.secret(t, "wds1-binding-controller")
	soon := time.Now().Add(17 * time.Hour).UTC().Format(time.RFC3339)
	c.space.Patch(t, secrets, c.namespace, first.Name, `{"metadata":{"annotations":{"`+credentials.ExpiresAnnotation+`":"`+soon+`"},"labels":{"mine":"stays"}}}`)
	c.succeeds(t, args, "less than 18h0m0s is left")
	renewed := c.secret(t, first.Name)
	if string(renewed.Data["token"]) == string(first.Data["token"]) || expires(renewed) < 23*time.Hour || renewed.Labels["mine"] != "stays" {
		t.Errorf("it was not renewed: %v", renewed.ObjectMeta)
	}
	if got := user(t, renewed); got != "system:serviceaccount:starling-system:transport-controller" {
		t.Errorf("the client is %q", got)
	}
	if now := c.secret(t, other.Name); now.ResourceVersion != other.ResourceVersion {
		t.Error("a credential that is valid was renewed")
	}

	// Another address is another kubeconfig.
	c.succeeds(t, append(args, "--server", "https://wds1.example.com"), "its key kubeconfig is not as it should be")
	if text := string(c.secret(t, first.Name).Data["kubeconfig"]); !strings.Contains(text, "https://wds1.example.com") {
		t.Errorf("the kubeconfig is %s", text)
	}
	c.succeeds(t, args)

	// The token in the kubeconfig of the administrator has expired.
	c.fails(t, append(args, "--kubeconfig", kubeconfig(t, "wds1", func(_ *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) {
		*user = clientcmdapi.AuthInfo{Token: "expired"}
	})), `connect to space "wds1": its API server refuses the credentials of the kubeconfig`)

	// The kubeconfig of another space would give the identity of the same name there.
	c.fails(t, append(args, "--space", "wds3"), `keep the credentials of space "wds3": the kubeconfig is that of space "wds1"`)

	// A token of a ServiceAccount that was created again is of no use.
	space := testenv.Shared(t).Space(t, "wds1")
	mortal := c.args(t, "mortal")
	said, err := os.Create(filepath.Join(t.TempDir(), "said"))
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	says := func() string {
		text, err := os.ReadFile(said.Name())
		if err != nil {
			t.Error(err)
		}
		return string(text)
	}
	waited := make(chan string, 1)
	go func() {
		code := runTo(t, said, mortal...)
		waited <- fmt.Sprintf("%s exit code %d", says(), code)
	}()
	testenv.Eventually(t, testenv.Patience, func() (bool, string) { return strings.Contains(says(), "Waiting: "), says() })
	testenv.Never(t, 2*time.Second, func() string {
		select {
		case out := <-waited:
			return "it has not waited for the ServiceAccount: " + out
		default:
			return ""
		}
	})
	space.Apply(t, "{apiVersion: v1, kind: ServiceAccount, metadata: {namespace: starling-system, name: mortal}}")
	out := <-waited
	contains(t, out, "Waiting: ", "Wrote Secret", "exit code 0")
	c.outputs.WriteString(out)
	dead := c.secret(t, "wds1-mortal")
	space.Delete(t, serviceAccounts, "starling-system", "mortal")
	c.space.Patch(t, secrets, c.namespace, dead.Name, `{"metadata":{"annotations":{"`+credentials.ExpiresAnnotation+`":null}}}`) // API servers remember tokens for some seconds
	c.fails(t, append(mortal, "--timeout", "3s"), "not within 3s", `has no ServiceAccount "starling-system/mortal" yet`, "starling space install")
	space.Apply(t, "{apiVersion: v1, kind: ServiceAccount, metadata: {namespace: starling-system, name: mortal}}")
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		c.succeeds(t, mortal)
		return string(c.secret(t, dead.Name).Data["token"]) != string(dead.Data["token"]), "the token is still accepted"
	})
	user(t, c.secret(t, dead.Name))
}

func TestForeignSecrets(t *testing.T) { //nolint:paralleltest // the tests of this package install the same spaces
	succeeds(t, installArgs(t, "wds", "wds1"))
	c := hosting(t)
	c.space.Apply(t, `
{apiVersion: v1, kind: Secret, metadata: {namespace: `+c.namespace+`, name: wds1-transport-controller}, stringData: {token: mine}}
---
{apiVersion: v1, kind: Secret, metadata: {namespace: `+c.namespace+`, name: wds1-package-server, labels: {`+credentials.SpaceLabel+`: wds9}}}
`)
	foreign, another := c.secret(t, "wds1-transport-controller"), c.secret(t, "wds1-package-server")
	c.fails(t, c.args(t, "transport-controller", "package-server", "binding-controller"),
		"wds1-transport-controller\": it was not written by this command", "wds1-package-server\": it has the credentials of space \"wds9\"")
	if c.secret(t, foreign.Name).ResourceVersion != foreign.ResourceVersion || c.secret(t, another.Name).ResourceVersion != another.ResourceVersion {
		t.Error("a foreign Secret was written")
	}
	// The others are written all the same.
	user(t, c.secret(t, "wds1-binding-controller"))
}

// TestRightsInTheHostingCluster checks with which rights there the command works.
func TestRightsInTheHostingCluster(t *testing.T) { //nolint:paralleltest // the tests of this package install the same spaces
	succeeds(t, installArgs(t, "wds", "wds1"))
	c := hosting(t)
	limited := append(c.args(t, "transport-controller"), "--host-kubeconfig", kubeconfig(t, host, as(c.namespace)))
	c.fails(t, limited, "forbidden", "Secret \""+c.namespace+"/wds1-transport-controller\"")
	c.space.Apply(t, `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {namespace: `+c.namespace+`, name: credentials}
rules: [{apiGroups: [""], resources: [secrets], verbs: [get, create, update]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {namespace: `+c.namespace+`, name: credentials}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: credentials}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: `+c.namespace+`}]
`)
	testenv.Eventually(t, testenv.Patience, func() (bool, string) { // rights count a moment after they were written
		out, code := run(t, limited...)
		return code == 0, out
	})
	c.space.Patch(t, secrets, c.namespace, "wds1-transport-controller", `{"metadata":{"annotations":{"`+credentials.ExpiresAnnotation+`":null}}}`)
	c.succeeds(t, limited, "is missing or invalid")
	user(t, c.secret(t, "wds1-transport-controller"))
}
