package foresight

import (
	"context"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/pkg/core/foresight"
	"github.com/starlinghq/starling/pkg/core/foresight/explain"
	"github.com/starlinghq/starling/pkg/core/inventory"
	"github.com/starlinghq/starling/pkg/statusagent"
)

// fleet returns what is known of clusters, without their mailboxes: of all, or of the one that is
// named.
func (r *Reader) fleet(ctx context.Context, cluster string) explain.Fleet {
	f := explain.Fleet{Now: r.now(), Cluster: cluster, Mailboxes: map[string]*explain.Mailbox{}}
	if len(r.itses) == 0 {
		f.NoITS = r.config.NoITS
		return f
	}
	f.Clusters = r.clusters(ctx, cluster)
	return f
}

// clusters reads clusters of all ITSes: all, or the one that is named. Of several that have one
// name it is the one that the name stands for.
func (r *Reader) clusters(ctx context.Context, name string) foresight.Fact[map[string]*foresight.Cluster] {
	found := make([]map[string]*clusterv1.ManagedCluster, len(r.itses))
	leases := make([]foresight.Fact[map[string]*coordinationv1.Lease], len(r.itses))
	addOns := make([]foresight.Fact[map[string]*addonv1alpha1.ManagedClusterAddOn], len(r.itses))
	problems := make([]string, len(r.itses))
	var reads []func()
	for i, of := range r.itses {
		reads = append(reads,
			func() { found[i], problems[i] = of.readClusters(ctx, name) },
			func() { leases[i] = of.readLeases(ctx, name) },
			func() { addOns[i] = of.readAddOns(ctx, name) })
	}
	together(reads...)

	members := map[string]map[int]inventory.Member{}
	for i := range found {
		for cluster, c := range found[i] {
			if members[cluster] == nil {
				members[cluster] = map[int]inventory.Member{}
			}
			members[cluster][i] = clusters.MemberOf(c)
		}
	}
	all := map[string]*foresight.Cluster{}
	for cluster, in := range members {
		i, state := inventory.Choose(in, true)
		if state != inventory.Accepted {
			i = firstOf(in)
		}
		lease := foresight.Fact[*coordinationv1.Lease]{Value: leases[i].Value[cluster], Unread: leases[i].Unread}
		addOn := foresight.Fact[*addonv1alpha1.ManagedClusterAddOn]{Value: addOns[i].Value[cluster], Unread: addOns[i].Unread}
		all[cluster] = ClusterOf(r.itses[i].name, found[i][cluster], lease, addOn)
	}
	problems = slices.DeleteFunc(problems, func(p string) bool { return p == "" })
	return foresight.Fact[map[string]*foresight.Cluster]{Value: all, Unread: strings.Join(problems, "; ")}
}

func firstOf(members map[int]inventory.Member) int {
	first := -1
	for i := range members {
		if first < 0 || i < first {
			first = i
		}
	}
	return first
}

func (i *its) readClusters(ctx context.Context, name string) (found map[string]*clusterv1.ManagedCluster, problem string) {
	found = map[string]*clusterv1.ManagedCluster{}
	const resource = "managedclusters"
	if name != "" {
		c, err := i.clusters.ManagedClusters().Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			problem = unread("get", resource, i.name, err)
		default:
			found[name] = c
		}
		return found, problem
	}
	err := pages(metav1.ListOptions{}, func(o metav1.ListOptions) (string, error) {
		list, err := i.clusters.ManagedClusters().List(ctx, o)
		if err != nil {
			return "", err
		}
		for n := range list.Items {
			found[list.Items[n].Name] = &list.Items[n]
		}
		return list.Continue, nil
	})
	if err != nil {
		problem = unread("list", resource, i.name, err)
	}
	return found, problem
}

func (i *its) readLeases(ctx context.Context, name string) foresight.Fact[map[string]*coordinationv1.Lease] {
	const resource = "leases"
	found := map[string]*coordinationv1.Lease{}
	if name != "" {
		lease, err := i.core.CoordinationV1().Leases(name).Get(ctx, ClusterLease, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return foresight.Unread[map[string]*coordinationv1.Lease](unread("get", resource, i.name, err))
		default:
			found[name] = lease
		}
		return foresight.Known(found)
	}
	err := pages(metav1.ListOptions{FieldSelector: metav1.ObjectNameField + "=" + ClusterLease}, func(o metav1.ListOptions) (string, error) {
		list, err := i.core.CoordinationV1().Leases(metav1.NamespaceAll).List(ctx, o)
		if err != nil {
			return "", err
		}
		for n := range list.Items {
			found[list.Items[n].Namespace] = &list.Items[n]
		}
		return list.Continue, nil
	})
	if err != nil {
		return foresight.Unread[map[string]*coordinationv1.Lease](unread("list", resource, i.name, err))
	}
	return foresight.Known(found)
}

func (i *its) readAddOns(ctx context.Context, name string) foresight.Fact[map[string]*addonv1alpha1.ManagedClusterAddOn] {
	const resource = "managedclusteraddons"
	found := map[string]*addonv1alpha1.ManagedClusterAddOn{}
	if name != "" {
		addOn, err := i.addOns.ManagedClusterAddOns(name).Get(ctx, statusagent.AddonName, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return foresight.Unread[map[string]*addonv1alpha1.ManagedClusterAddOn](unread("get", resource, i.name, err))
		default:
			found[name] = addOn
		}
		return foresight.Known(found)
	}
	err := pages(metav1.ListOptions{FieldSelector: metav1.ObjectNameField + "=" + statusagent.AddonName}, func(o metav1.ListOptions) (string, error) {
		list, err := i.addOns.ManagedClusterAddOns(metav1.NamespaceAll).List(ctx, o)
		if err != nil {
			return "", err
		}
		for n := range list.Items {
			found[list.Items[n].Namespace] = &list.Items[n]
		}
		return list.Continue, nil
	})
	if err != nil {
		return foresight.Unread[map[string]*addonv1alpha1.ManagedClusterAddOn](unread("list", resource, i.name, err))
	}
	return foresight.Known(found)
}
