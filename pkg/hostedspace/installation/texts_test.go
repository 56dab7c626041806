package installation

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/starlinghq/starling/pkg/hostedspace"
	"github.com/starlinghq/starling/pkg/install/packages"
	"github.com/starlinghq/starling/test/golden"
)

func TestTexts(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	empty := file("kubeconfig", "{apiVersion: v1, kind: Config}")
	nonsense, badValues := file("ca.crt", "nonsense"), file("values.yaml", "a: b: c")
	var texts []golden.Text
	for _, flags := range []string{
		"", "--type=both", "--type=wds", "--type=wds --name=WDS", "--type=wds --name=wds1 --timeout=0s",
		"--type=its --name=its1 --webhook-url=https://ocm", "--type=its --name=its1 --webhook-ca=ca.crt",
		"--type=its --name=its1 --server=https://its1 --server-ca=/missing", "--type=its --name=its1 --server=https://its1 --server-ca=" + nonsense,
		"--type=its --name=its1 --server-kubeconfig=/missing", "--type=its --name=its1 --server=https://its1 --server-kubeconfig=/missing",
		"--type=its --name=its1 --server-kubeconfig=" + empty,
		"--type=wds --name=wds1 --package-server=packages --package-server-ca=" + nonsense,
		"--type=wds --name=wds1 --values=/missing", "--type=wds --name=wds1 --values=" + badValues,
	} {
		o := &Options{}
		set := pflag.NewFlagSet("", pflag.ContinueOnError)
		o.AddFlags(set)
		if err := set.Parse(strings.Fields(flags)); err != nil {
			t.Fatal(err)
		}
		_, err := o.Request()
		if err == nil {
			t.Fatalf("%s: no error", flags)
		}
		texts = append(texts, golden.Text{Heading: "install " + flags, Text: err.Error()})
	}
	failed := func(heading string, err error) {
		t.Helper()
		if err == nil {
			t.Fatalf("%s: no error", heading)
		}
		texts = append(texts, golden.Text{Heading: heading, Text: err.Error()})
	}
	valid := Request{Type: WDS, Name: "wds1", Timeout: 1}
	withWebhooks := valid
	withWebhooks.Webhooks = &Endpoint{}
	failed("A WDS with webhooks", withWebhooks.validate())
	_, err := parseURL("server", "http://its1")
	failed("--server=http://its1", err)
	_, _, err = parseServer("10.0.0.1")
	failed("--package-server=10.0.0.1", err)
	_, _, err = parseServer("packages:http")
	failed("--package-server=packages:http", err)

	failed("The space is too old, and we have no rights in it", check(&valid, &observed{Version: "v1.31.9", User: "system:serviceaccount:a:b"}))
	failed("The version is unknown", check(&valid, administrator(func(o *observed) { o.Version = "dev" })))
	failed("The space is an ITS", check(&valid, administrator(func(o *observed) { o.Record = hostedspace.Record{Type: "its", Name: "its1"} })))
	failed("Helm has installed the chart of an ITS", check(&valid, administrator(func(o *observed) { o.Chart = "starling-its" })))
	its := Request{Type: ITS, Name: "its1"}
	failed("An ITS without OCM", check(&its, administrator(nil)))
	its.Webhooks = &Endpoint{}
	failed("An ITS with OCM's operator", check(&its, administrator(func(o *observed) { o.Operator = true })))
	address, server := valid, valid
	address.Address, server.Packages = &Endpoint{}, &packages.Server{}
	failed("A cluster of kubeadm", check(&address, administrator(func(o *observed) { o.AddressTaken = true })))
	failed("A space with Porch", check(&server, administrator(func(o *observed) { o.PackagesTaken = `Service "porch-system/api"` })))
	failed("Two installations at the same time", errRecordChanged)
	for i := range texts {
		texts[i].Heading = strings.ReplaceAll(texts[i].Heading, dir, "/tmp")
		texts[i].Text = strings.ReplaceAll(texts[i].Text, dir, "/tmp")
	}
	golden.Texts(t, texts...)
}
