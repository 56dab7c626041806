package transaction

import (
	"slices"

	pkgv1beta1 "github.com/starlinghq/starling/api/pkg/v1beta1"
)

// Difference is what changes between two lists of packages.
type Difference struct {
	// Installed are packages that are new or have another version, in the order of the proposal:
	// dependencies first.
	Installed []pkgv1beta1.LockPackage
	// Removed are packages that the proposal lacks, dependents first.
	Removed []pkgv1beta1.LockPackage
	// Before are the packages that are replaced by one of Installed, by their source.
	Before map[string]pkgv1beta1.LockPackage
}

// Empty reports whether nothing changes.
func (d Difference) Empty() bool { return len(d.Installed) == 0 && len(d.Removed) == 0 }

// Diff returns what changes. A package is the same if its source, version and revision are. What it
// costs depends on the number of packages, not on what is in them.
func Diff(current, proposed []pkgv1beta1.LockPackage) Difference {
	d := Difference{Before: map[string]pkgv1beta1.LockPackage{}}
	for _, p := range proposed {
		i := indexOf(current, p.Source)
		switch {
		case i < 0:
			d.Installed = append(d.Installed, p)
		case current[i].Version != p.Version || current[i].Name != p.Name:
			d.Installed = append(d.Installed, p)
			d.Before[p.Source] = current[i]
		}
	}
	for _, p := range slices.Backward(current) {
		if indexOf(proposed, p.Source) < 0 {
			d.Removed = append(d.Removed, p)
		}
	}
	return d
}

func indexOf(packages []pkgv1beta1.LockPackage, source string) int {
	return slices.IndexFunc(packages, func(p pkgv1beta1.LockPackage) bool { return p.Source == source })
}

// Find returns the package of a source, nil if there is none.
func Find(packages []pkgv1beta1.LockPackage, source string) *pkgv1beta1.LockPackage {
	if i := indexOf(packages, source); i >= 0 {
		return &packages[i]
	}
	return nil
}
