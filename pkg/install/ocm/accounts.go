package ocm

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/starlinghq/starling/pkg/install/manifest"
)

// The identities of OCM's hub components. OCM grants its two webhooks the same rights, so one
// process with one of the two identities serves both.
var (
	RegistrationAccount = manifest.Account{Namespace: NamespaceHub, Name: "registration-controller-sa"}
	AddonManagerAccount = manifest.Account{Namespace: NamespaceHub, Name: "addon-manager-controller-sa"}
	WebhookAccount      = manifest.Account{Namespace: NamespaceHub, Name: "registration-webhook-sa"}
)

// BootstrapAccount is the identity with which a new cluster requests to join the hub.
var BootstrapAccount = manifest.Account{Namespace: Namespace, Name: "agent-registration-bootstrap"}

// KlusterletAccount is the identity of OCM's agent in a managed cluster. As in OCM's singleton
// mode, the registration agent and the work agent share it.
var KlusterletAccount = manifest.Account{Namespace: NamespaceAgent, Name: "klusterlet-work-sa"}

// Bootstrap returns the bootstrap identity with the rights that OCM documents: to create a
// ManagedCluster, to request a certificate, and to join a cluster set. It must not accept a cluster
// or approve a certificate. OCM also grants reading all ConfigMaps, to clients that need to find
// the hub's address. Agents of a local fleet know the address, and others may read the one
// ConfigMap that has it.
func Bootstrap() []*unstructured.Unstructured {
	const role = "open-cluster-management:bootstrap"
	return BootstrapAccount.Objects(role, role+":agent-registration",
		manifest.Rule("certificates.k8s.io", "certificatesigningrequests", "create", "get", "list", "watch"),
		manifest.Rule("cluster.open-cluster-management.io", "managedclusters", "create", "get", "list", "watch"),
		manifest.Rule("cluster.open-cluster-management.io", "managedclustersets/join", "create"),
	)
}
