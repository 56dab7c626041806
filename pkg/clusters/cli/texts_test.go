package cli

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	testclock "k8s.io/utils/clock/testing"

	"github.com/starlinghq/starling/test/golden"
)

func TestTexts(t *testing.T) {
	t.Setenv("STARLING_ITS_CONTEXT", "")
	kubeconfig := filepath.Join(t.TempDir(), "config")
	if err := clientcmd.WriteToFile(clientcmdapi.Config{
		CurrentContext: "wds1",
		Contexts:       map[string]*clientcmdapi.Context{"wds1": {Cluster: "wds1"}},
		Clusters:       map[string]*clientcmdapi.Cluster{"wds1": {Server: "https://127.0.0.1:1"}},
	}, kubeconfig); err != nil {
		t.Fatal(err)
	}
	var texts []golden.Text
	for _, args := range [][]string{
		{"--help"},
		{"join", "--help"},
		{"join"},
		{"join", "--hub-context=its1", "--name=Prod"},
		{"join", "--hub-context=its1", "--name=prod", "--hub-server=its1.example.com"},
		{"join", "prod"},
		{"join", "--work-rights=some"},
		{"accept", "--help"},
		{"deny", "--help"},
		{"drain", "--help"},
		{"undrain", "--help"},
		{"remove", "--help"},
		{"clusters", "--help"},
		{"drain"},
		{"drain", "edge1", "-l", "site=edge"},
		{"drain", "edge1", "--its-context=none"},
		{"clusters", "-o", "xml"},
	} {
		var out bytes.Buffer
		streams := genericiooptions.IOStreams{In: &out, Out: &out, ErrOut: &out}
		heading := "kubectl starling cluster " + strings.Join(args, " ")
		flags := genericclioptions.NewConfigFlags(true)
		flags.KubeConfig = &kubeconfig
		cmd := NewCommand(flags, streams, fstest.MapFS{})
		if args[0] == "clusters" {
			heading = "kubectl starling " + strings.Join(args, " ")
			cmd, args = NewListCommand(flags, streams, testclock.NewFakePassiveClock(noon)), args[1:]
		}
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		cmd.SetOut(&out)
		cmd.SetArgs(args)
		text := ""
		if err := cmd.ExecuteContext(t.Context()); err != nil {
			text = "error: " + err.Error()
		}
		texts = append(texts, golden.Text{Heading: heading, Text: out.String() + text})
	}
	var out bytes.Buffer
	printAccept(genericiooptions.IOStreams{Out: &out}, "its1", "prod")
	texts = append(texts, golden.Text{Heading: "The cluster has asked to join", Text: out.String()})
	golden.Texts(t, append(texts, situations()...)...)
}
