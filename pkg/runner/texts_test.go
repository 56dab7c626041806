package runner

import (
	"testing"

	"github.com/spf13/pflag"

	"github.com/starlinghq/starling/test/golden"
)

func TestTexts(t *testing.T) {
	all, ours := pflag.NewFlagSet("", pflag.ContinueOnError), pflag.NewFlagSet("", pflag.ContinueOnError)
	NewOptions().AddFlags(all)
	for _, name := range []string{"health-address", "pprof", "leader-elect", "secure-metrics-address", "secure-metrics-kubeconfig", "secure-metrics-cert-dir"} { // the others are component-base's
		ours.AddFlag(all.Lookup(name))
	}
	_, err := (&Options{HealthAddress: "nowhere"}).listen(t.Context())
	_, outside := (&Options{secure: secureOptions{address: ":8443"}}).listen(t.Context())
	_, noCertificate := (&Options{secure: secureOptions{address: ":8443", kubeconfig: nobody(t), certDir: "/none"}}).listen(t.Context())
	golden.Texts(t,
		golden.Text{Heading: "Flags", Text: ours.FlagUsages()},
		golden.Text{Heading: "--health-address=nowhere", Text: err.Error()},
		golden.Text{Heading: "--secure-metrics-address outside of a pod", Text: outside.Error()},
		golden.Text{Heading: "--secure-metrics-cert-dir=/none", Text: noCertificate.Error()},
		golden.Text{Heading: "Some Leases only", Text: waitsError([]string{"binding-controller-binding"}, "binding-controller-status").Error()},
	)
}
