package main

import (
	"testing"

	"github.com/spf13/pflag"

	"github.com/starlinghq/starling/test/golden"
)

func TestTexts(t *testing.T) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	newOptions().addFlags(flags)
	invalid := func(change func(*options)) string {
		o := newOptions()
		_ = o.its.Set("its1=/kubeconfig")
		change(o)
		return o.validate().Error()
	}
	golden.Texts(t,
		golden.Text{Heading: "Flags", Text: flags.FlagUsages()},
		golden.Text{Heading: "Without --its", Text: newOptions().validate().Error()},
		golden.Text{Heading: "--concurrency=0", Text: invalid(func(o *options) { o.concurrency = 0 })},
		golden.Text{Heading: "--max-binding-size=1", Text: invalid(func(o *options) { o.settings.MaxBindingSize = 1 })},
		golden.Text{Heading: "--controllers=x", Text: invalid(func(o *options) { o.controllers = []string{"x"} })},
		golden.Text{Heading: "--target-kinds=.x", Text: invalid(func(o *options) { o.targetKinds = []string{".x"} })},
		golden.Text{Heading: "--cluster-repository-namespaces=A", Text: invalid(func(o *options) { o.repositoryNamespaces = []string{"A"} })},
	)
}
