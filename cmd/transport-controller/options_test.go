package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/starlinghq/starling/pkg/core/packing"
	"github.com/starlinghq/starling/pkg/spaces"
	"github.com/starlinghq/starling/test/golden"
)

// TestTexts: what users read of the flags of this program, and of mistakes in them.
func TestTexts(t *testing.T) {
	command := newCommand()
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	for _, name := range []string{"wds-name", "its", "dir", "max-num-wrapped", "max-size-wrapped", "target-num-wrapped", "target-size-wrapped", "repack", "exclude-kinds", "ocm-namespaces", "concurrency"} {
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
		{its, "--target-num-wrapped=0"},
		{its, "--target-size-wrapped=0"},
		{its, "--exclude-kinds=a.b.c/d"},
		{its, "--ocm-namespaces=open-cluster-management-hub,shop"},
	} {
		o := newOptions()
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		o.addFlags(flags)
		err := flags.Parse(args)
		if err == nil {
			err = o.complete()
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

// TestFlagsOfKubeStellar: the arguments of KubeStellar's transport-controller have their meaning.
func TestFlagsOfKubeStellar(t *testing.T) {
	args := []string{
		"--metrics-bind-address=:8090", "--pprof-bind-address=:8092", "--transport-kubeconfig=/its", "--transport-context=c", "--transport-user=u",
		"--transport-cluster=k", "--transport-qps=5", "--transport-burst=10", "--wds-kubeconfig=/wds", "--wds-context=w", "--wds-user=v", "--wds-cluster=l",
		"--wds-name=wds1", "--wds-qps=6", "--wds-burst=11", "--max-num-wrapped=1", "--max-size-wrapped=512000", "--concurrency=4", "-v=2",
	}
	o := newOptions()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.addFlags(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	if err := o.complete(); err != nil {
		t.Fatal(err)
	}
	type read struct {
		ITS     []spaces.Named
		Limits  spaces.Options
		WDS     spaces.Options
		Name    string
		Packing packing.Limits
		Writes  int
	}
	want := read{
		ITS:    []spaces.Named{{Name: "its", Kubeconfig: "/its", Context: "c", User: "u", Cluster: "k"}},
		Limits: spaces.Options{QPS: 5, Burst: 10}, WDS: spaces.Options{Kubeconfig: "/wds", Context: "w", User: "v", Cluster: "l", QPS: 6, Burst: 11},
		Name: "wds1", Packing: packing.Limits{Count: 1, Bytes: 512000, Target: packing.Target{Count: 16, Bytes: 32 << 10}}, Writes: 4,
	}
	got := read{ITS: o.its, Limits: o.itsLimits, WDS: o.wds, Name: o.wdsName, Packing: o.limits, Writes: o.concurrency}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("options (-want +got):\n%s", diff)
	}
}
