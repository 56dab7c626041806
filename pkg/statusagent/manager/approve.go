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
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"github.com/starlinghq/starling/pkg/controller/worker"
	"github.com/starlinghq/starling/pkg/logging"
	"github.com/starlinghq/starling/pkg/statusagent"
	"github.com/starlinghq/starling/pkg/writer"
)

// identities of OCM's registration agents, which ask for the certificates of the add-ons of their
// cluster.
const (
	registrationAgents = "system:open-cluster-management:managed-clusters"
	identityPrefix     = "system:open-cluster-management:"
)

// approver approves requests for the certificate of the add-on's agent.
//
// The framework would do it with the check below, but its controller (v1.2.0) writes into objects
// that its informer shares.
type approver struct {
	inventory *inventory
	writer    *writer.Writer
	queue     *worker.Queue[string]
}

func newApprover(inventory *inventory, writer *writer.Writer) (*approver, error) {
	a := &approver{inventory: inventory, writer: writer}
	a.queue = newQueue(inventory, "approve", nil, a.sync)
	// A request may be observed before what it depends on.
	ofCluster := func(cluster string) {
		requests, err := inventory.requests.Lister().List(labels.SelectorFromSet(labels.Set{clusterv1.ClusterNameLabelKey: cluster}))
		if err != nil {
			return // a lister has no errors
		}
		for _, request := range requests {
			a.queue.Add(request.Name)
		}
	}
	inventory.clusters.OnMembers(ofCluster)
	return a, errors.Join(
		onChange(inventory.requests.Informer(), func(o cache.ObjectName) { a.queue.Add(o.Name) }),
		onChange(inventory.addons.Informer(), func(o cache.ObjectName) { ofCluster(o.Namespace) }),
	)
}

func (a *approver) sync(ctx context.Context, name string) (worker.Result, error) {
	csr, err := a.inventory.requests.Lister().Get(name)
	if err != nil || len(csr.Status.Conditions) > 0 {
		return worker.Result{}, nil //nolint:nilerr // it was deleted, approved or denied, or failed
	}
	// The label only names a cluster; the requester proves that the request comes from it.
	cluster := csr.Labels[clusterv1.ClusterNameLabelKey]
	if _, err := a.inventory.addons.Lister().ManagedClusterAddOns(cluster).Get(statusagent.AddonName); err != nil {
		return worker.Result{}, nil //nolint:nilerr // the add-on is not installed there
	}
	logger := klog.FromContext(ctx).WithValues(logging.Cluster, cluster, "csr", csr.Name, "requester", csr.Spec.Username)
	if err := approve(a.inventory.accepts(cluster), cluster, csr); err != nil {
		logger.Info("Did not approve CertificateSigningRequest", logging.Reason, err.Error())
		return worker.Result{}, nil
	}
	csr = csr.DeepCopy()
	csr.TypeMeta = metav1.TypeMeta{APIVersion: certificatesv1.SchemeGroupVersion.String(), Kind: "CertificateSigningRequest"}
	csr.Status.Conditions = append(csr.Status.Conditions, approved)
	target := writer.Target{
		Resource: certificatesv1.SchemeGroupVersion.WithResource("certificatesigningrequests"), Name: csr.Name, Subresource: "approval",
	}
	if _, err := a.writer.Update(ctx, target, csr, "approve"); err != nil && !apierrors.IsNotFound(err) {
		return worker.Result{}, err
	}
	logger.V(2).Info("Approved CertificateSigningRequest")
	return worker.Result{}, nil
}

// approved is the condition of the requests that the approver approves.
var approved = certificatesv1.CertificateSigningRequestCondition{
	Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "StatusAddOn",
	Message: "requested by the registration agent of the cluster for the agent of the status add-on",
}

// approve returns why a request for a certificate is not approved, nil if it is: it must come from
// the registration agent of that cluster, and request the identity of that cluster's agent and
// nothing more. Identities are compared as a whole. The labels of the request do not count, because
// everybody can set them.
func approve(accepted bool, cluster string, csr *certificatesv1.CertificateSigningRequest) error {
	if !accepted {
		return errors.New("the hub does not accept the cluster")
	}
	if err := comesFrom(cluster, csr.Spec.Username, csr.Spec.Groups); err != nil {
		return err
	}
	if csr.Spec.SignerName != certificatesv1.KubeAPIServerClientSignerName {
		return fmt.Errorf("signer %q is not allowed", csr.Spec.SignerName)
	}
	for _, usage := range csr.Spec.Usages {
		switch usage {
		case certificatesv1.UsageClientAuth, certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment:
		default:
			return fmt.Errorf("usage %q is not allowed", usage)
		}
	}
	return requestsIdentity(cluster, csr.Spec.Request)
}

// comesFrom returns why the requester is not the registration agent of the cluster. The user of
// that agent is system:open-cluster-management:<cluster>:<agent>, where the agent's name is any,
// without a colon.
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

// requestsIdentity returns why a request is not exactly for the identity of the agent of the
// cluster.
func requestsIdentity(cluster string, request []byte) error {
	block, rest := pem.Decode(request)
	if block == nil || block.Type != "CERTIFICATE REQUEST" || strings.TrimSpace(string(rest)) != "" {
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
	// Every name of the subject counts: only the common name and the organization are allowed.
	if len(asked.Subject.Names) != 2 {
		return errors.New("subject has more than common name and organization")
	}
	// OCM requests this name; in a client certificate it has no meaning.
	names := slices.DeleteFunc(slices.Clone(asked.DNSNames), func(name string) bool {
		return name == statusagent.AddonName+".addon.open-cluster-management.io"
	})
	if len(names)+len(asked.EmailAddresses)+len(asked.IPAddresses)+len(asked.URIs) > 0 {
		return errors.New("request has alternative names")
	}
	return nil
}
