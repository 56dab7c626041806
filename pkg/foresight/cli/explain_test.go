package cli

import (
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/starlinghq/starling/pkg/plugin"
	"github.com/starlinghq/starling/test/golden"
)

// TestExplainTexts: the help of `explain`, and the errors that need no server.
func TestExplainTexts(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	var texts strings.Builder
	for _, args := range [][]string{
		{"--help"},
		{},
		{"deployment"},
		{"deployment", "web", "c1"},
		{"deployment/"},
		{"deployment/web", "-o=table"},
		{"deployment/web", "--object=configmap/a"},
		{"policy/web", "--object=configmap"},
		{"cluster/c1", "--cluster=c1"},
		{"package/web"},
		{"provider/aws"},
		{"Configuration", "aws"},
		{"policy/web", "--its-context=its1"},
		{"policy/web"},
		{"deployment/web"},
	} {
		var out strings.Builder
		streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &out}
		server := "https://127.0.0.1:1"
		flags := genericclioptions.NewConfigFlags(true)
		flags.APIServer = &server
		cmd := NewExplainCommand(flags, streams)
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		cmd.SetOut(&out)
		cmd.SetArgs(args)
		code := plugin.Report(&out, cmd.ExecuteContext(t.Context()))
		if help := strings.Contains(strings.Join(args, " "), "--help"); help && code != 0 {
			t.Errorf("%s: exit code %d", args, code)
		}
		texts.WriteString("## kubectl starling explain " + strings.Join(args, " ") + "\n" + out.String() + "\n")
	}
	golden.Compare(t, "explain", texts.String())
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
