package packages

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/foresight/forecast"
	"github.com/starlinghq/starling/pkg/core/packages/variant"
)

// Set is what changes for a PackageVariantSet.
type Set struct {
	Namespace string `json:"namespace"`
	// Name is "" for the PackageVariants that belong to no set.
	Name string `json:"name,omitempty"`
	// TargetsGained and TargetsLost are the packages of its targets, as repository/package.
	TargetsGained []string `json:"targetsGained,omitempty"`
	TargetsLost   []string `json:"targetsLost,omitempty"`
	// Variants are its PackageVariants that change, or for which there is something to do.
	Variants []Variant `json:"variants,omitempty"`
	// Drafts are the PackageRevisions that are drafted.
	Drafts []string `json:"drafts,omitempty"`
	// Mistake is the message of its condition Stalled: nothing is deleted meanwhile.
	Mistake string `json:"mistake,omitempty"`
	// Unknown says what is not known of the set, so that there may be more changes.
	Unknown string `json:"unknown,omitempty"`
	// Blocked is the message of its condition RemovalBlocked.
	Blocked string `json:"removalBlocked,omitempty"`
}

// Changes reports whether any PackageVariant or package changes.
func (s *Set) Changes() bool { return len(s.Variants) > 0 }

// Variant is a PackageVariant that changes.
type Variant struct {
	// Verb is create, update or delete; "" if the PackageVariant itself stays as it is.
	Verb forecast.Verb `json:"verb,omitempty"`
	Name string        `json:"name"`
	// Package is the downstream package, as repository/package.
	Package string `json:"package"`
	// Steps are what happens to its revisions, as "create c1.web.packagevariant-0123".
	Steps []string `json:"steps,omitempty"`
	// Problem is why nothing can be done.
	Problem string `json:"problem,omitempty"`
}

// Compare returns what changes between two States of a namespace, sorted by set. PackageVariants
// that belong to no set come first.
func Compare(ctx context.Context, before, after *State) []Set {
	had, gets := before.settle(ctx), after.settle(ctx)
	sets := map[string]*Set{}
	set := func(name string) *Set {
		if sets[name] == nil {
			sets[name] = &Set{Namespace: after.Namespace, Name: name}
		}
		return sets[name]
	}
	for name := range mergedKeys(had.plans, gets.plans) {
		s := set(name)
		compareSet(s, had.plans[name], gets.plans[name])
		if gets.unknown[name] != "" { // then the message of the condition is about this plan, not about the set
			s.Mistake = ""
			if before.Sets[name] != after.Sets[name] {
				s.Unknown = gets.unknown[name]
			}
		}
	}
	for name := range mergedKeys(had.variants, gets.variants) {
		if v, drafts := compareVariant(had, gets, name); v != nil {
			of := set(cmp.Or(setOf(gets.variants[name]), setOf(had.variants[name])))
			of.Variants = append(of.Variants, *v)
			of.Drafts = append(of.Drafts, drafts...)
		}
	}
	var changed []Set
	for _, name := range slices.Sorted(maps.Keys(sets)) {
		s := sets[name]
		if len(s.TargetsGained)+len(s.TargetsLost)+len(s.Variants) > 0 || s.Mistake+s.Unknown+s.Blocked != "" {
			slices.SortFunc(s.Variants, func(a, b Variant) int { return cmp.Compare(a.Name, b.Name) })
			slices.Sort(s.Drafts)
			changed = append(changed, *s)
		}
	}
	return changed
}

func mergedKeys[V any](a, b map[string]V) map[string]bool {
	all := map[string]bool{}
	for _, m := range []map[string]V{a, b} {
		for key := range m {
			all[key] = true
		}
	}
	return all
}

// setOf returns the name of the set that controls a PackageVariant, "" if none does.
func setOf(pv *configv1alpha1.PackageVariant) string {
	if pv == nil {
		return ""
	}
	if owner := metav1.GetControllerOfNoCopy(pv); owner != nil && owner.Kind == "PackageVariantSet" {
		return owner.Name
	}
	return ""
}

