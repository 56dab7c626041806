package e2e

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/clusters/cli"
	foresight "github.com/starlinghq/starling/pkg/foresight/cli"
	"github.com/starlinghq/starling/pkg/plugin"
	"github.com/starlinghq/starling/test/testenv"
)

var (
	secrets = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	leases  = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}
)

// starling runs `kubectl starling cluster`, `clusters`, `plan` or `rollout` in wds1, as the
// administrator of the fleet. It returns the exit code too.
func (s *story) starling(args ...string) (out string, code int) {
	s.Helper()
	var text bytes.Buffer
	flags := genericclioptions.NewConfigFlags(true)
	kubeconfig, context := s.fleet.Kubeconfig(), "wds1"
	flags.KubeConfig, flags.Context, flags.Namespace = &kubeconfig, &context, &s.name
	streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: &text, ErrOut: &text}
	cmd := cli.NewCommand(flags, streams, fstest.MapFS{})
	switch args[0] {
	case "clusters":
		cmd, args = cli.NewListCommand(flags, streams, clock.RealClock{}), args[1:]
	case "rollout":
		cmd, args = foresight.NewRolloutCommand(flags, streams), args[1:]
	case "plan":
		cmd, args = foresight.NewPlanCommand(flags, streams), args[1:]
	}
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetOut(&text)
	cmd.SetArgs(args)
	code = plugin.Report(&text, cmd.ExecuteContext(s.Context()))
	return text.String(), code
}

// starlingSays runs it, and checks the exit code and what it prints.
func (s *story) starlingSays(code int, args []string, want ...string) {
	s.Helper()
	out, got := s.starling(args...)
	s.Logf("%s\n%s", strings.Join(args, " "), out)
	if got != code {
		s.Fatalf("%s: exit code %d, want %d: %s", args, got, code, out)
	}
	for _, text := range want {
		if !strings.Contains(out, text) {
			s.Errorf("%s: %q is not in: %s", args, text, out)
		}
	}
}

