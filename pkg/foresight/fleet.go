package foresight

import (
	"context"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/pkg/core/foresight"
	"github.com/starlinghq/starling/pkg/core/foresight/explain"
	"github.com/starlinghq/starling/pkg/core/inventory"
)

// fleet returns what is known of clusters, without their mailboxes: of all, or of the one that is
// named.
func (r *Reader) fleet(ctx context.Context, cluster string) explain.Fleet {
	f := explain.NewFleet(r.now(), cluster)
	if len(r.itses) == 0 {
		f.NoITS = r.config.NoITS
		return f
	}
	f.Clusters = r.clusters(ctx, cluster)
	return f
}

// clusters reads clusters of all ITSes: all, or the one that is named. Of several that have one
// name it is the one that the name stands for; it is left out if that is not known, since an ITS
// could not be read.
func (r *Reader) clusters(ctx context.Context, name string) foresight.Fact[map[string]*foresight.Cluster] {
	found := make([]map[string]*clusterv1.ManagedCluster, len(r.itses))
	leases := make([]foresight.Fact[map[string]*coordinationv1.Lease], len(r.itses))
	addOns := make([]foresight.Fact[map[string]*addonv1alpha1.ManagedClusterAddOn], len(r.itses))
	problems := make([]string, len(r.itses))
	var reads []func()
	for i, of := range r.itses {
		reads = append(reads,
			func() { found[i], problems[i] = of.readClusters(ctx, name) },
			func() { leases[i] = of.Leases(ctx, name) },
			func() { addOns[i] = of.StatusAddOns(ctx, name) })
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
	problems = slices.DeleteFunc(problems, func(p string) bool { return p == "" })
	all := map[string]*foresight.Cluster{}
	for cluster, in := range members {
		i, state := inventory.Choose(in, len(problems) == 0)
		switch state {
		case inventory.Unknown: // an ITS that could not be read may have accepted it
			continue
		case inventory.Leaving, inventory.Absent:
			i = firstOf(in)
		case inventory.Accepted:
		}
		lease := foresight.Fact[*coordinationv1.Lease]{Value: leases[i].Value[cluster], Unread: leases[i].Unread}
		addOn := foresight.Fact[*addonv1alpha1.ManagedClusterAddOn]{Value: addOns[i].Value[cluster], Unread: addOns[i].Unread}
		all[cluster] = ClusterOf(r.itses[i].Name, found[i][cluster], lease, addOn)
	}
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
