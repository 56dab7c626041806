package manager

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"net"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
)

const registrationPrefix = "system:open-cluster-management:"

// request is a request of the registration agent of cluster1.
type request struct {
	accepted bool
	cluster  string
	csr      certificatesv1.CertificateSigningRequest
	template x509.CertificateRequest
	// pem changes the encoded request.
	pem func([]byte) []byte
}

func TestApprove(t *testing.T) {
	const agent1 = "system:open-cluster-management:cluster:cluster1:addon:addon-status:agent:status-agent"
	for name, tc := range map[string]struct {
		change func(*request)
		// want is a part of the reason, "" for approved.
		want string
	}{
		"FromTheCluster": {change: func(*request) {}},
		"WithoutUsageForEncipherment": {change: func(r *request) {
			r.csr.Spec.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}
		}},
		"RequesterInMoreGroups": {change: func(r *request) { r.csr.Spec.Groups = append(r.csr.Spec.Groups, "more") }},

		"OtherClusterWithItsNameAsPrefix": {
			change: func(r *request) {
				r.csr.Spec.Username = registrationPrefix + "cluster10:agent"
				r.csr.Spec.Groups = []string{registrationPrefix + "cluster10", registrationPrefix + "managed-clusters"}
			},
			want: "no registration agent of the cluster",
		},
		"UserOfOtherCluster": {
			change: func(r *request) { r.csr.Spec.Username = registrationPrefix + "cluster10:agent" }, want: "no registration agent",
		},
		"GroupsOfOtherCluster": {
			change: func(r *request) {
				r.csr.Spec.Groups = []string{registrationPrefix + "cluster10", registrationPrefix + "managed-clusters"}
			},
			want: `not in group "system:open-cluster-management:cluster1"`,
		},
		"OtherClusterWhoseNameIsAPrefix": {
			change: func(r *request) { r.cluster = "cluster" }, want: "no registration agent",
		},
		"NoAgentName":             {change: func(r *request) { r.csr.Spec.Username = registrationPrefix + "cluster1:" }, want: "no registration agent"},
		"ClusterNameAlone":        {change: func(r *request) { r.csr.Spec.Username = registrationPrefix + "cluster1" }, want: "no registration agent"},
		"AgentNameWithColon":      {change: func(r *request) { r.csr.Spec.Username = registrationPrefix + "cluster1:x:y" }, want: "no registration agent"},
		"NotInGroupOfAllClusters": {change: func(r *request) { r.csr.Spec.Groups = []string{registrationPrefix + "cluster1"} }, want: "managed-clusters"},
		"AgentOfTheAddOn":         {change: func(r *request) { r.csr.Spec.Username = agent1 }, want: "no registration agent"},
		"Bootstrap":               {change: func(r *request) { r.csr.Spec.Username = "system:serviceaccount:open-cluster-management:bootstrap" }, want: "no registration agent"},
		"UserWithOtherPrefix":     {change: func(r *request) { r.csr.Spec.Username = "x" + registrationPrefix + "cluster1:agent" }, want: "no registration agent"},
		"NotAccepted":             {change: func(r *request) { r.accepted = false }, want: "does not accept"},
		"OtherSigner":             {change: func(r *request) { r.csr.Spec.SignerName = certificatesv1.KubeletServingSignerName }, want: "signer"},
		"ServerCertificate":       {change: func(r *request) { r.csr.Spec.Usages = append(r.csr.Spec.Usages, certificatesv1.UsageServerAuth) }, want: "usage"},
		"SigningKey":              {change: func(r *request) { r.csr.Spec.Usages = append(r.csr.Spec.Usages, certificatesv1.UsageCertSign) }, want: "usage"},

		"AgentOfOtherCluster": {
			change: func(r *request) { r.template.Subject.CommonName = strings.Replace(agent1, "cluster1", "cluster10", 1) }, want: "common name",
		},
		"GroupOfOtherCluster": {
			change: func(r *request) { r.template.Subject.Organization = []string{agentGroup("cluster10")} }, want: "organizations",
		},
		"OneGroupMore": {
			change: func(r *request) {
				r.template.Subject.Organization = append(r.template.Subject.Organization, "system:masters")
			},
			want: "organizations",
		},
		"NoGroup": {change: func(r *request) { r.template.Subject.Organization = nil }, want: "organizations"},
		"MoreInTheSubject": {
			change: func(r *request) { r.template.Subject.OrganizationalUnit = []string{"x"} }, want: "more than common name",
		},
		"SecondCommonName": {
			change: func(r *request) {
				r.template.Subject.ExtraNames = []pkix.AttributeTypeAndValue{
					{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: "system:admin"},
					{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: agent1},
					{Type: asn1.ObjectIdentifier{2, 5, 4, 10}, Value: agentGroup("cluster1")},
				}
			},
			want: "more than common name",
		},
		"OtherDNSName": {change: func(r *request) { r.template.DNSNames = append(r.template.DNSNames, "example.com") }, want: "alternative names"},
		"IPAddress":    {change: func(r *request) { r.template.IPAddresses = []net.IP{{127, 0, 0, 1}} }, want: "alternative names"},
		"NoPEM":        {change: func(r *request) { r.pem = func([]byte) []byte { return []byte("x") } }, want: "PEM"},
		"Certificate": {
			change: func(r *request) {
				r.pem = func(b []byte) []byte {
					return []byte(strings.ReplaceAll(string(b), "CERTIFICATE REQUEST", "CERTIFICATE"))
				}
			},
			want: "PEM",
		},
		"TwoRequests": {change: func(r *request) { r.pem = func(b []byte) []byte { return append(b, b...) } }, want: "PEM"},
		"Garbage": {
			change: func(r *request) {
				r.pem = func([]byte) []byte {
					return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: []byte("x")})
				}
			},
			want: "parse request",
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := decision(t, tc.change)
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("not approved: %v", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}

// decision returns why a request of cluster1 with a change is not approved.
func decision(t *testing.T, change func(*request)) error {
	t.Helper()
	r := &request{
		accepted: true,
		cluster:  "cluster1",
		csr: certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{
			Username:   registrationPrefix + "cluster1:x7k2p",
			Groups:     []string{registrationPrefix + "cluster1", registrationPrefix + "managed-clusters", "system:authenticated"},
			SignerName: certificatesv1.KubeAPIServerClientSignerName,
			Usages: []certificatesv1.KeyUsage{
				certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageClientAuth,
			},
		}},
		template: x509.CertificateRequest{
			Subject:  pkix.Name{CommonName: agentUser("cluster1"), Organization: []string{agentGroup("cluster1")}},
			DNSNames: []string{"addon-status.addon.open-cluster-management.io"},
		},
		pem: func(b []byte) []byte { return b },
	}
	change(r)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &r.template, key)
	if err != nil {
		t.Fatal(err)
	}
	r.csr.Spec.Request = r.pem(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
	return approve(r.accepted, r.cluster, &r.csr)
}
