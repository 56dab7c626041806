package manager

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/klog/v2"
	"open-cluster-management.io/addon-framework/pkg/agent"
	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"github.com/starlinghq/starling/pkg/logging"
	"github.com/starlinghq/starling/pkg/statusagent"
)

// identities of OCM's registration agents, which ask for the certificates of the add-ons of their cluster.
const (
	registrationAgents = "system:open-cluster-management:managed-clusters"
	identityPrefix     = "system:open-cluster-management:"
)

// approver approves requests for the certificate of the add-on's agent, as the framework asks for it.
func approver(ctx context.Context) agent.CSRApproveFunc {
	return func(cluster *clusterv1.ManagedCluster, _ *addonv1alpha1.ManagedClusterAddOn, csr *certificatesv1.CertificateSigningRequest) bool {
		err := approve(cluster, csr)
		logger := klog.FromContext(ctx).WithValues(logging.Cluster, cluster.Name, "csr", csr.Name, "requester", csr.Spec.Username)
		if err != nil {
			logger.Error(err, "Left a request for a certificate alone")
			return false
		}
		logger.V(2).Info("Approved a request for a certificate")
		return true
	}
}

// approve tells why a request for a certificate is not approved, nil if it is: it must come from the registration agent of
// that very cluster, and ask for the identity of that cluster's agent and nothing more. Identities are compared whole; what
// the labels of the request say is not looked at, since everybody can set those.
func approve(cluster *clusterv1.ManagedCluster, csr *certificatesv1.CertificateSigningRequest) error {
	if !cluster.Spec.HubAcceptsClient || !cluster.DeletionTimestamp.IsZero() {
		return errors.New("the hub does not accept the cluster")
	}
	if err := comesFrom(cluster.Name, csr.Spec.Username, csr.Spec.Groups); err != nil {
		return err
	}
	if csr.Spec.SignerName != certificatesv1.KubeAPIServerClientSignerName {
		return fmt.Errorf("signer %q", csr.Spec.SignerName)
	}
	for _, usage := range csr.Spec.Usages {
		switch usage {
		case certificatesv1.UsageClientAuth, certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment:
		default:
			return fmt.Errorf("usage %q", usage)
		}
	}
	return asksFor(cluster.Name, csr.Spec.Request)
}

// comesFrom tells why the requester is not the registration agent of the cluster. Its user is
// system:open-cluster-management:<cluster>:<agent>, where the agent's name is any, without a colon.
func comesFrom(cluster, user string, groups []string) error {
	own := identityPrefix + cluster
	name, ok := strings.CutPrefix(user, own+":")
	if !ok || name == "" || strings.Contains(name, ":") {
		return fmt.Errorf("user %q is no registration agent of the cluster", user)
	}
	for _, group := range []string{own, registrationAgents} {
		if !slices.Contains(groups, group) {
			return fmt.Errorf("requester is not in group %q", group)
		}
	}
	return nil
}

// asksFor tells why a request is not just for the identity of the agent of the cluster.
func asksFor(cluster string, request []byte) error {
	block, rest := pem.Decode(request)
	if block == nil || block.Type != "CERTIFICATE REQUEST" || len(strings.TrimSpace(string(rest))) > 0 {
		return errors.New("not one PEM block of type CERTIFICATE REQUEST")
	}
	asked, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return fmt.Errorf("parse request: %w", err)
	}
	if err := asked.CheckSignature(); err != nil {
		return fmt.Errorf("check signature of request: %w", err)
	}
	if want := agentUser(cluster); asked.Subject.CommonName != want {
		return fmt.Errorf("common name %q, want %q", asked.Subject.CommonName, want)
	}
	if want := []string{agentGroup(cluster)}; !slices.Equal(asked.Subject.Organization, want) {
		return fmt.Errorf("organizations %q, want %q", asked.Subject.Organization, want)
	}
	// Each name of the subject counts: what is neither the common name nor the organization must not be there.
	if len(asked.Subject.Names) != 2 { //nolint:mnd // the two that were compared above
		return errors.New("subject has more than common name and organization")
	}
	// OCM asks for this name; in a client certificate it means nothing.
	names := slices.DeleteFunc(slices.Clone(asked.DNSNames), func(name string) bool {
		return name == statusagent.AddonName+".addon.open-cluster-management.io"
	})
	if len(names)+len(asked.EmailAddresses)+len(asked.IPAddresses)+len(asked.URIs) > 0 {
		return errors.New("request has alternative names")
	}
	return nil
}
