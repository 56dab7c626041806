package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	"github.com/starlinghq/starling/pkg/plugin"
	"github.com/starlinghq/starling/pkg/transactions"
	"github.com/starlinghq/starling/test/golden"
)

// TestTexts: the help of the commands, and the errors that need no server.
func TestTexts(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	for name, content := range map[string]string{
		"two.yaml":     "{apiVersion: pkg.crossplane.io/v1, kind: Provider}\n---\n{apiVersion: pkg.crossplane.io/v1, kind: Provider}\n",
		"other.yaml":   "{apiVersion: v1, kind: ConfigMap}\n",
		"kind.yaml":    "{apiVersion: pkg.crossplane.io/v1beta1, kind: ImageConfig}\n",
		"broken.yaml":  "{",
		"package.yaml": "{apiVersion: pkg.crossplane.io/v1, kind: Provider, metadata: {name: a}}\n",
	} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var texts []golden.Text
	for _, args := range [][]string{
		{"--help"},
		{"plan", "--help"},
		{"explain", "--help"},
		{"tree", "--help"},
		{"plan"},
		{"plan", "provider"},
		{"plan", "provider", "aws"},
		{"plan", "provider", "--package=a.example.org/a:v1"},
		{"plan", "provider/aws", "b", "--package=a.example.org/a:v1"},
		{"plan", "provider/aws", "--package=a.example.org/a:v1"},
		{"plan", "provider", "aws", "v1"},
		{"plan", "secret", "aws", "--package=a.example.org/a:v1"},
		{"plan", "-f", "a.yaml", "--delete=provider/aws"},
		{"plan", "--replace=a.example.org/a"},
		{"plan", "-f", "two.yaml"},
		{"plan", "-f", "two.yaml", "-o=table"},
		{"plan", "-f", "two.yaml", "--name=a"},
		{"plan", "-f", "other.yaml"},
		{"plan", "-f", "kind.yaml"},
		{"plan", "-f", "broken.yaml"},
		{"plan", "-f", "absent.yaml"},
		{"plan", "-f", "package.yaml"},
		{"plan", "--delete=aws"},
		{"plan", "--replace=a.example.org/a", "--with=a"},
		{"explain"},
		{"explain", "secret/a"},
		{"explain", "provider/"},
		{"tree", "secret/a"},
	} {
		var out bytes.Buffer
		streams := genericiooptions.IOStreams{In: &out, Out: &out, ErrOut: &out}
		server := "https://127.0.0.1:1"
		flags := genericclioptions.NewConfigFlags(true)
		flags.APIServer = &server
		cmd := NewCommand(flags, streams)
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		cmd.SetOut(&out)
		cmd.SetArgs(args)
		code := plugin.Report(&out, cmd.ExecuteContext(t.Context()))
		if help := strings.Contains(strings.Join(args, " "), "--help"); help != (code == 0) {
			t.Errorf("%s: exit code %d", args, code)
		}
		texts = append(texts, golden.Text{Heading: "kubectl starling tx " + strings.Join(args, " "), Text: out.String()})
	}
	t.Chdir(here)
	golden.Texts(t, texts...)
}

// TestParseRef: packages are named as kubectl names them.
func TestParseRef(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]transactions.Ref{
		"Provider/aws":                          {Kind: "Provider", Name: "aws"},
		"provider/aws":                          {Kind: "Provider", Name: "aws"},
		"providers/aws":                         {Kind: "Provider", Name: "aws"},
		"functions.pkg.crossplane.io/f":         {Kind: "Function", Name: "f"},
		"provider.pkg.crossplane.io/f":          {Kind: "Provider", Name: "f"},
		"configurations.v1.pkg.crossplane.io/c": {Kind: "Configuration", Name: "c"},
		"providers.example.org/aws":             {},
		"aws":                                   {},
		"lock/lock":                             {},
		"provider/":                             {},
		"provider/aws/b":                        {},
	} {
		got, err := parseRef(text)
		if err != nil {
			got = transactions.Ref{}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

// TestKeptByApply: an apply removes what the last one has set, and keeps what others have.
func TestKeptByApply(t *testing.T) {
	t.Parallel()
	const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"
	for name, tc := range map[string]struct{ live, want map[string]string }{
		"no package":    {},
		"never applied": {live: map[string]string{"a": "1"}, want: map[string]string{"a": "1"}},
		"set by the last apply": {
			live: map[string]string{"a": "1", "b": "2", lastApplied: `{"metadata":{"annotations":{"a":"1"}}}`},
			want: map[string]string{"b": "2", lastApplied: `{"metadata":{"annotations":{"a":"1"}}}`},
		},
		"not readable": {live: map[string]string{"a": "1", lastApplied: "{"}, want: map[string]string{"a": "1", lastApplied: "{"}},
	} {
		live := &pkgv1.Provider{}
		live.Annotations = tc.live
		if diff := cmp.Diff(tc.want, keptByApply(live)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
