package manager

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"github.com/starlinghq/starling/pkg/logging"
	"github.com/starlinghq/starling/pkg/statusagent"
	"github.com/starlinghq/starling/pkg/write"
)

// identities of OCM's registration agents, which ask for the certificates of the add-ons of their cluster.
const (
	registrationAgents = "system:open-cluster-management:managed-clusters"
	identityPrefix     = "system:open-cluster-management:"
)

// approver approves requests for the certificate of the add-on's agent.
//
// The framework would do it with the check below, but its controller (v1.2.0) writes into objects that its informer shares.
type approver struct {
	inventory *inventory
	writer    *write.Writer
	queue     workqueue.TypedRateLimitingInterface[requestKey]
}

// requestKey names a CertificateSigningRequest.
type requestKey struct{ name string }

func newApprover(inventory *inventory, writer *write.Writer) (*approver, error) {
	a := &approver{
		inventory: inventory,
		writer:    writer,
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[requestKey](20*time.Millisecond, 30*time.Second),
			workqueue.TypedRateLimitingQueueConfig[requestKey]{Name: Name + "-approve"}),
	}
	// A request may be seen before what it depends on is.
	ofCluster := func(cluster string) {
		requests, err := inventory.requests.List(labels.SelectorFromSet(labels.Set{clusterv1.ClusterNameLabelKey: cluster}))
		if err != nil {
			return // a lister has no errors
		}
		for _, request := range requests {
			a.queue.Add(requestKey{request.Name})
		}
	}
	return a, errors.Join(
		onChange(inventory.requestsInformer, func(o metav1.Object) { a.queue.Add(requestKey{o.GetName()}) }),
		onChange(inventory.clustersInformer, func(o metav1.Object) { ofCluster(o.GetName()) }),
		onChange(inventory.addonsInformer, func(o metav1.Object) {
			if o.GetName() == statusagent.AddonName {
				ofCluster(o.GetNamespace())
			}
		}),
	)
}

func (a *approver) run(ctx context.Context) {
	var working sync.WaitGroup
	if a.inventory.waitSynced(ctx) {
		working.Go(func() {
			for a.next(ctx) {
			}
		})
	}
	<-ctx.Done()
	a.queue.ShutDown()
	working.Wait()
}

func (a *approver) next(ctx context.Context) bool {
	k, shutdown := a.queue.Get()
	if shutdown {
		return false
	}
	defer a.queue.Done(k)
	err := a.sync(ctx, k)
	switch {
	case err == nil:
		a.queue.Forget(k)
	case ctx.Err() != nil:
		return false
	default:
		klog.FromContext(ctx).Error(err, "Cannot approve a request for a certificate", logging.Key, k.name)
		a.queue.AddRateLimited(k)
	}
	return true
}

func (a *approver) sync(ctx context.Context, k requestKey) error {
	csr, err := a.inventory.requests.Get(k.name)
	if err != nil || len(csr.Status.Conditions) > 0 {
		return nil //nolint:nilerr // it is gone, or was approved, denied or failed
	}
	// The label only says of which cluster the request may be; that it is, is told from the requester.
	cluster, err := a.inventory.clusters.Get(csr.Labels[clusterv1.ClusterNameLabelKey])
	if err != nil {
		return nil //nolint:nilerr // a cluster that is not there has no agent
	}
	if _, err := a.inventory.addons.ManagedClusterAddOns(cluster.Name).Get(statusagent.AddonName); err != nil {
		return nil //nolint:nilerr // the add-on is not installed there
	}
	logger := klog.FromContext(ctx).WithValues(logging.Cluster, cluster.Name, "csr", csr.Name, "requester", csr.Spec.Username)
	if err := approve(cluster, csr); err != nil {
		logger.Info("Left a request for a certificate alone", logging.Reason, err.Error())
		return nil
	}
	csr = csr.DeepCopy()
	csr.TypeMeta = metav1.TypeMeta{APIVersion: certificatesv1.SchemeGroupVersion.String(), Kind: "CertificateSigningRequest"}
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "StatusAddOn",
		Message: "Requested by the registration agent of the cluster for the agent of the status add-on there.",
	})
	target := write.Target{
		Resource: certificatesv1.SchemeGroupVersion.WithResource("certificatesigningrequests"), Name: csr.Name, Subresource: "approval",
	}
	if _, err := a.writer.Update(ctx, target, csr, "approve"); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	logger.V(2).Info("Approved a request for a certificate")
	return nil
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
	// Each name of the subject counts: what is neither the common name nor the organization must not be there.
	if len(asked.Subject.Names) != 2 {
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
