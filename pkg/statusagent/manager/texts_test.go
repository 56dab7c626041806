package manager

import (
	"fmt"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/rest"

	"github.com/starlinghq/starling/test/golden"
)

func TestTexts(t *testing.T) {
	var texts []golden.Text
	add := func(heading, format string, args ...any) {
		texts = append(texts, golden.Text{Heading: heading, Text: fmt.Sprintf(format, args...)})
	}
	add("Condition of a CertificateSigningRequest", "%s=%s %s: %s", approved.Type, approved.Status, approved.Reason, approved.Message)
	for _, denied := range []bool{true, false} {
		c := permitted("cluster1", denied)
		add(fmt.Sprintf("Condition of the ManagedClusterAddOn, cluster denied: %t", denied), "%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message)
	}
	for _, tc := range []struct {
		heading string
		change  func(*request)
	}{
		{"The cluster is not accepted", func(r *request) { r.accepted = false }},
		{"The requester is another cluster", func(r *request) { r.csr.Spec.Username = registrationPrefix + "cluster10:agent" }},
		{"The requester is in no group", func(r *request) { r.csr.Spec.Groups = nil }},
		{"Another signer", func(r *request) { r.csr.Spec.SignerName = certificatesv1.KubeletServingSignerName }},
		{"Another usage", func(r *request) { r.csr.Spec.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageServerAuth} }},
		{"Another name", func(r *request) { r.template.Subject.CommonName = "system:admin" }},
		{"Another group", func(r *request) { r.template.Subject.Organization = []string{"system:masters"} }},
		{"Another field of the subject", func(r *request) { r.template.Subject.Country = []string{"X"} }},
		{"Another DNS name", func(r *request) { r.template.DNSNames = []string{"example.com"} }},
		{"No PEM", func(r *request) { r.pem = func([]byte) []byte { return nil } }},
	} {
		add("Log: did not approve CertificateSigningRequest: "+tc.heading, "%v", decision(t, tc.change))
	}
	for _, tc := range []struct{ heading, spec string }{
		{"another namespace", "agentInstallNamespace: monitoring"},
		{"no name of a Secret", "customizedVariables: [{name: imagePullSecrets, value: 'a,,b'}]"},
		{"no certificate", "proxyConfig: {httpsProxy: 'https://p', caBundle: Q0E=}"},
		{"a containerID of two parts", "resourceRequirements: [{containerID: a:b, resources: {}}]"},
	} {
		_, err := settingsOf(nil, config(t, tc.spec), agentImage)
		add("AddOnDeploymentConfig with "+tc.heading, "%v", err)
	}
	add("AddOnDeploymentConfig not resolved", "%v", errNotResolved)
	spec := clusterManagementAddOn().Spec.AddOnMeta
	add("ClusterManagementAddOn", "%s\n%s", spec.DisplayName, spec.Description)
	for _, tc := range []struct {
		heading string
		config  Config
	}{
		{"--install-strategy=some", Config{ITS: &rest.Config{}, Install: "some"}},
		{"--exclude-kinds=a/b", Config{ITS: &rest.Config{}, Install: InstallAll, ExcludeKinds: []string{"a/b"}}},
	} {
		_, err := New(tc.config)
		add(tc.heading, "%v", err)
	}
	golden.Texts(t, texts...)
}
