package binding

import (
	"context"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	corebinding "github.com/starlinghq/starling/pkg/core/binding"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/dynamicinformer"
	"github.com/starlinghq/starling/pkg/logging"
)

// confirm reads from the API servers what a Decision to remove relies on; see corebinding.Leaving.
// Policies are read last: those that are as they were seen have been so during all reads.
func (c *Controller) confirm(ctx context.Context, in *gathered, leaving *corebinding.Leaving) (corebinding.Unseen, error) {
	found := corebinding.Live{Unserved: map[schema.GroupResource]bool{}, Unreadable: map[schema.GroupResource]bool{}}
	var unserved, unreadable []schema.GroupResource
	var err error
	found.Labels.Objects, unserved, unreadable = c.readObjects(ctx, leaving)
	for _, gr := range unserved {
		// Their labels may have changed before, and not been seen. Only another policy could still
		// want them, so that the last policy of a kind can be deleted all the same.
		found.Unserved[gr] = c.memory.isReached(gr, in.state.Policy.Name)
	}
	for _, gr := range unreadable {
		found.Unreadable[gr] = in.state.Policy.DeletionTimestamp == nil || c.memory.isReached(gr, in.state.Policy.Name)
	}
	if found.Labels.Namespaces, err = c.readNamespaces(ctx, leaving); err != nil {
		return corebinding.Unseen{}, err
	}
	found.Labels.Clusters, found.Unread = c.config.Clusters.ReadLabels(ctx, leaving.Clusters)
	policies, err := c.config.Live.Policies(ctx)
	if err != nil {
		return corebinding.Unseen{}, fmt.Errorf("read BindingPolicies: %w", err)
	}
	found.Policies = c.memory.unseen(policies, in.events)
	return leaving.Unseen(in.state.Labels, found), nil
}

// readObjects returns the labels of the objects, the resources that are not served, and those that
// cannot be read: one kind that fails holds up no other one.
func (c *Controller) readObjects(
	ctx context.Context, leaving *corebinding.Leaving,
) (found map[objref.Ref]map[string]string, unserved, unreadable []schema.GroupResource) {
	refs := map[schema.GroupResource][]objref.Ref{}
	for ref := range leaving.Objects {
		refs[ref.GroupResource()] = append(refs[ref.GroupResource()], ref)
	}
	resources := c.config.API.Resources()
	found = map[objref.Ref]map[string]string{}
	for gr, refs := range refs {
		r, known := resources[gr]
		if !known || c.config.API.NotServed(gr) != dynamicinformer.Served {
			unserved = append(unserved, gr)
			continue
		}
		labels, err := c.config.Live.Labels(ctx, r, refs, c.config.Index.Count(gr))
		switch {
		case apierrors.IsNotFound(err): // it has not been served for a moment
			unserved = append(unserved, gr)
		case err != nil:
			klog.FromContext(ctx).V(2).Info("Cannot confirm what leaves the clusters; objects of this resource stay", logging.Resource, gr, logging.Reason, err.Error())
			unreadable = append(unreadable, gr)
		default:
			maps.Copy(found, labels)
		}
	}
	return found, unserved, unreadable
}

func (c *Controller) readNamespaces(ctx context.Context, leaving *corebinding.Leaving) (map[string]map[string]string, error) {
	r, ok := c.config.API.Resources()[namespaces]
	if !ok {
		return nil, nil
	}
	of := map[objref.Ref]bool{}
	for ref := range leaving.Objects {
		if ref.Namespace != "" {
			of[objref.New(namespaces, "", ref.Namespace)] = true
		}
	}
	found, err := c.config.Live.Labels(ctx, r, slices.Collect(maps.Keys(of)), c.config.Index.Count(namespaces))
	if err != nil {
		return nil, fmt.Errorf("read Namespaces: %w", err)
	}
	labels := map[string]map[string]string{}
	for ref, of := range found {
		labels[ref.Name] = of
	}
	return labels, nil
}
