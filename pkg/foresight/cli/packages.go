package cli

import (
	"context"
	"maps"
	"slices"

	"github.com/starlinghq/starling/pkg/core/foresight/forecast"
	"github.com/starlinghq/starling/pkg/core/foresight/packages"
	"github.com/starlinghq/starling/pkg/foresight"
)

// addApprovals adds to a plan what approvals do to clusters, and returns the packages.
func (p *planner) addApprovals(ctx context.Context, plan *Plan, reader *foresight.WorldReader, before, after *forecast.World) ([]*forecast.Package, error) {
	if len(p.approvals) == 0 {
		return nil, nil
	}
	namespace, err := p.namespace()
	if err != nil {
		return nil, err
	}
	approved, notes, err := reader.ReadApprovals(ctx, namespace, p.approvals)
	if err != nil {
		return nil, err
	}
	plan.Notes = append(plan.Notes, notes...)
	for _, of := range approved {
		delivery := forecast.NewDelivery(of, before, after)
		contents, others, err := reader.ReadDelivery(ctx, after, delivery)
		if err != nil {
			return nil, err
		}
		plan.Approvals = append(plan.Approvals, delivery.Approval(contents))
		plan.Groups = append(plan.Groups, delivery.Groups(contents, others)...)
	}
	return approved, nil
}

// addPackages adds to a plan what the change does to PackageVariantSets and PackageVariants. It
// reads only the namespaces that the change may matter to.
func (c *change) addPackages(ctx context.Context, plan *Plan, reader *foresight.WorldReader, approved []*forecast.Package) error {
	namespaces := map[string]bool{}
	for i := range c.packages {
		namespaces[c.packages[i].namespace()] = true
	}
	for _, of := range approved {
		namespaces[of.ID.Namespace] = true
	}
	if len(c.labels) > 0 {
		found, err := reader.NamespacesOfSets(ctx)
		if err != nil {
			return err
		}
		for _, namespace := range found {
			namespaces[namespace] = true
		}
	}
	for _, namespace := range slices.Sorted(maps.Keys(namespaces)) {
		before, err := reader.ReadPackages(ctx, namespace, c.before)
		if err != nil {
			return err
		}
		if before == nil {
			continue
		}
		after := before.Clone()
		after.World = c.after
		if err := c.changePackages(before, after, approved); err != nil {
			return err
		}
		plan.Sets = append(plan.Sets, packages.Compare(ctx, before, after)...)
	}
	return nil
}

func (p *packageChange) namespace() string {
	if p.after != nil {
		return p.after.GetNamespace()
	}
	return p.before.GetNamespace()
}

// changePackages makes the change in the packages of a namespace.
func (c *change) changePackages(before, after *packages.State, approved []*forecast.Package) error {
	for i := range c.packages {
		one := &c.packages[i]
		if one.namespace() != before.Namespace {
			continue
		}
		if one.before != nil {
			if err := foresight.SetPackages(before, one.resource, one.before); err != nil {
				return err
			}
		}
		if one.after == nil {
			foresight.RemovePackages(after, one.resource, one.before.GetName())
		} else if err := foresight.SetPackages(after, one.resource, one.after); err != nil {
			return err
		}
	}
	for _, of := range approved {
		if of.ID.Namespace != before.Namespace {
			continue
		}
		for _, r := range of.After {
			after.Revisions[r.Name] = r
		}
	}
	return nil
}
