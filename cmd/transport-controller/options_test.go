package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/starlinghq/starling/test/golden"
)

// TestTexts: what users read of the flags of this program, and of mistakes in them.
func TestTexts(t *testing.T) {
	command := newCommand()
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	for _, name := range []string{"wds-name", "its", "dir", "max-num-wrapped", "max-size-wrapped", "exclude-kinds", "ocm-namespaces", "concurrency"} {
		own.AddFlag(command.Flags().Lookup(name))
	}
	paragraphs := []string{"# " + command.Name() + "\n" + command.Short + "\n" + strings.TrimRight(own.FlagUsages(), "\n")}
	its := "--its=its1=" + filepath.Join(t.TempDir(), "kubeconfig")
	for _, args := range [][]string{
		{},
		{its, "--dir=its1=/mnt/usb"},
		{"--dir=usb="},
		{its, "--wds-name="},
		{its, "--wds-name=My WDS"},
		{its, "--concurrency=0"},
		{its, "--max-num-wrapped=0"},
		{its, "--max-size-wrapped=0"},
		{its, "--exclude-kinds=a.b.c/d"},
		{its, "--ocm-namespaces=open-cluster-management-hub,shop"},
	} {
		o := newOptions()
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		o.addFlags(flags)
		err := flags.Parse(args)
		if err == nil {
			err = o.validate()
		}
		if err == nil {
			t.Errorf("%q are valid", args)
			continue
		}
		given := strings.ReplaceAll(strings.Join(args, " "), its, "--its=its1=kubeconfig")
		paragraphs = append(paragraphs, "# "+strings.TrimSpace(command.Name()+" "+given)+"\n"+err.Error())
	}
	golden.Compare(t, "texts", strings.Join(paragraphs, "\n\n")+"\n")
}
