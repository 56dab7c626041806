package foresight

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	workclient "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/foresight/forecast"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/works"
)

// texts is how many manifests are parsed once.
const texts = 1 << 14

// ReadOthers reads what other sources than the objects of the WDS deliver to these clusters: other
// WDSes, and packages of this one.
func (r *WorldReader) ReadOthers(ctx context.Context, w *forecast.World, names []string) error {
	ofPackages := bindingsOfPackages(w)
	others, err := r.others(ctx, w, names, func(binding types.UID) bool { return !ofPackages[binding] }, len(ofPackages) == 0)
	for cluster, of := range others {
		if known := w.Clusters[cluster]; known != nil {
			with := *known
			with.Others = of
			w.Clusters[cluster] = &with
		}
	}
	return err
}

func bindingsOfPackages(w *forecast.World) map[types.UID]bool {
	found := map[types.UID]bool{}
	for _, b := range w.Bindings {
		if len(b.Spec.Workload.Packages) > 0 {
			found[b.UID] = true
		}
	}
	return found
}

// others reads what is delivered to clusters, except what Bindings of this WDS deliver that are
// own. foreign: those are all Bindings of this WDS.
func (r *WorldReader) others(
	ctx context.Context, w *forecast.World, names []string, own func(binding types.UID) bool, foreign bool,
) (map[string]map[objref.Ref]forecast.Other, error) {
	if len(r.ITSes) == 0 || len(names) == 0 {
		return nil, nil
	}
	core, err := kubernetes.NewForConfig(r.WDS.Config)
	if err != nil {
		return nil, err
	}
	system, err := core.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		r.note("what other WDSes deliver: the identity of WDS %s cannot be read: %v", r.WDS.Name, err)
		return nil, nil
	}
	ofPackages := bindingsOfPackages(w)
	selector := controlv1alpha1.LabelWDSUID
	if foreign {
		selector += "," + controlv1alpha1.LabelWDSUID + "!=" + string(system.UID)
	}
	all := map[string]map[objref.Ref]forecast.Other{}
	known := works.NewManifests(texts)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, its := range r.ITSes {
		c, err := workclient.NewForConfig(quick(its.Config))
		if err != nil {
			return nil, err
		}
		for _, cluster := range names {
			group.Go(func() error {
				r.Progress("works of " + cluster)
				list, err := c.ManifestWorks(cluster).List(ctx, metav1.ListOptions{LabelSelector: selector})
				if err != nil {
					r.note("what other WDSes deliver to cluster %s: %v", cluster, err)
					return nil
				}
				r.mu.Lock()
				defer r.mu.Unlock()
				for i := range list.Items {
					work := works.Read(&list.Items[i], known)
					by := fmt.Sprintf("Binding %q", work.Binding)
					if wds := works.Foreign(&list.Items[i], system.UID); wds != (plan.WDS{}) {
						by = fmt.Sprintf("WDS %q", wds.Name)
					} else if own(work.BindingUID) {
						continue
					} else if ofPackages[work.BindingUID] {
						by = fmt.Sprintf("the package of Binding %q", work.Binding)
					}
					if all[cluster] == nil {
						all[cluster] = map[objref.Ref]forecast.Other{}
					}
					addOthers(all[cluster], by, work)
				}
				return nil
			})
		}
	}
	return all, group.Wait()
}

func addOthers(others map[objref.Ref]forecast.Other, by string, work *plan.Work) {
	for i := range work.Items {
		item := &work.Items[i]
		if owner := plan.OwnerOf(work, item); owner.Delivers() {
			others[item.Ref] = forecast.Other{By: by, Content: owner.Content()}
		}
	}
}

// Unknown returns what could not be read so far, sorted.
func (r *WorldReader) Unknown() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Compact(slices.Sorted(slices.Values(r.unknown)))
}
