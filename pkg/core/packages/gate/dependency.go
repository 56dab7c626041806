package gate

import (
	"cmp"
	"fmt"
	"strings"

	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	pkgv1beta1 "github.com/starlinghq/starling/api/pkg/v1beta1"
	"github.com/starlinghq/starling/pkg/core/resolve"
	"github.com/starlinghq/starling/pkg/core/text"
	"github.com/starlinghq/starling/pkg/core/transaction"
	"github.com/starlinghq/starling/pkg/core/xpkg"
)

// Unmet returns which dependencies of a revision are not installed, or not in a version that suits;
// nil if all are. A revision never has packages installed: its author need not be one who may do
// that.
func Unmet(revision string, dependencies []xpkg.Dependency, installed []pkgv1beta1.LockPackage) *resolve.Conflict {
	var missing, conflicting, hints []string
	for i := range dependencies {
		d := &dependencies[i]
		locked := transaction.Find(installed, d.Source)
		if locked == nil {
			missing = append(missing, "Package "+required(revision, d)+", which is not installed")
			hints = append(hints, fmt.Sprintf("%s %s", d.Kind, d.Source))
			continue
		}
		version := resolve.ParseVersion(locked.Version)
		if fits, err := resolve.Fits(d.Constraint, version); err != nil || !fits {
			conflicting = append(conflicting, fmt.Sprintf("Package %s, but %s is installed", required(revision, d), cmp.Or(version.Tag, version.Digest)))
		}
	}
	switch {
	case len(missing) > 0:
		return &resolve.Conflict{
			Reason: pkgv1alpha1.ReasonMissingDependency, Message: text.Join(append(missing, conflicting...), "; ", maxDependencies),
			Hint: "Install " + text.List(hints, maxDependencies) + " first",
		}
	case len(conflicting) > 0:
		return &resolve.Conflict{
			Reason: pkgv1alpha1.ReasonVersionConflict, Message: text.Join(conflicting, "; ", maxDependencies),
			Hint: "Install a version that suits, or change the annotation of the Kptfile",
		}
	}
	return nil
}

const maxDependencies = 10

func required(revision string, d *xpkg.Dependency) string {
	return strings.TrimSpace(revision + " requires " + d.Source + " " + d.Constraint)
}