// agentOf returns the connection of OCM's agent of a cluster to its1.
func (s *story) agentOf(cluster string) *rest.Config {
	s.Helper()
	secret, err := s.space(cluster, secrets).Namespace("open-cluster-management-agent").Get(s.Context(), "hub-kubeconfig-secret", metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	data, _ := secret.Object["data"].(map[string]any)
	pem := func(key string) []byte {
		text, _ := data[key].(string)
		decoded, err := base64.StdEncoding.DecodeString(text)
		if err != nil || len(decoded) == 0 {
			s.Fatalf("the agent has no %s: %v", key, err)
		}
		return decoded
	}
	config := rest.AnonymousClientConfig(s.fleet.Config(s, "its1"))
	config.CertData, config.KeyData = pem("tls.crt"), pem("tls.key")
	return config
}

// TestClusterCommands: a cluster asks to join and is accepted, drained, undrained, denied, accepted
// again, denied while its agent does not respond, and removed, with the commands of an
// administrator. After it is denied, its certificate is of no use.
func TestClusterCommands(t *testing.T) {
	t.Parallel()
	s := tell(t, testenv.Shared(t))
	const edge = "edge-commands"
	s.addCluster(edge, "--pending", "--labels", "story="+s.name)
	t.Cleanup(func() { s.removeCluster(edge) })
	s.create("wds1", namespaces, "{apiVersion: v1, kind: Namespace, metadata: {name: $NAME, labels: {story: $NAME}, annotations: {starling.io/on-removal: orphan}}}")
	s.configMap("settings", "v")
	s.policy("{matchLabels: {story: $NAME}}")
	namespaceStays := func() {
		t.Helper()
		if _, err := s.get(edge, namespaces, "", s.name); err != nil {
			t.Errorf("the Namespace has the option orphan: %v", err)
		}
	}
	says := func(want string) {
		t.Helper()
		testenv.Eventually(t, arrival, func() (bool, string) {
			c := meta.FindStatusCondition(s.observed().Status.Conditions, controlv1alpha1.BindingPolicyConditionReady)
			return c != nil && strings.Contains(c.Message, want), fmt.Sprintf("Ready is %+v, want %q", c, want)
		})
	}
	says("kubectl starling cluster accept " + edge)

	s.starlingSays(1, []string{"accept", edge}, "approve the certificate of agent", "nothing was changed: without a terminal")
	s.starlingSays(0, []string{"accept", edge, "--yes"}, "its1/"+edge+" has joined and is available")
	s.starlingSays(0, []string{"accept", edge, "--yes"}, "nothing to do")
	s.arrives(edge, "settings", "v")
	s.isReady()
	testenv.Eventually(t, arrival, func() (bool, string) {
		out, code := s.starling("clusters", edge)
		return code == 0 && strings.Contains(out, "Ready") && strings.Contains(out, "2/2"), out
	})

	s.starlingSays(0, []string{"drain", edge, "--yes", "--timeout=2m"}, "1 object is deleted from it", "1 object stays in it", "is drained")
	s.leaves(edge, configMaps, s.name, "settings")
	namespaceStays()
	says("drained (" + edge + "). Deliver to it again with: kubectl starling cluster undrain " + edge)
	s.starlingSays(0, []string{"clusters", edge}, "Drained", "0/0")
	s.starlingSays(0, []string{"undrain", edge, "--yes"}, "is a destination again")
	s.arrives(edge, "settings", "v")
	s.isReady()

	agent := s.agentOf(edge)
	s.agentMay(agent, edge, true)
	s.starlingSays(0, []string{"deny", edge, "--yes"}, "its agent keeps the right to its works until it has deleted 1 object", "is denied")
	s.leaves(edge, configMaps, s.name, "settings")
	s.agentMay(agent, edge, false)
	s.starlingSays(0, []string{"clusters", edge}, "NotAccepted")
	s.starlingSays(0, []string{"accept", edge, "--yes"}, "has joined and is available")
	s.arrives(edge, "settings", "v")
	s.isReady()

	// Its agent does not respond: its rights end with force, and what was delivered stays.
	resume := s.fleet.Pause(t, edge+"/klusterlet")
	s.starlingSays(124, []string{"deny", edge, "--yes", "--timeout=3s"}, "its agent has to remove", "its agent may still get manifestworks")
	s.agentMay(agent, edge, true, manifestWorks)
	s.starlingSays(0, []string{"deny", edge, "--yes", "--force"}, "its agent loses the right to its works at once", "is denied")
	s.agentMay(agent, edge, false)
	s.arrives(edge, "settings", "v")
	resume()
	s.starlingSays(0, []string{"accept", edge, "--yes"}, "has joined and is available")
	s.isReady()

	s.starlingSays(0, []string{"remove", edge, "--yes"}, "then delete ManagedCluster "+edge, "is removed; 1 object stays in it")
	s.leaves(edge, configMaps, s.name, "settings")
	namespaceStays()
	if _, err := s.get("its1", namespaces, "", edge); !apierrors.IsNotFound(err) {
		t.Errorf("the mailbox remains: %v", err)
	}
}

// agentMay checks what a certificate of the agent may do: of works only, or of all that an agent
// does.
func (s *story) agentMay(config *rest.Config, cluster string, want bool, only ...schema.GroupVersionResource) {
	s.Helper()
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		s.Fatal(err)
	}
	patch := func(resource dynamic.ResourceInterface, name string, subresources ...string) func() error {
		return func() error {
			_, err := resource.Patch(s.Context(), name, types.MergePatchType, []byte(`{}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, subresources...)
			return err
		}
	}
	attempts := map[string]func() error{
		"list works": func() error {
			_, err := client.Resource(manifestWorks).Namespace(cluster).List(s.Context(), metav1.ListOptions{})
			return err
		},
		"patch a work": patch(client.Resource(manifestWorks).Namespace(cluster), "none"),
	}
	if len(only) == 0 {
		attempts["renew its Lease"] = func() error {
			resource := client.Resource(leases).Namespace(cluster)
			lease, err := resource.Get(s.Context(), "managed-cluster-lease", metav1.GetOptions{})
			if err != nil {
				return err
			}
			_, err = resource.Update(s.Context(), lease, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}
		attempts["patch its status"] = patch(client.Resource(managedClusters), cluster, "status")
	}
	for what, attempt := range attempts {
		err := attempt()
		if refused := apierrors.IsForbidden(err); refused == want || err != nil && !refused && !apierrors.IsNotFound(err) {
			s.Errorf("%s with the certificate of the agent: %v, want allowed: %t", what, err, want)
		}
	}
	if !want {
		if _, err := client.Resource(managedClusters).Get(s.Context(), cluster, metav1.GetOptions{}); err != nil {
			s.Errorf("OCM lets a denied agent read its ManagedCluster: %v", err)
		}
	}
}

// TestRemoveSilentCluster: a cluster whose agent does not respond is removed only with force, and
// keeps what was delivered to it.
func TestRemoveSilentCluster(t *testing.T) {
	t.Parallel()
	s := tell(t, testenv.Shared(t))
	const edge = "edge-silent"
	s.addCluster(edge, "--labels", "story="+s.name)
	t.Cleanup(func() { s.removeCluster(edge) })
	s.namespace()
	s.configMap("settings", "v")
	s.policy("{matchLabels: {story: $NAME}}")
	s.arrives(edge, "settings", "v")
	s.isReady()
	resume := s.fleet.Pause(t, edge+"/klusterlet")
	s.starlingSays(124, []string{"remove", edge, "--yes", "--timeout=3s"}, "its agent has to remove", "add --force")
	s.starlingSays(0, []string{"remove", edge, "--yes", "--force"}, "its agent is not waited for: 2 objects stay in it", "is removed")
	for _, gvr := range []schema.GroupVersionResource{managedClusters, namespaces} {
		if _, err := s.get("its1", gvr, "", edge); !apierrors.IsNotFound(err) {
			t.Errorf("%s %s remains: %v", gvr.Resource, edge, err)
		}
	}
	s.arrives(edge, "settings", "v")
	resume()
}
