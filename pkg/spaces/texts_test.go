package spaces_test

import (
	"testing"

	"github.com/spf13/pflag"

	"github.com/starlinghq/starling/pkg/spaces"
	"github.com/starlinghq/starling/test/golden"
)

func TestTexts(t *testing.T) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	options := limits()
	options.AddFlags(flags, "wds", "the WDS")
	invalid := func(change func(*spaces.Options)) string {
		o := limits()
		change(&o)
		return o.Validate("wds").Error()
	}
	list := spaces.NamedList{{Name: "its1", Kubeconfig: "/a"}}
	_, noFile := spaces.Named{Name: "its1", Kubeconfig: "/missing"}.Options(limits())
	_, refused := spaces.Connect(t.Context(), "wds1", spaces.Options{Kubeconfig: writeKubeconfig(t, "http://127.0.0.1:1"), Context: "its1"})
	golden.Texts(t,
		golden.Text{Heading: "Flags", Text: flags.FlagUsages()},
		golden.Text{Heading: "--wds-qps=0", Text: invalid(func(o *spaces.Options) { o.QPS = 0 })},
		golden.Text{Heading: "--wds-burst=0", Text: invalid(func(o *spaces.Options) { o.Burst = 0 })},
		golden.Text{Heading: "--its=its2", Text: list.Set("its2").Error()},
		golden.Text{Heading: "--its=its1=/a --its=its1=/b", Text: list.Set("its1=/b").Error()},
		golden.Text{Heading: "The kubeconfig does not exist", Text: noFile.Error()},
		golden.Text{Heading: "The API server does not respond", Text: refused.Error()},
	)
}
