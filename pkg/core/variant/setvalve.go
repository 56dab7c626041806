package variant

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	configv1alpha2 "github.com/starlinghq/starling/api/config/v1alpha2"
	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/valve"
)

// fewest is the number of PackageVariants of a set below which nothing is held, unless the set asks for nothing any more.
const fewest = 10

func limitsOf(set *configv1alpha2.PackageVariantSet) (valve.Limits, []string) {
	return valve.Parse(set.Annotations, "PackageVariants")
}

func deletionsOf(gone []*configv1alpha1.PackageVariant) *Deletions {
	d := &Deletions{}
	for _, pv := range gone {
		d.Variants = append(d.Variants, pv.Name+" "+string(pv.UID))
	}
	sum := sha256.Sum256([]byte(strings.Join(d.Variants, "\n")))
	const digits = 12
	d.Token = hex.EncodeToString(sum[:])[:digits]
	return d
}

// held tells whether deletions wait: if they are most of the PackageVariants that are there, or all since nothing is asked for any more,
// which is mostly a mistake in a selector, or in what it selects.
func (d *Deletions) held(limits *valve.Limits, there, wanted int) bool {
	return !limits.Off && (there >= fewest || wanted == 0) && !limits.Allow(len(d.Variants), there)
}

// releasedBy tells whether a token releases the deletions: just these, or what is left of those that it released.
func (d *Deletions) releasedBy(token string, begun *Deletions) bool {
	if token == "" {
		return false
	}
	if token == d.Token {
		return true
	}
	return begun != nil && token == begun.Token && !slices.ContainsFunc(d.Variants, func(v string) bool {
		_, found := slices.BinarySearch(begun.Variants, v)
		return !found
	})
}

// hold says that deletions wait, and how they are released.
func (p *planning) hold(d *Deletions, gone []*configv1alpha1.PackageVariant, there int) {
	const many = 5
	var names []string
	for _, pv := range gone[:min(many, len(gone))] {
		names = append(names, pv.Name)
	}
	set := p.in.Set
	p.condition(configv1alpha1.PackageVariantSetConditionHeld, metav1.ConditionTrue, configv1alpha1.ReasonSafetyValve, fmt.Sprintf(
		"%d of %d PackageVariants would be deleted (%s%s), so all deletions wait. Undo the change, or release them with: kubectl annotate packagevariantset -n %s %s %s=%s",
		len(gone), there, strings.Join(names, ", "), andMore(len(gone)-many), set.Namespace, set.Name, controlv1alpha1.AnnotationReleaseHeld, d.Token))
}

func andMore(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf(" … and %d more", n)
}

// maxMessage bounds the message of a condition.
const maxMessage = 4096

// limited cuts a text.
func limited(text string, limit int) string {
	const dots = "…"
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit-len(dots)], "") + dots
}

// join makes one text of several, as Porch does.
func join(all []string) string { return strings.Join(all, "; ") }

func isNotServed(err error) bool { return errors.Is(err, ErrNotServed) }

func errText(text string) error { return errors.New(text) }
