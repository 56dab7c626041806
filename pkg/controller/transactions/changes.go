package transactions

import (
	"context"
	"fmt"

	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/text"
	"github.com/starlinghq/starling/pkg/core/transaction"
	"github.com/starlinghq/starling/pkg/transactions/install"
	"github.com/starlinghq/starling/pkg/transactions/propose"
)

// maxObjects bounds the objects that a change lists, of each sort.
const maxObjects = 50

// maxUsers bounds the objects of users that a warning names.
const maxUsers = 10

// changes returns what a proposal changes, and warns of the objects of users that it deletes. The
// error is a *transaction.FailedError if objects of users would be deleted.
func (t *try) changes(ctx context.Context, proposal *propose.Proposal, effects []install.Effect) (changes []pkgv1alpha1.PackageChange, warnings []string, err error) {
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
				return nil, nil, err
			}
			if err := install.CheckRemoval(removal, loss); err != nil {
				return nil, nil, err
			}
			if n := len(loss.Users); n > 0 {
				warnings = append(warnings, fmt.Sprintf("the deletion of package %s deletes %s of users: %s", removal.Name, text.Count(n, "object"), text.List(loss.Users, maxUsers)))
			}
			change.Deleted = text.Bound(loss.Objects, maxObjects)
		}
		changes = append(changes, change)
	}
	return changes, warnings, nil
}
