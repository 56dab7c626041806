package transactions

import (
	"context"

	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/text"
	"github.com/starlinghq/starling/pkg/core/transaction"
	"github.com/starlinghq/starling/pkg/transactions/install"
	"github.com/starlinghq/starling/pkg/transactions/propose"
)

// maxObjects bounds the objects that a change lists, of each sort.
const maxObjects = 50

// changes returns what a proposal changes. The error is a *transaction.FailedError if objects of
// users would be deleted.
func (t *try) changes(ctx context.Context, proposal *propose.Proposal, effects []install.Effect) ([]pkgv1alpha1.PackageChange, error) {
	var changes []pkgv1alpha1.PackageChange
	for n := range proposal.Install {
		locked, effect := &proposal.Install[n].Locked, &effects[n]
		if proposal.Install[n].Repair && len(effect.Created)+len(effect.Updated) == 0 {
			continue
		}
		change := pkgv1alpha1.PackageChange{
			Source: locked.Source, To: locked.Version,
			Created: text.Bound(effect.Created, maxObjects), Updated: text.Bound(effect.Updated, maxObjects),
		}
		if before := transaction.Find(proposal.Before, locked.Source); before != nil {
			change.From = before.Version
		}
		changes = append(changes, change)
	}
	for _, removal := range proposal.Remove {
		change := pkgv1alpha1.PackageChange{}
		for _, before := range proposal.Before {
			if before.Name == removal.Revision {
				change.Source, change.From = before.Source, before.Version
			}
		}
		if change.Source == "" {
			change.Source = removal.Name // an installation that did not end
		}
		if !removal.Replaced {
			loss, err := t.Installer.Loss(ctx, removal)
			if err != nil {
				return nil, err
			}
			if err := install.CheckRemoval(removal, loss); err != nil {
				return nil, err
			}
			change.Deleted = text.Bound(loss.Objects, maxObjects)
		}
		changes = append(changes, change)
	}
	return changes, nil
}
