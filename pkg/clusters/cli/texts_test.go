package cli

import (
	"bytes"
	"testing"
	"testing/fstest"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/starlinghq/starling/test/golden"
)

func TestTexts(t *testing.T) {
	var texts []golden.Text
	for _, args := range [][]string{
		{"--help"},
		{"join", "--help"},
		{"join"},
		{"join", "--hub-context=its1", "--name=Prod"},
		{"join", "--hub-context=its1", "--name=prod", "--hub-server=its1.example.com"},
		{"join", "prod"},
		{"join", "--work-rights=some"},
	} {
		var out bytes.Buffer
		streams := genericiooptions.IOStreams{In: &out, Out: &out, ErrOut: &out}
		cmd := NewCommand(genericclioptions.NewConfigFlags(true), streams, fstest.MapFS{})
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		cmd.SetOut(&out)
		cmd.SetArgs(args)
		heading := "kubectl starling cluster"
		for _, arg := range args {
			heading += " " + arg
		}
		text := ""
		if err := cmd.ExecuteContext(t.Context()); err != nil {
			text = "error: " + err.Error()
		}
		texts = append(texts, golden.Text{Heading: heading, Text: out.String() + text})
	}
	var out bytes.Buffer
	printAccept(genericiooptions.IOStreams{Out: &out}, "its1", "prod")
	texts = append(texts, golden.Text{Heading: "The cluster has asked to join", Text: out.String()})
	golden.Texts(t, texts...)
}
