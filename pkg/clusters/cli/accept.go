package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"github.com/starlinghq/starling/pkg/client"
	"github.com/starlinghq/starling/pkg/core/text"
	"github.com/starlinghq/starling/pkg/install/ocm"
)

// joinRequest is a CertificateSigningRequest for a cluster that nobody has answered.
type joinRequest struct {
	name    string
	created time.Time
	// agent is the ID of the agent that would get the certificate. refused is why it must not get
	// it, "" if it may.
	agent, refused string
}

// openRequests returns the requests for the cluster that nobody has answered, the oldest first.
func (m *member) openRequests(ctx context.Context) ([]joinRequest, error) {
	list, err := m.Core.CertificatesV1().CertificateSigningRequests().List(ctx,
		metav1.ListOptions{LabelSelector: clusterv1.ClusterNameLabelKey + "=" + m.cluster.Name})
	if err != nil {
		return nil, fmt.Errorf("list requests for certificates: %w", err)
	}
	return openRequests(list.Items, m.cluster.Name), nil
}

// awaitRequests is openRequests, and waits a moment for one if the cluster has not joined: its
// agent creates the ManagedCluster first.
func (m *member) awaitRequests(ctx context.Context) (open []joinRequest, err error) {
	const moment = 10 * time.Second
	joined := meta.IsStatusConditionTrue(m.cluster.Status.Conditions, clusterv1.ManagedClusterConditionJoined)
	err = wait.PollUntilContextTimeout(ctx, pollInterval/4, moment, true, func(ctx context.Context) (bool, error) {
		open, err = m.openRequests(ctx)
		return joined || len(open) > 0, err
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return nil, nil
	}
	return open, err
}

func openRequests(all []certificatesv1.CertificateSigningRequest, cluster string) []joinRequest {
	var open []joinRequest
	for i := range all {
		csr := &all[i]
		if len(csr.Status.Conditions) > 0 || isOfAddOn(csr) {
			continue
		}
		r := joinRequest{name: csr.Name, created: csr.CreationTimestamp.Time}
		var err error
		if r.agent, err = ocm.CheckJoinRequest(csr, cluster); err != nil {
			r.refused = err.Error()
		}
		open = append(open, r)
	}
	slices.SortFunc(open, func(a, b joinRequest) int { return cmp.Or(a.created.Compare(b.created), cmp.Compare(a.name, b.name)) })
	return open
}

// isOfAddOn reports whether a request is that of an add-on, which OCM answers itself.
func isOfAddOn(csr *certificatesv1.CertificateSigningRequest) bool {
	_, is := csr.Labels["open-cluster-management.io/addon-name"]
	return is
}

// chosen is what accept does with open requests.
type chosen struct {
	approve []string
	lines   []string
}

// chooseRequests decides which requests to approve. A certificate makes its owner the agent of the
// cluster, and everybody with the bootstrap identity may ask for one. So of several agents the user
// names one, and if an agent that has joined is alive, too.
func chooseRequests(cluster *clusterv1.ManagedCluster, open []joinRequest, agent string) (chosen, error) {
	var c chosen
	agents := map[string]bool{}
	for i := range open {
		r := &open[i]
		switch {
		case r.refused != "":
			c.lines = append(c.lines, fmt.Sprintf("request %s is not approved: %s", r.name, r.refused))
		case agent == "" || agent == r.agent:
			agents[r.agent] = true
			c.approve = append(c.approve, r.name)
			c.lines = append(c.lines, fmt.Sprintf("approve the certificate of agent %q (request %s)", r.agent, r.name))
		}
	}
	names := make([]string, 0, len(agents))
	for name := range agents {
		names = append(names, name)
	}
	slices.Sort(names)
	switch {
	case agent != "" && len(names) == 0:
		return c, fmt.Errorf("no agent %q asks for a certificate", agent)
	case agent == "" && len(names) > 1:
		return c, fmt.Errorf("%d agents ask for a certificate: %s. Say with --agent which one is that of the cluster", len(names), text.List(names, maxListed))
	case agent == "" && len(names) == 1 && meta.IsStatusConditionTrue(cluster.Status.Conditions, clusterv1.ManagedClusterConditionAvailable) && cluster.Spec.HubAcceptsClient:
		return c, fmt.Errorf("agent %q asks for a certificate, but the cluster has joined and its agent is alive. If it is that of the cluster all the same, add --agent %[1]s", names[0])
	}
	return c, nil
}

func newAccept(o *options) *action {
	const timeout = 2 * time.Minute
	return &action{options: o, timeout: timeout, verb: verb{
		name: "accept", title: "Let clusters join that ask for it",
		plan: planAccept, do: doAccept, pending: pendingAccept,
		done: func(a *action, _ *member, _ *plan) string {
			if a.wait {
				return "has joined and is available"
			}
			return "is accepted"
		},
	}}
}

func planAccept(ctx context.Context, a *action, m *member, _ *load) (*plan, error) {
	if m.cluster.DeletionTimestamp != nil {
		return nil, fmt.Errorf("it is being deleted")
	}
	open, err := m.awaitRequests(ctx)
	if err != nil {
		return nil, err
	}
	c, err := chooseRequests(m.cluster, open, a.agent)
	if err != nil {
		return nil, err
	}
	p := &plan{requests: c.approve}
	if !m.cluster.Spec.HubAcceptsClient {
		p.lines = append(p.lines, "accept the cluster: what policies select for it is delivered to it", "with the labels "+labelsOf(m.cluster.Labels))
	}
	if len(p.lines)+len(c.approve) > 0 {
		p.lines = append(p.lines, c.lines...)
	}
	return p, nil
}

// labelsOf shows the labels of a cluster: what policies select it by.
func labelsOf(labels map[string]string) string {
	if len(labels) == 0 {
		return "<none>"
	}
	return strings.ReplaceAll(metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: labels}), ",", ", ")
}

