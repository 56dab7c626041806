package destinations

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	workv1 "open-cluster-management.io/api/work/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	"github.com/starlinghq/starling/pkg/client"
	"github.com/starlinghq/starling/pkg/core/destination"
	"github.com/starlinghq/starling/pkg/core/text"
	"github.com/starlinghq/starling/pkg/core/transaction"
	"github.com/starlinghq/starling/pkg/writer"
)

// Keep ensures that clusters keep the CRDs that stay there when their package is removed. It blocks
// until the mailboxes say so, before anything is held or deleted. From then on the transport
// removes a CRD from a mailbox when the cluster has reported that it keeps it. That also holds
// after a restart, when the transport cannot read any more what a deleted object has asked for. The
// transport that has written that for one cluster writes it for all, also for those that get the
// CRD now, and for what is held. If it does not in time, the error is a *transaction.FailedError.
func (d *Destinations) Keep(ctx context.Context, tx *pkgv1alpha1.Transaction) error {
	v, err := d.of(tx)
	if err != nil {
		return err
	}
	for i := range v.input.Changes {
		before := v.input.Changes[i].Before
		if before == nil {
			continue
		}
		if onRemoval, changes := v.onRemoval[before.Name]; changes {
			if err := d.annotate(ctx, before, onRemoval); err != nil {
				return err
			}
		}
	}
	keep := v.kept()
	if len(keep) == 0 {
		return nil
	}
	var lacking []string
	// Requests have the context of the caller: one that is sent when the time is over would fail.
	err = wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, d.Patience, true, func(context.Context) (done bool, err error) {
		lacking, err = d.lacking(ctx, v, keep)
		return len(lacking) == 0, err
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return &transaction.FailedError{
			Reason: pkgv1alpha1.ReasonResourcesInUse,
			Message: fmt.Sprintf("clusters would delete CRDs with all objects of their kinds: the mailbox does not say yet that the cluster keeps %s. "+
				"The transport-controller writes that, if it runs and nothing is wrong with the object: kubectl starling explain crd/NAME", text.List(lacking, 10)),
		}
	}
	return err
}

// annotate writes what becomes of a CRD in the clusters; "" removes that.
func (d *Destinations) annotate(ctx context.Context, crd *destination.CRD, onRemoval string) error {
	annotations := map[string]any{controlv1alpha1.AnnotationOnRemoval: onRemoval}
	if onRemoval == "" {
		annotations[controlv1alpha1.AnnotationOnRemoval] = nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": crd.ResourceVersion, "annotations": annotations}})
	if err != nil {
		return err
	}
	_, err = d.Writer.Patch(ctx, writer.Target{Resource: definitions, Name: crd.Name}, types.MergePatchType, patch, "removed")
	return err
}

// kept returns the CRDs that leave clusters and stay there, by cluster.
func (v *validated) kept() map[string][]string {
	stays, kept := map[string]bool{}, map[string][]string{}
	for i := range v.input.Changes {
		if c := &v.input.Changes[i]; c.After == nil && c.Stays {
			stays[c.Before.Name] = true
		}
	}
	for i := range v.result.Destinations {
		c := &v.result.Destinations[i]
		for _, ref := range c.Changed {
			if stays[ref.Name] {
				kept[c.Cluster] = append(kept[c.Cluster], ref.Name)
			}
		}
	}
	return kept
}

// lacking returns the CRDs that clusters would delete, with the clusters, as the mailboxes say.
// Only what has not been seen to stay is read again.
func (d *Destinations) lacking(ctx context.Context, v *validated, keep map[string][]string) (lacking []string, err error) {
	options := metav1.ListOptions{Limit: workPage, LabelSelector: controlv1alpha1.LabelWDSUID + "=" + string(d.WDSUID)}
	for cluster, names := range keep {
		home, _ := d.Clusters.Home(cluster)
		its := v.its[home]
		if its == nil {
			continue // it has left meanwhile
		}
		var goes []string
		err := client.EachItem(ctx, its.objects.Resource(works).Namespace(cluster).List, options, func(o *unstructured.Unstructured) error {
			work := &workv1.ManifestWork{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, work); err != nil {
				return fmt.Errorf("decode ManifestWork %s/%s: %w", o.GetNamespace(), o.GetName(), err)
			}
			goes = append(goes, deletes(work, names)...)
			return nil
		})
		if err != nil {
			return nil, its.failed(ctx, fmt.Errorf("list ManifestWorks: %w", err))
		}
		for _, name := range goes {
			lacking = append(lacking, name+" of "+cluster)
		}
		if keep[cluster] = goes; len(goes) == 0 {
			delete(keep, cluster)
		}
	}
	slices.Sort(lacking)
	return lacking, nil
}

// deletes returns which of these CRDs a cluster deletes when they leave a work. Of one that the
// cluster has never reported, the transport does not change the options, and it removes it only
// after a report: to wait for a cluster that never comes would keep the package for good.
func deletes(work *workv1.ManifestWork, names []string) []string {
	var found []string
	for n := range work.Spec.Workload.Manifests {
		content := &unstructured.Unstructured{}
		if json.Unmarshal(work.Spec.Workload.Manifests[n].Raw, &content.Object) != nil {
			continue // no cluster applies it
		}
		gvk, name := content.GroupVersionKind(), content.GetName()
		if gvk.Group != definitions.Group || gvk.Kind != definitionKind || !slices.Contains(names, name) || claims(work, refOf(name)) || !isReported(work, name) {
			continue
		}
		orphans := func(r workv1.OrphaningRule) bool {
			return r.Group == definitions.Group && r.Resource == definitions.Resource && r.Name == name
		}
		if o := work.Spec.DeleteOption; o == nil || o.SelectivelyOrphan == nil || !slices.ContainsFunc(o.SelectivelyOrphan.OrphaningRules, orphans) {
			found = append(found, name)
		}
	}
	return found
}

// isReported reports whether the cluster has ever reported a CRD of a work.
func isReported(work *workv1.ManifestWork, name string) bool {
	return slices.ContainsFunc(work.Status.ResourceStatus.Manifests, func(m workv1.ManifestCondition) bool {
		return m.ResourceMeta.Group == definitions.Group && m.ResourceMeta.Kind == definitionKind && m.ResourceMeta.Name == name
	})
}
