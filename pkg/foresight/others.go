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
	if len(r.ITSes) == 0 {
		return nil
	}
	core, err := kubernetes.NewForConfig(r.WDS.Config)
	if err != nil {
		return err
	}
	system, err := core.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		r.note("what other WDSes deliver: the identity of WDS %s cannot be read: %v", r.WDS.Name, err)
		return nil
	}
	ofPackages := map[types.UID]bool{}
	for _, b := range w.Bindings {
		if len(b.Spec.Workload.Packages) > 0 {
			ofPackages[b.UID] = true
		}
	}
	known := works.NewManifests(texts)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, its := range r.ITSes {
		c, err := workclient.NewForConfig(quick(its.Config))
		if err != nil {
			return err
		}
		selector := controlv1alpha1.LabelWDSUID + "," + controlv1alpha1.LabelWDSUID + "!=" + string(system.UID)
		if len(ofPackages) > 0 {
			selector = controlv1alpha1.LabelWDSUID
		}
		for _, cluster := range names {
			group.Go(func() error {
				r.Progress("works of " + cluster)
				list, err := c.ManifestWorks(cluster).List(ctx, metav1.ListOptions{LabelSelector: selector})
				if err != nil {
					r.note("what other WDSes deliver to cluster %s: %v", cluster, err)
					return nil
				}
				others := map[objref.Ref]forecast.Other{}
				for i := range list.Items {
					work := works.Read(&list.Items[i], known)
					by := ""
					if wds := works.Foreign(&list.Items[i], system.UID); wds != (plan.WDS{}) {
						by = fmt.Sprintf("WDS %q", wds.Name)
					} else if ofPackages[work.BindingUID] {
						by = fmt.Sprintf("the package of Binding %q", work.Binding)
					}
					if by != "" {
						addOthers(others, by, work)
					}
				}
				if len(others) == 0 {
					return nil
				}
				r.mu.Lock()
				defer r.mu.Unlock()
				if of := w.Clusters[cluster]; of != nil {
					with := *of
					with.Others = others
					w.Clusters[cluster] = &with
				}
				return nil
			})
		}
	}
	return group.Wait()
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
