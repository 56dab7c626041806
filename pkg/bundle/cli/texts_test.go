package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/starlinghq/starling/test/golden"
)

// kubeconfig has two contexts. Nothing listens at port 1.
const kubeconfig = `
apiVersion: v1
kind: Config
clusters: [{name: none, cluster: {server: "http://127.0.0.1:1"}}]
contexts:
- {name: its1, context: {cluster: none}}
- {name: wds1, context: {cluster: none}}
`

func TestTexts(t *testing.T) {
	testDir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	write := func(file, text string) {
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("config", kubeconfig)
	write("fleet/kubeconfig", kubeconfig)
	write("fleet/logs/wds1-etcd.log", "etcd has started\n")
	write("fleet/fleet.json", "{}")
	write("taken.tar.gz", "")

	var texts []golden.Text
	for _, args := range [][]string{
		{"--help"},
		{},
		{"--dir=fleet", "--output=fleet.tar.gz"},
		{"--wds-context=wds1", "--its-context=its1"},
		{"--wds-context=wds2"},
		{"--host-namespace=starling"},
		{"--host-context=wds1", "--output=taken.tar.gz"},
		{"--host-context=wds1", "--output=missing/bundle.tar.gz"},
		{"wds1"},
	} {
		var out bytes.Buffer
		streams := genericiooptions.IOStreams{In: &out, Out: &out, ErrOut: &out}
		flags := genericclioptions.NewConfigFlags(true)
		flags.KubeConfig = new("config")
		cmd := NewCommand(flags, streams, ".starling", clocktesting.NewFakePassiveClock(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)))
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		cmd.SetOut(&out)
		cmd.SetArgs(args)
		text := ""
		if err := cmd.ExecuteContext(t.Context()); err != nil {
			text = "error: " + err.Error()
		}
		texts = append(texts, golden.Text{Heading: strings.TrimSpace("kubectl starling bundle " + strings.Join(args, " ")), Text: out.String() + text})
	}
	left, err := filepath.Glob(".starling-bundle-*")
	if err != nil || len(left) > 0 {
		t.Errorf("temporary files remain: %v %v", left, err)
	}
	t.Chdir(testDir)
	golden.Texts(t, texts...)
}
