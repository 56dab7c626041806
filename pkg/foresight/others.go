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
	workv1 "open-cluster-management.io/api/work/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/client"
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
		r.note(forecast.AboutClusters, "what other WDSes deliver: the identity of WDS %s cannot be read: %v", r.WDS.Name, err)
		return nil, nil
	}
	wanted := map[string]bool{}
	for _, name := range names {
		wanted[name] = true
	}
	ofPackages := bindingsOfPackages(w)
	all := map[string]map[objref.Ref]forecast.Other{}
	known := works.NewManifests(texts)
	add := func(w *workv1.ManifestWork) {
		if !wanted[w.Namespace] {
			return
		}
		work := works.Read(w, known)
		by := fmt.Sprintf("Binding %q", work.Binding)
		if wds := works.Foreign(w, system.UID); wds != (plan.WDS{}) {
			by = fmt.Sprintf("WDS %q", wds.Name)
		} else if own(work.BindingUID) {
			return
		} else if ofPackages[work.BindingUID] {
			by = fmt.Sprintf("the package of Binding %q", work.Binding)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if all[w.Namespace] == nil {
			all[w.Namespace] = map[objref.Ref]forecast.Other{}
		}
		addOthers(all[w.Namespace], by, work)
	}
	selector := controlv1alpha1.LabelWDSUID
	if foreign {
		selector += "," + controlv1alpha1.LabelWDSUID + "!=" + string(system.UID)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, its := range r.ITSes {
		c, err := workclient.NewForConfig(quick(its.Config))
		if err != nil {
			return nil, err
		}
		// Few works are of other WDSes, so one request for all mailboxes is less than one for each
		// of many. Who may not list all may list some.
		if foreign && len(names) > parallel {
			r.Progress("works of other WDSes")
			if eachWork(ctx, c, "", selector, add) == nil {
				continue
			}
		}
		for _, cluster := range names {
			group.Go(func() error {
				r.Progress("works of " + cluster)
				if err := eachWork(ctx, c, cluster, selector, add); err != nil {
					r.note(forecast.AboutClusters, "what other WDSes deliver to cluster %s: %v", cluster, err)
				}
				return nil
			})
		}
	}
	return all, group.Wait()
}

func eachWork(ctx context.Context, c workclient.ManifestWorksGetter, mailbox, selector string, add func(*workv1.ManifestWork)) error {
	return client.EachItem(ctx, c.ManifestWorks(mailbox).List, metav1.ListOptions{LabelSelector: selector}, func(w *workv1.ManifestWork) error {
		add(w)
		return nil
	})
}

func addOthers(others map[objref.Ref]forecast.Other, by string, work *plan.Work) {
	for i := range work.Items {
		item := &work.Items[i]
		if owner := plan.OwnerOf(work, item); owner.Delivers() {
			others[item.Ref] = forecast.Other{By: by, Content: owner.Content()}
		}
	}
}

// Unknown returns what could not be read so far, sorted: what matters, and the rest.
func (r *WorldReader) Unknown(matters func(*forecast.Unknown) bool) (unknown, rest []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.unknown {
		if u := &r.unknown[i]; matters(u) {
			unknown = append(unknown, u.Text)
		} else {
			rest = append(rest, u.Text)
		}
	}
	slices.Sort(unknown)
	slices.Sort(rest)
	return slices.Compact(unknown), slices.Compact(rest)
}
