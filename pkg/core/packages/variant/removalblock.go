package variant

import (
	"fmt"
	"slices"
	"strings"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	configv1alpha2 "github.com/starlinghq/starling/api/config/v1alpha2"
	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/removalblock"
	"github.com/starlinghq/starling/pkg/core/text"
)

// fewest is the number of PackageVariants of a set below which deletions are never blocked, unless
// the set has no targets any more.
const fewest = 10

// Deletions are PackageVariants that a set no longer wants.
type Deletions struct {
	// Variants are their names with their UIDs, sorted.
	Variants []string
	// Token identifies them.
	Token string
}

func deletionsOf(unwanted []*configv1alpha1.PackageVariant) *Deletions {
	d := &Deletions{}
	for _, pv := range unwanted {
		d.Variants = append(d.Variants, pv.Name+" "+string(pv.UID))
	}
	d.Token = shortHash(strings.Join(d.Variants, "\n"), 12)
	return d
}

// blocked reports whether the deletions exceed the limits: they would delete most of the existing
// PackageVariants, or all of them because the set has no targets any more. Mostly that is a mistake
// in a selector, or in what it selects.
func (d *Deletions) blocked(limits *removalblock.Limits, existing, desired int) bool {
	return !limits.Off && (existing >= fewest || desired == 0) && !limits.Allow(len(d.Variants), existing)
}

// allowedBy reports whether a token allows the deletions: it is the token of exactly these
// deletions, or of allowed deletions of which these are a part.
func (d *Deletions) allowedBy(token string, allowed *Deletions) bool {
	if token == "" {
		return false
	}
	if token == d.Token {
		return true
	}
	return allowed != nil && token == allowed.Token && !slices.ContainsFunc(d.Variants, func(v string) bool {
		_, found := slices.BinarySearch(allowed.Variants, v)
		return !found
	})
}

// removalBlocked returns the message of the condition RemovalBlocked.
func (d *Deletions) removalBlocked(set *configv1alpha2.PackageVariantSet, unwanted []*configv1alpha1.PackageVariant, existing int) string {
	names := make([]string, 0, len(unwanted))
	for _, pv := range unwanted {
		names = append(names, pv.Name)
	}
	const shown = 5
	return fmt.Sprintf("blocked: this change would delete %d of %s (%s). Revert it, or allow it with: kubectl annotate packagevariantset -n %s %s %s=%s",
		len(unwanted), text.Count(existing, "PackageVariant"), text.List(names, shown), set.Namespace, set.Name, controlv1alpha1.AnnotationAllowRemoval, d.Token)
}

// maxMessage bounds the message of a condition.
const maxMessage = 4096

// join makes one message of several, as Porch does.
func join(all []string) string { return strings.Join(all, "; ") }
