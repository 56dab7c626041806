package ocm_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/starlinghq/starling/pkg/install/ocm"
)

func TestCheckJoinRequest(t *testing.T) {
	const bootstrap = "system:serviceaccount:open-cluster-management:agent-registration-bootstrap"
	groups := []string{"system:open-cluster-management:cluster1", "system:open-cluster-management:managed-clusters"}
	cases := map[string]struct {
		name, user, signer string
		groups, userGroups []string
		want               string
	}{
		"of the agent":             {name: "system:open-cluster-management:cluster1:starling", want: "starling"},
		"of a longer cluster name": {name: "system:open-cluster-management:cluster10:starling"},
		"without an agent":         {name: "system:open-cluster-management:cluster1:"},
		"with more than an agent":  {name: "system:open-cluster-management:cluster1:a:b"},
		"of an administrator":      {name: "system:admin"},
		"for the administrators":   {name: "system:open-cluster-management:cluster1:starling", groups: []string{"system:masters"}},
		"for another cluster":      {name: "system:open-cluster-management:cluster1:starling", groups: []string{"system:open-cluster-management:cluster2"}},
		"by another user":          {name: "system:open-cluster-management:cluster1:starling", user: "system:admin"},
		"by a bootstrap token":     {name: "system:open-cluster-management:cluster1:x7fk2", user: "system:bootstrap:abcdef", userGroups: []string{"system:bootstrappers:managedcluster"}, want: "x7fk2"},
		"by a token for nodes":     {name: "system:open-cluster-management:cluster1:x7fk2", user: "system:bootstrap:abcdef", userGroups: []string{"system:bootstrappers:kubeadm:default-node-token"}},
		"by a user who says so":    {name: "system:open-cluster-management:cluster1:x7fk2", user: "mallory", userGroups: []string{"system:bootstrappers:managedcluster"}},
		"by the agent itself":      {name: "system:open-cluster-management:cluster1:x7fk2", user: "system:open-cluster-management:cluster1:x7fk2", want: "x7fk2"},
		"by another agent":         {name: "system:open-cluster-management:cluster1:x7fk2", user: "system:open-cluster-management:cluster2:x7fk2"},
		"by another agent of it":   {name: "system:open-cluster-management:cluster1:x7fk2", user: "system:open-cluster-management:cluster1:other"},
		"for another signer":       {name: "system:open-cluster-management:cluster1:starling", signer: "kubernetes.io/kubelet-serving"},
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if c.user == "" {
				c.user = bootstrap
			}
			if c.signer == "" {
				c.signer = certificatesv1.KubeAPIServerClientSignerName
			}
			if c.groups == nil {
				c.groups = groups
			}
			der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
				Subject: pkix.Name{CommonName: c.name, Organization: c.groups},
			}, key)
			if err != nil {
				t.Fatal(err)
			}
			csr := &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{
				Username: c.user, Groups: c.userGroups, SignerName: c.signer,
				Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			}}
			got, err := ocm.CheckJoinRequest(csr, "cluster1")
			if got != c.want || (err == nil) != (c.want != "") {
				t.Errorf("agent %q, %v, want %q", got, err, c.want)
			}
		})
	}
	if _, err := ocm.CheckJoinRequest(&certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{
		Username: bootstrap, SignerName: certificatesv1.KubeAPIServerClientSignerName, Request: []byte("nonsense"),
	}}, "cluster1"); err == nil {
		t.Error("an invalid request was accepted")
	}
}
