package cli

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/starlinghq/starling/pkg/plugin"
	"github.com/starlinghq/starling/test/golden"
)

// commandTexts runs a command without a server, and compares what it prints with the golden file of
// its name.
func commandTexts(t *testing.T, name string, command func(*genericclioptions.ConfigFlags, genericiooptions.IOStreams) *cobra.Command, calls ...[]string) {
	t.Helper()
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	var texts strings.Builder
	for _, args := range calls {
		var out strings.Builder
		streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &out}
		server := "https://127.0.0.1:1"
		flags := genericclioptions.NewConfigFlags(true)
		flags.APIServer = &server
		cmd := command(flags, streams)
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		cmd.SetOut(&out)
		cmd.SetErr(&out)
		cmd.SetArgs(args)
		code := plugin.Report(&out, cmd.ExecuteContext(t.Context()))
		if help := strings.Contains(strings.Join(args, " "), "--help"); help && code != 0 {
			t.Errorf("%s: exit code %d", args, code)
		}
		texts.WriteString("## kubectl starling " + name + " " + strings.Join(args, " ") + "\n" + out.String() + "\n")
	}
	golden.Compare(t, name, texts.String())
}

// TestExplainTexts: the help of `explain`, and the errors that need no server.
func TestExplainTexts(t *testing.T) {
	commandTexts(t, "explain", NewExplainCommand,
		[]string{"--help"},
		[]string{},
		[]string{"deployment"},
		[]string{"deployment", "web", "c1"},
		[]string{"deployment/"},
		[]string{"deployment/web", "-o=table"},
		[]string{"deployment/web", "--object=configmap/a"},
		[]string{"policy/web", "--object=configmap"},
		[]string{"cluster/c1", "--cluster=c1"},
		[]string{"package/web"},
		[]string{"provider/aws"},
		[]string{"Configuration", "aws"},
		[]string{"policy/web", "--its-context=its1"},
		[]string{"policy/web"},
		[]string{"deployment/web"})
}

// TestRolloutTexts: the help of `rollout status`, and the errors that need no server.
func TestRolloutTexts(t *testing.T) {
	commandTexts(t, "rollout", NewRolloutCommand,
		[]string{"status", "--help"},
		[]string{"status"},
		[]string{"status", "deployment"},
		[]string{"status", "policy/"},
		[]string{"status", "policy/a", "-f", "a.yaml"},
		[]string{"status", "policy/a", "--for=ready"},
		[]string{"status", "policy/a", "--timeout=-1s"},
		[]string{"status", "policy/a", "-o=table"},
		[]string{"status", "provider/aws"},
		[]string{"status", "-f", "none.yaml"},
		[]string{"status", "deployment/web"},
		[]string{"status", "policy/a", "--timeout=1s"})
}

// TestTreeTexts: the help of `tree`, and the errors that need no server.
func TestTreeTexts(t *testing.T) {
	commandTexts(t, "tree", NewTreeCommand,
		[]string{"--help"}, []string{}, []string{"policy/"}, []string{"deployment/web"}, []string{"policy/a", "-o=table"}, []string{"policy/a"})
}

// TestIsKind: kinds are named as kubectl names them.
func TestIsKind(t *testing.T) {
	t.Parallel()
	const group = "control.kubestellar.io"
	for text, want := range map[string]bool{
		"policy": true, "BindingPolicy": true, "bindingpolicies": true, "bp": true,
		"bindingpolicies.control.kubestellar.io": true, "bindingpolicies.v1alpha1.control.kubestellar.io": true,
		"networkpolicy": false, "policy.example.com": false, "bindingpolicies.v1.example.com": false, "": false,
	} {
		if got := isKind(text, policyNames, group); got != want {
			t.Errorf("isKind(%q) = %v, want %v", text, got, want)
		}
	}
}
