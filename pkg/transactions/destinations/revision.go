package destinations

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/pkg/core/crdcheck"
	"github.com/starlinghq/starling/pkg/core/destination"
	"github.com/starlinghq/starling/pkg/core/packages/binding"
	"github.com/starlinghq/starling/pkg/core/transaction"
	"github.com/starlinghq/starling/pkg/transactions/propose"
)

// Repositories read Repositories from the API server. Their errors are those of the API server.
type Repositories interface {
	Repository(ctx context.Context, namespace, name string) (*configv1alpha1.Repository, error)
}

// gatherRevision reads what the verdict on a PackageRevision depends on. It is delivered to the
// cluster of its Repository and nowhere else. What else is delivered there is in the mailbox of the
// cluster, whatever delivers it.
func (d *Destinations) gatherRevision(ctx context.Context, tx *pkgv1alpha1.Transaction, r *propose.Revision) (*gathered, error) {
	g := &gathered{input: &destination.Input{Accepted: crdcheck.Accepted(tx.Annotations[pkgv1.AnnotationAllowBreakingCRDs])}}
	if err := revisionChanges(g.input, r); err != nil || len(g.input.Changes) == 0 {
		return g, err
	}
	delivered, err := d.isDelivered(ctx, r)
	if err != nil || !delivered {
		return g, err
	}
	list, err := d.listClusters(ctx)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(list, func(c *clusters.Cluster) bool { return c.Name == r.Repository })
	if at < 0 {
		return g, nil // no cluster of this name is accepted
	}
	name := binding.Name(binding.Package{Namespace: r.Namespace, Repository: r.Repository, Name: r.PackageName})
	g.input.Policies = []destination.Policy{{Name: name, Package: true, Clusters: map[string]bool{r.Repository: true}}}
	cluster := destination.Cluster{Name: r.Repository, Labels: list[at].Labels, Kubernetes: list[at].Kubernetes}
	home, _ := d.Clusters.Home(r.Repository)
	if its := d.ITSes[home]; its != nil {
		in := newInITS(home, its)
		in.beside = name
		if err := in.read(ctx, d.WDSUID, g.input, r.Repository); err != nil {
			return nil, in.failed(ctx, err)
		}
		in.addTo(&cluster, d.WDSUID)
	}
	g.input.Clusters = []destination.Cluster{cluster}
	return g, nil
}

// isDelivered reports whether the package of a revision is delivered to a cluster.
func (d *Destinations) isDelivered(ctx context.Context, r *propose.Revision) (bool, error) {
	if !slices.Contains(d.PackageNamespaces, r.Namespace) {
		return false, nil
	}
	repository, err := d.Repositories.Repository(ctx, r.Namespace, r.Repository)
	if apierrors.IsNotFound(err) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("get Repository %s/%s: %w", r.Namespace, r.Repository, err)
	}
	return repository.Spec.Deployment, nil
}

// revisionChanges sets the changes that the publication of a revision makes, and the custom
// resources of the revision that they concern.
func revisionChanges(in *destination.Input, r *propose.Revision) error {
	before, err := byName(r.Before.CRDs)
	if err != nil {
		return fmt.Errorf("decode CustomResourceDefinitions of PackageRevision %s/%s: %w", r.Namespace, r.Replaces, err)
	}
	after, err := byName(r.After.CRDs)
	if err != nil {
		return fmt.Errorf("decode CustomResourceDefinitions of PackageRevision %s/%s: %w", r.Namespace, r.Name, err)
	}
	names := slices.Collect(maps.Keys(before))
	names = slices.AppendSeq(names, maps.Keys(after))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		old, created := before[name], after[name]
		if old != nil && created != nil && crdcheck.Hash(old) == crdcheck.Hash(created) {
			continue
		}
		change := destination.Change{Package: r.Package(), Before: old, After: created}
		if old != nil {
			change.OnRemoval = onRemoval(old.Annotations)
		}
		in.Changes = append(in.Changes, change)
	}
	for _, o := range r.After.Objects {
		ref, concerns := concerned(o, in)
		if !concerns {
			continue
		}
		object, err := destination.NewObject(ref, normalized(o))
		if err != nil {
			return fmt.Errorf("read %s %q of PackageRevision %s/%s: %w", o.GetKind(), o.GetName(), r.Namespace, r.Name, err)
		}
		in.Resources = append(in.Resources, object)
	}
	return nil
}

func byName(objects []*unstructured.Unstructured) (map[string]*destination.CRD, error) {
	found := map[string]*destination.CRD{}
	for _, o := range objects {
		crd, err := typed(o)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.GetName(), err)
		}
		found[crd.Name] = crd
	}
	return found, nil
}

// listClusters returns the accepted clusters, as soon as all of them are known.
func (d *Destinations) listClusters(ctx context.Context) ([]*clusters.Cluster, error) {
	list, complete := d.Clusters.List()
	if complete {
		return list, nil
	}
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, syncPatience, true, func(context.Context) (bool, error) {
		list, complete = d.Clusters.List()
		return complete, nil
	})
	if err != nil {
		return nil, &transaction.OutageError{
			What: "an inventory and transport space", Err: errors.New("it has not answered since the start, so the clusters are not known yet"),
		}
	}
	return list, nil
}