// compareSet describes the targets and the conditions of a set. A plan is nil if there is no set.
func compareSet(s *Set, had, gets *variant.SetPlan) {
	var before, after variant.SetPlan
	if had != nil {
		before = *had
	}
	if gets != nil {
		after = *gets
	}
	s.TargetsGained = missing(after.Wanted, before.Wanted)
	stalled := message(gets, configv1alpha1.ConditionStalled)
	if stalled == "" { // else some targets are not known
		s.TargetsLost = missing(before.Wanted, after.Wanted)
	}
	if stalled != message(had, configv1alpha1.ConditionStalled) {
		s.Mistake = stalled
	}
	if blocked := message(gets, configv1alpha1.PackageVariantSetConditionRemovalBlocked); blocked != message(had, configv1alpha1.PackageVariantSetConditionRemovalBlocked) {
		s.Blocked = blocked
	}
}

// message returns the message of a condition that is True, "" otherwise.
func message(plan *variant.SetPlan, condition string) string {
	if plan == nil {
		return ""
	}
	if c := meta.FindStatusCondition(plan.Status.Conditions, condition); c != nil && c.Status == metav1.ConditionTrue {
		return c.Message
	}
	return ""
}

// missing returns what a has and b has not.
func missing(a, b []variant.Package) []string {
	has := make(map[variant.Package]bool, len(b))
	for _, pkg := range b {
		has[pkg] = true
	}
	var found []string
	for _, pkg := range a {
		if !has[pkg] {
			found = append(found, pkg.String())
		}
	}
	return found
}

// compareVariant returns what changes for a PackageVariant, nil if nothing does, and the revisions
// that are drafted.
func compareVariant(had, gets *settled, name string) (v *Variant, drafts []string) {
	before, after := had.variants[name], gets.variants[name]
	v = &Variant{Name: name}
	var done []string
	if before != nil {
		v.Package = packageOf(before)
		done, _, _ = had.texts(had.steps(name))
	}
	switch {
	case before == nil:
		v.Verb = forecast.Create
	case after == nil:
		v.Verb = forecast.Delete
		if gets.gone[name] == nil { // its deletion is the change
			gets.gone[name] = before
		}
	case !apiequality.Semantic.DeepEqual(before.Spec, after.Spec):
		v.Verb = forecast.Update
	}
	if after != nil {
		v.Package = packageOf(after)
	}
	steps, created, problem := gets.texts(gets.steps(name))
	for _, step := range steps {
		if !slices.Contains(done, step) {
			v.Steps = append(v.Steps, step)
		}
	}
	for _, draft := range created {
		if slices.Contains(v.Steps, string(variant.Create)+" "+draft) {
			drafts = append(drafts, draft)
		}
	}
	if v.Verb == forecast.Create || v.Verb == forecast.Update {
		v.Problem = problem
	}
	if v.Verb == "" && len(v.Steps) == 0 {
		return nil, nil
	}
	return v, drafts
}

func packageOf(pv *configv1alpha1.PackageVariant) string {
	if d := pv.Spec.Downstream; d != nil {
		return variant.Package{Repository: d.Repo, Name: d.Package}.String()
	}
	return ""
}

// texts returns the steps of a plan, the drafts that they create, and why there is none.
func (s *settled) texts(plan *variant.Plan) (steps, drafts []string, problem string) {
	for i := range plan.Actions {
		switch a := &plan.Actions[i]; a.Verb {
		case variant.AddFinalizer, variant.RemoveFinalizer:
		case variant.Create:
			drafts = append(drafts, a.Revision)
			steps = append(steps, a.String())
		case variant.Delete, variant.Leave:
			if s.World.Settings.Bindings.PackagesUser == "" { // who of the authors is a person is not known
				steps = append(steps, fmt.Sprintf("%s %s, unless a person has changed it", variant.Delete, a.Revision))
				continue
			}
			steps = append(steps, a.String())
		default:
			steps = append(steps, a.String())
		}
	}
	for i := range plan.Work {
		steps = append(steps, plan.Work[i].String())
	}
	for _, c := range plan.Status.Conditions {
		bad := c.Type == configv1alpha1.ConditionStalled && c.Status == metav1.ConditionTrue ||
			c.Type == configv1alpha1.ConditionReady && c.Status == metav1.ConditionFalse
		if bad && len(steps) == 0 && problem == "" {
			problem = c.Message
		}
	}
	return steps, drafts, problem
}
