package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	workv1 "open-cluster-management.io/api/work/v1"

	"github.com/starlinghq/starling/pkg/client"
	"github.com/starlinghq/starling/pkg/core/text"
)

func newDeny(o *options) *action {
	const timeout = 2 * time.Minute
	return &action{options: o, timeout: timeout, unsure: map[string]string{}, verb: verb{
		name: "deny", title: "Take from clusters all rights in their ITS",
		plan: planDeny, do: doDeny, pending: pendingDeny,
		done: func(a *action, m *member, _ *plan) string {
			if !a.wait {
				return "is denied, and its agent loses its rights when its works are gone"
			}
			if why := a.unsure[m.String()]; why != "" {
				return "is denied. What its agents may still do is not known: " + why
			}
			return "is denied: its agents may change nothing, and read nothing that was delivered. " +
				"Their certificates stay valid until they expire, with the rights of any user"
		},
	}}
}

func planDeny(ctx context.Context, a *action, m *member, l *load) (*plan, error) {
	open, err := m.openRequests(ctx)
	if err != nil {
		return nil, err
	}
	p := &plan{}
	for i := range open {
		p.requests = append(p.requests, open[i].name)
	}
	left, _, err := m.rightsLeft(ctx)
	if err != nil {
		return nil, err
	}
	if !m.cluster.Spec.HubAcceptsClient && len(open) == 0 && len(left) == 0 && l.works() == 0 {
		return p, nil
	}
	p.lines = denial(m.cluster.Spec.HubAcceptsClient, a.force, len(open), l, func() string { return m.heartbeat(ctx) })
	return p, nil
}

// denial says what it means to deny a cluster.
func denial(accepted, force bool, open int, l *load, heartbeat func() string) []string {
	var lines []string
	if accepted {
		lines = append(lines, "its agents may not report any more, nor get another certificate; nothing new is delivered to it")
	} else {
		lines = append(lines, "it is not accepted")
	}
	if open > 0 {
		lines = append(lines, "deny "+text.Count(open, "request for a certificate|requests for certificates"))
	}
	all, orphans := l.objects()
	if all == 0 {
		return lines
	}
	if force {
		return append(lines, fmt.Sprintf("its agent loses the right to its works at once: %s in it that it has not removed by then: %s",
			text.Count(all, "object stays|objects stay"), l.from()))
	}
	if orphans < all {
		lines = append(lines, fmt.Sprintf("its agent keeps the right to its works until it has deleted %s from it: %s; %s",
			text.Count(all-orphans, "object"), l.leavingFrom(), heartbeat()))
	}
	if orphans > 0 {
		lines = append(lines, fmt.Sprintf("%s in it, because of starling.io/on-removal: orphan", text.Count(orphans, "object stays|objects stay")))
	}
	return append(lines, "what it does not remove stays in it; to take its rights at once, add --force")
}

func doDeny(ctx context.Context, _ *action, m *member, p *plan) error {
	if err := m.patch(ctx, clusterPatch{Spec: &spec{HubAcceptsClient: false}}); err != nil {
		return err
	}
	return m.answer(ctx, p.requests, certificatesv1.CertificateDenied)
}

// pendingDeny returns what the agent may still do. With force, it takes that away: OCM leaves the
// right to the works until they are gone, and the works wait for the agent.
func pendingDeny(ctx context.Context, a *action, m *member, _ *client.Client) (string, error) {
	if a.force {
		if err := m.release(ctx); err != nil {
			return "", err
		}
	}
	left, unknown, err := m.rightsLeft(ctx)
	if err != nil {
		return "", err
	}
	a.unsure[m.String()] = unknown
	l, err := m.loadOf(ctx, nil)
	if err != nil {
		return "", err
	}
	return missingForDenial(left, unknown, l, func() string { return m.heartbeat(ctx) }), nil
}

func missingForDenial(left []string, unknown string, l *load, heartbeat func() string) string {
	var parts []string
	if n := l.works(); n > 0 {
		parts = append(parts, fmt.Sprintf("its agent has to remove %s: %s; %s", text.Count(n, "work"), l.from(), heartbeat()))
	}
	if len(left) > 0 {
		parts = append(parts, "its agent may still "+joined(left))
	}
	if len(parts) > 0 && unknown != "" {
		parts = append(parts, "what its agent may still do is not known: "+unknown)
	}
	return strings.Join(parts, "; ")
}

// release removes what makes the mailbox of a cluster wait for its agent: the finalizers of works
// that are being deleted, and that of the right to them.
func (m *member) release(ctx context.Context) error {
	name := "open-cluster-management:managedcluster:" + m.cluster.Name + ":work"
	bindings := m.Core.RbacV1().RoleBindings(m.cluster.Name)
	binding, err := bindings.Get(ctx, name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("read the right of the agent to its works: %w", err)
	}
	if err == nil && binding.DeletionTimestamp != nil {
		patch, err := without(binding, workv1.ManifestWorkFinalizer)
		if err != nil {
			return err
		}
		_, err = bindings.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("remove the right of the agent to its works: %w", err)
		}
	}
	works := m.Works.ManifestWorks(m.cluster.Name)
	list, err := works.List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list the works in mailbox %s: %w", m, err)
	}
	for i := range list.Items {
		work := &list.Items[i]
		if work.DeletionTimestamp == nil || !slices.Contains(work.Finalizers, workv1.ManifestWorkFinalizer) {
			continue
		}
		patch, err := without(work, workv1.ManifestWorkFinalizer)
		if err != nil {
			return err
		}
		_, err = works.Patch(ctx, work.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("release work %q: %w", work.Name, err)
		}
	}
	return nil
}

// without returns a patch that removes one finalizer, and fails if the object has changed.
func without(obj metav1.Object, finalizer string) ([]byte, error) {
	rest := slices.DeleteFunc(slices.Clone(obj.GetFinalizers()), func(f string) bool { return f == finalizer })
	return json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": obj.GetResourceVersion(), "finalizers": rest}})
}
