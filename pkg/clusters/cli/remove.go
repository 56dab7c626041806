package cli

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"github.com/starlinghq/starling/pkg/client"
	"github.com/starlinghq/starling/pkg/core/text"
	"github.com/starlinghq/starling/pkg/plugin"
)

func newRemove(o *options) *action {
	const timeout = 5 * time.Minute
	return &action{options: o, timeout: timeout, wait: true, verb: verb{
		name: "remove", title: "Take clusters out of the fleet",
		plan: planRemove, do: doRemove, pending: pendingRemove, after: afterRemove,
		done: func(_ *action, _ *member, p *plan) string { return "is removed" + stays(p.load) },
	}}
}

func planRemove(_ context.Context, a *action, m *member, l *load) (*plan, error) {
	return &plan{lines: removal(m.cluster.Name, a.force, l)}, nil
}

// removal says what it means to remove a cluster.
func removal(name string, force bool, l *load) []string {
	var lines []string
	all, _ := l.objects()
	if force {
		if all > 0 {
			lines = append(lines, fmt.Sprintf("its agent is not waited for: %s in it that it has not removed by then: %s",
				text.Count(all, "object stays|objects stay"), l.from()))
		}
	} else {
		lines = append(lines, leaving(l)...)
	}
	lines = append(lines, fmt.Sprintf("then delete ManagedCluster %s and its mailbox, Namespace %[1]s, with all that is in it", name))
	if l.Others > 0 {
		lines = append(lines, fmt.Sprintf("%s of others than Starling in the mailbox: what they deliver is deleted, too", text.Count(l.Others, "work is|works are")))
	}
	return append(lines, "OCM's agent stays in the cluster, and can ask to join again: remove it there, with Namespaces open-cluster-management-agent and open-cluster-management-agent-addon")
}

func doRemove(ctx context.Context, a *action, m *member, _ *plan) error {
	if a.force {
		return m.delete(ctx)
	}
	return doDrain(ctx, a, m, nil)
}

// delete requests the deletion of the ManagedCluster.
func (m *member) delete(ctx context.Context) error {
	err := m.Clusters.Delete(ctx, m.cluster.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &m.cluster.UID}})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return notShown(err)
}

func pendingRemove(ctx context.Context, a *action, m *member, wds *client.Client) (string, error) {
	if a.force {
		return "", nil
	}
	missing, err := pendingDrain(ctx, a, m, wds)
	if missing != "" {
		missing += ". If it will never respond, add --force: then what was delivered stays in it"
	}
	return missing, err
}

// afterRemove deletes the cluster, and then its mailbox: otherwise the next cluster of its name
// would get what is in it.
func afterRemove(ctx, deadline context.Context, a *action, m *member) error {
	if err := m.delete(ctx); err != nil {
		return err
	}
	progress := a.progress("%s: OCM deletes the ManagedCluster", m)
	defer progress.Stop()
	err := wait.PollUntilContextCancel(deadline, pollInterval/2, true, func(context.Context) (bool, error) {
		if a.force {
			if err := m.release(ctx); err != nil {
				return false, err
			}
		}
		now, err := m.Clusters.Get(ctx, m.cluster.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && now.UID != m.cluster.UID { // its agent may ask again at once
			return true, nil
		}
		return false, err
	})
	if err != nil {
		return timedOut(ctx, err, "ManagedCluster "+m.cluster.Name+" is being deleted, and waits for the works in its mailbox")
	}
	namespaces := m.Core.CoreV1().Namespaces()
	mailbox, err := namespaces.Get(ctx, m.cluster.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if mailbox.Labels[clusterv1.ClusterNameLabelKey] != m.cluster.Name {
		return nil // it is no mailbox
	}
	progress.Set("%s: its mailbox is deleted", m)
	err = namespaces.Delete(ctx, m.cluster.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &mailbox.UID}})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return err
	}
	err = wait.PollUntilContextCancel(deadline, pollInterval/2, true, func(context.Context) (bool, error) {
		if a.force {
			if err := m.release(ctx); err != nil && !apierrors.IsNotFound(err) {
				return false, err
			}
		}
		now, err := namespaces.Get(ctx, m.cluster.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && now.UID != mailbox.UID {
			return true, nil
		}
		return false, err
	})
	return timedOut(ctx, err, "Namespace "+m.cluster.Name+" is being deleted: its conditions say what it waits for")
}

// timedOut returns the error of a wait: that the time is over, with its own exit code.
func timedOut(ctx context.Context, err error, missing string) error {
	if err == nil || !wait.Interrupted(err) || ctx.Err() != nil {
		return err
	}
	return plugin.CodedError{Code: exitTimeout, Err: fmt.Errorf("not done in time, and goes on: %s", missing)}
}