// doAccept patches the cluster before it approves certificates: if that fails because it is not the
// cluster that was shown, no agent gets one for it.
func doAccept(ctx context.Context, _ *action, m *member, p *plan) error {
	if err := m.acceptShown(ctx); err != nil {
		return err
	}
	return m.answer(ctx, p.requests, certificatesv1.CertificateApproved)
}

// acceptShown accepts the cluster, unless it was accepted before. Its labels decide what is
// delivered to it, so they must be those that were shown. OCM may have changed anything else since.
func (m *member) acceptShown(ctx context.Context) error {
	if m.cluster.Spec.HubAcceptsClient {
		return m.patch(ctx, clusterPatch{})
	}
	const most = 5
	for range most {
		err := m.patch(ctx, clusterPatch{Metadata: metadata{ResourceVersion: m.cluster.ResourceVersion}, Spec: &spec{HubAcceptsClient: true}})
		if !errors.Is(err, errNotShown) {
			return err
		}
		now, err := m.Clusters.Get(ctx, m.cluster.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if now.UID != m.cluster.UID || !maps.Equal(now.Labels, m.cluster.Labels) {
			break
		}
		m.cluster = now
	}
	return errNotShown
}

// answer approves or denies requests for certificates.
func (m *member) answer(ctx context.Context, names []string, with certificatesv1.RequestConditionType) error {
	requests := m.Core.CertificatesV1().CertificateSigningRequests()
	for _, name := range names {
		err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
			csr, err := requests.Get(ctx, name, metav1.GetOptions{})
			if err != nil || len(csr.Status.Conditions) > 0 {
				return err
			}
			if _, err := ocm.CheckJoinRequest(csr, m.cluster.Name); err != nil && with == certificatesv1.CertificateApproved {
				return fmt.Errorf("it has changed: %w", err)
			}
			csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
				Type: with, Status: corev1.ConditionTrue, Reason: "KubectlStarling", Message: "answered with kubectl starling cluster",
			})
			_, err = requests.UpdateApproval(ctx, name, csr, metav1.UpdateOptions{FieldManager: fieldManager})
			return err
		})
		if err != nil {
			return fmt.Errorf("answer request %q for a certificate: %w", name, err)
		}
	}
	return nil
}

// pendingAccept approves nothing: the user has not seen what is requested meanwhile.
func pendingAccept(ctx context.Context, a *action, m *member, _ *client.Client) (string, error) {
	cluster, err := m.Clusters.Get(ctx, m.cluster.Name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	switch {
	case meta.IsStatusConditionTrue(cluster.Status.Conditions, clusterv1.ManagedClusterConditionAvailable):
		return "", nil
	case meta.IsStatusConditionTrue(cluster.Status.Conditions, clusterv1.ManagedClusterConditionJoined):
		return "it has joined, and has not reported that it is available", nil
	}
	open, err := m.openRequests(ctx)
	if err != nil {
		return "", err
	}
	for i := range open {
		if r := &open[i]; r.refused == "" && (a.agent == "" || a.agent == r.agent) {
			return fmt.Sprintf("agent %q asks for another certificate: accept it again", r.agent), nil
		}
	}
	return "it is accepted, and its agent has not joined", nil
}
