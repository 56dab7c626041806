package ocm

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
)

const (
	// agentPrefix begins the names and groups of agents in their certificates.
	agentPrefix = "system:open-cluster-management:"
	// bootstrapUser begins the names of bootstrap tokens, which have BootstrapGroup if they are for
	// clusters that join.
	bootstrapUser = "system:bootstrap:"
	// bootstrapGroup is the group of bootstrap tokens that OCM's operator creates.
	bootstrapGroup = "system:bootstrappers:managedcluster"
)

// AgentGroup returns the group of OCM's agent of a cluster.
func AgentGroup(cluster string) string { return agentPrefix + cluster }

// AgentUser returns the name of an agent of a cluster. The ID is that of the agent.
func AgentUser(cluster, id string) string { return agentPrefix + cluster + ":" + id }

// CheckJoinRequest returns the ID of the agent that requests a certificate with which it would be
// the agent of this cluster. It returns an error if the request is for anything else, or was
// created by somebody who may not ask for it: neither by a bootstrap identity, nor by the agent
// itself.
func CheckJoinRequest(csr *certificatesv1.CertificateSigningRequest, cluster string) (id string, err error) {
	if csr.Spec.SignerName != certificatesv1.KubeAPIServerClientSignerName {
		return "", fmt.Errorf("it is for signer %s, not for a client of the API server", csr.Spec.SignerName)
	}
	block, _ := pem.Decode(csr.Spec.Request)
	if block == nil {
		return "", errors.New("its spec.request is no PEM")
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return "", fmt.Errorf("its spec.request cannot be read: %w", err)
	}
	for _, group := range request.Subject.Organization {
		if group != AgentGroup(cluster) && group != agentPrefix+"managed-clusters" {
			return "", fmt.Errorf("it is for group %q, which agents of the cluster do not have", group)
		}
	}
	user := request.Subject.CommonName
	id, found := strings.CutPrefix(user, AgentUser(cluster, ""))
	if !found || id == "" || strings.Contains(id, ":") {
		return "", fmt.Errorf("it is for user %q, who is no agent of the cluster", user)
	}
	isToken := strings.HasPrefix(csr.Spec.Username, bootstrapUser) && slices.Contains(csr.Spec.Groups, bootstrapGroup)
	if csr.Spec.Username != BootstrapAccount.User() && !isToken && csr.Spec.Username != user {
		return "", fmt.Errorf("it was created by %q, which is neither a bootstrap identity nor the agent itself", csr.Spec.Username)
	}
	return id, nil
}
