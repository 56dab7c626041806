package credentials

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"github.com/starlinghq/starling/test/golden"
)

func TestTexts(t *testing.T) {
	var texts []golden.Text
	failed := func(heading string, err error) {
		t.Helper()
		if err == nil {
			t.Fatalf("%s: no error", heading)
		}
		texts = append(texts, golden.Text{Heading: heading, Text: err.Error()})
	}
	for _, flags := range []string{
		"", "--space=WDS", "--space=wds1", "--space=wds1 --namespace=ns", "--credential=x", "--credential=x=ns/", "--credential=x=ns/a --credential=x=ns/b",
		"--space=wds1 --namespace=ns --credential=x=ns/a --lifetime=1m", "--space=wds1 --namespace=ns --credential=x=ns/a --renew-before=24h",
		"--space=wds1 --namespace=ns --credential=x=ns/a --timeout=0s", "--space=wds1 --namespace=ns --credential=X=ns/a",
		"--space=wds1 --namespace=ns --credential=x=ns/a --server=wds1", "--space=wds1 --namespace=ns --credential=x=ns/a --server-ca=/missing",
	} {
		o := &Options{}
		set := pflag.NewFlagSet("", pflag.ContinueOnError)
		o.AddFlags(set)
		err := set.Parse(strings.Fields(flags))
		if err == nil {
			_, err = o.Request(&rest.Config{})
		}
		failed("credentials "+flags, err)
	}
	_, err := (&Options{request: *request(nil)}).Request(&rest.Config{TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
	failed("A kubeconfig that verifies nothing", err)
	failed("A foreign Secret", &ForeignError{Namespace: "starling", Name: "wds1-transport"})
	failed("A Secret of another space", &ForeignError{Namespace: "starling", Name: "wds1-transport", Space: "wds2"})
	failed("The kubeconfig of another space", &WrongSpaceError{Want: "wds1", Recorded: "wds2"})
	failed("The space grants less", &shortLifetimeError{name: "transport", granted: time.Hour, renewBefore: 18 * time.Hour})
	golden.Texts(t, texts...)
}
