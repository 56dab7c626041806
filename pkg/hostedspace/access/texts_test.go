package access

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"

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
		"--kubeconfig=a --control-plane=b", "--kubeconfig-key=config", "--kubeconfig-secret=wds1", "--kubeconfig-secret=hub/", "--control-plane=WDS",
	} {
		o := &Options{}
		set := pflag.NewFlagSet("", pflag.ContinueOnError)
		o.AddFlags(set)
		if err := set.Parse(strings.Fields(flags)); err != nil {
			t.Fatal(err)
		}
		failed(flags, o.Validate())
	}
	secret := &corev1.Secret{Data: map[string][]byte{"config": []byte("x"), "nonsense": []byte("a: b: c")}}
	k := key{namespace: "hub", secret: "wds1", key: "kubeconfig"}
	for _, name := range slices.Sorted(maps.Keys(broken)) {
		_, err := read(&corev1.Secret{Data: map[string][]byte{"kubeconfig": kubeconfig(t, broken[name])}}, k)
		failed("A kubeconfig with "+name, err)
	}
	_, err := read(secret, k)
	failed("A Secret without the key", err)
	_, err = read(secret, key{key: "nonsense"})
	failed("A Secret with something else", err)
	golden.Texts(t, texts...)
}
