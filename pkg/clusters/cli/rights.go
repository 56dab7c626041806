package cli

import (
	"context"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/starlinghq/starling/pkg/install/ocm"
	"github.com/starlinghq/starling/pkg/statusagent"
)

// right is one that an agent has in its ITS.
type right struct {
	verb, group, resource, subresource string
	// addOn: it is that of the status add-on.
	addOn bool
}

// rightsOfAgents are those with which an agent changes something, or reads what is delivered.
var rightsOfAgents = []right{
	{verb: "get", group: "work.open-cluster-management.io", resource: "manifestworks"},
	{verb: "update", group: "work.open-cluster-management.io", resource: "manifestworks"},
	{verb: "update", group: "work.open-cluster-management.io", resource: "manifestworks", subresource: "status"},
	{verb: "update", group: "coordination.k8s.io", resource: "leases"},
	{verb: "update", group: "addon.open-cluster-management.io", resource: "managedclusteraddons", subresource: "status"},
	{verb: "update", group: "cluster.open-cluster-management.io", resource: "managedclusters"},
	{verb: "update", group: "cluster.open-cluster-management.io", resource: "managedclusters", subresource: "status"},
	{verb: "renew", group: "register.open-cluster-management.io", resource: "managedclusters", subresource: "clientcertificates"},
	{verb: "create", group: "control.kubestellar.io", resource: "workstatuses", addOn: true},
	{verb: "update", group: "control.kubestellar.io", resource: "workstatuses", addOn: true},
}

// text returns the right as "update manifestworks/status".
func (r *right) text() string {
	if r.subresource == "" {
		return r.verb + " " + r.resource
	}
	return r.verb + " " + r.resource + "/" + r.subresource
}

// rightsLeft asks the ITS what the agents of the cluster may still do, whatever certificate they
// have. unknown is why it is not known, "" if it is.
func (m *member) rightsLeft(ctx context.Context) (left []string, unknown string, err error) {
	name := m.cluster.Name
	for i := range rightsOfAgents {
		r := &rightsOfAgents[i]
		attributes := &authorizationv1.ResourceAttributes{Verb: r.verb, Group: r.group, Resource: r.resource, Subresource: r.subresource, Namespace: name}
		if r.resource == "managedclusters" {
			attributes.Namespace, attributes.Name = "", name
		}
		spec := authorizationv1.SubjectAccessReviewSpec{ResourceAttributes: attributes, User: ocm.AgentUser(name, "any"), Groups: []string{
			ocm.AgentGroup(name), ocm.AgentGroup("managed-clusters"), "system:authenticated",
		}}
		if r.addOn {
			addOn := "system:open-cluster-management:cluster:" + name + ":addon:" + statusagent.AddonName
			spec.User = addOn + ":agent:any"
			spec.Groups = []string{addOn, "system:open-cluster-management:addon:" + statusagent.AddonName, "system:authenticated"}
		}
		answer, err := m.Core.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
		if apierrors.IsForbidden(err) {
			return nil, "you may not create SubjectAccessReviews", nil
		}
		if err != nil {
			return nil, "", fmt.Errorf("ask what the agent may do: %w", err)
		}
		if answer.Status.Allowed {
			left = append(left, r.text())
		}
	}
	return left, "", nil
}

func joined(rights []string) string { return strings.Join(rights, ", ") }
