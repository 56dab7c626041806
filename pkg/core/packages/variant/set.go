package variant

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	configv1alpha2 "github.com/starlinghq/starling/api/config/v1alpha2"
	"github.com/starlinghq/starling/pkg/core/removalblock"
	"github.com/starlinghq/starling/pkg/core/text"
)

// SetInput holds all inputs of the plan of a set. It is not changed, except for Cache.
type SetInput struct {
	Set *configv1alpha2.PackageVariantSet
	// Compiled holds the expressions of Set at its generation. Invalid lists the errors of
	// ValidateSet and Compile. Exactly one of them is set.
	Compiled *Compiled
	Invalid  []string
	// Upstream is the revision that spec.upstream selects. UpstreamErr says why there is none.
	Upstream    *Metadata
	UpstreamErr error
	// Repositories of the namespace.
	Repositories []Repository
	// HasRevisions reports whether there is any revision of a package.
	HasRevisions func(Package) bool
	// Objects lists the objects from which objectSelectors select.
	Objects Objects
	// Variants are all PackageVariants of the namespace, of any owner.
	Variants []*configv1alpha1.PackageVariant
	// Allowed are deletions that a user allowed and that may be partly carried out; nil if there
	// are none.
	Allowed *Deletions
	// Refused has an error of the API server for each package whose PackageVariant it rejected at
	// the last write.
	Refused map[Package]string
	// Cache, if not nil, makes the next planning faster. It is changed.
	Cache *RenderCache
}

// SetPlan holds the writes for a set, and its status.
type SetPlan struct {
	// Create, Update and Delete are PackageVariants, in the order in which they are written:
	// creations come before deletions. Their specs are shared with other plans and must not be
	// changed.
	Create, Update, Delete []*configv1alpha1.PackageVariant
	// Wanted are the packages of all targets whose PackageVariants are known, sorted. It is nil if
	// the set is invalid, or has no upstream.
	Wanted []Package
	// Status is the desired status of the set. Its conditions have no times.
	Status configv1alpha2.PackageVariantSetStatus
	// Blocked are desired packages that have a PackageVariant of another owner.
	Blocked []Package
	// Retry is true if some objects could not be listed, or some templates not evaluated, and may
	// be later.
	Retry bool
	// Allowed are deletions that would be blocked if a user had not allowed them. Pass it to the
	// next plan.
	Allowed *Deletions
	// AllowanceUsed is true if the annotation that allows deletions has no effect any more, and is
	// to be removed.
	AllowanceUsed bool
}

// desiredVariant is a PackageVariant that a set wants.
type desiredVariant struct {
	target    *Target
	pkg       Package
	rendering *rendering
}

// setPlanner is the state of one planning.
type setPlanner struct {
	in       *SetInput
	plan     *SetPlan
	problems []configv1alpha2.Problem
	// failed is true if not all desired PackageVariants are known. Then nothing may be deleted.
	failed bool
	// interrupted is true if the templates of some targets were not evaluated.
	interrupted bool
	// notServed are the errors of kinds that are not served.
	notServed []string
	targets   int
	desired   map[Package]*desiredVariant
	// names of all PackageVariants, existing or planned.
	names map[string]bool
	// own are the PackageVariants of the set, by package; others are all others. A package has
	// several if users created them.
	own, others map[Package][]*configv1alpha1.PackageVariant
	ownCount    int
	// kept are packages of the set in a Repository that is gone.
	kept map[Package]bool
}

// PlanSet returns the plan for a set. The cost is some microseconds for each target and
// PackageVariant, and the evaluation of the expressions of those targets that changed since Cache
// was last used.
//
// If any part of the set is invalid or unknown, the plan has no deletions. Valid targets are
// created and updated nevertheless. Targets that are not evaluated when the context ends are
// unknown.
func PlanSet(ctx context.Context, in *SetInput) *SetPlan {
	p := &setPlanner{in: in, plan: &SetPlan{}, desired: map[Package]*desiredVariant{}, names: make(map[string]bool, len(in.Variants))}
	p.classify()
	switch {
	case len(in.Invalid) > 0:
		p.stalled(configv1alpha1.ReasonValidationError, join(in.Invalid))
	case in.UpstreamErr != nil:
		p.stalled(configv1alpha1.ReasonUpstreamNotFound, in.UpstreamErr.Error())
	default:
		p.computeDesired(ctx)
		p.plan.Wanted = sortedPackages(p.desired)
		keep := p.planWrites()
		p.planDeletions(keep)
		p.setConditions()
	}
	p.countStates()
	return p.plan
}

// classify finds the PackageVariants of the set.
func (p *setPlanner) classify() {
	p.own, p.others, p.kept = map[Package][]*configv1alpha1.PackageVariant{}, map[Package][]*configv1alpha1.PackageVariant{}, map[Package]bool{}
	for _, pv := range p.in.Variants {
		p.names[pv.Name] = true
		if p.owns(pv) {
			p.own[packageOf(pv)] = append(p.own[packageOf(pv)], pv)
			p.ownCount++
		} else {
			p.others[packageOf(pv)] = append(p.others[packageOf(pv)], pv)
		}
	}
	for _, list := range p.own {
		slices.SortFunc(list, func(a, b *configv1alpha1.PackageVariant) int {
			if deleting := a.DeletionTimestamp != nil; deleting != (b.DeletionTimestamp != nil) {
				if deleting {
					return 1
				}
				return -1
			}
			return byName(a, b)
		})
	}
}

// owns reports whether a PackageVariant belongs to the set: the set is its controller. The label of
// the set is for selectors only: who sets a label need not have any right to the PackageVariant.
func (p *setPlanner) owns(pv *configv1alpha1.PackageVariant) bool {
	controller := controllingSet(pv)
	return controller != nil && controller.UID == p.in.Set.UID
}

func packageOf(pv *configv1alpha1.PackageVariant) Package {
	if d := pv.Spec.Downstream; d != nil {
		return Package{d.Repo, d.Package}
	}
	return Package{}
}

func byName(a, b *configv1alpha1.PackageVariant) int { return cmp.Compare(a.Name, b.Name) }

// computeDesired renders the template of each target.
func (p *setPlanner) computeDesired(ctx context.Context) {
	set := p.in.Set
	targets, unread := unroll(&set.Spec, p.in.Repositories, p.in.Objects)
	for _, u := range unread {
		p.failed = true
		p.addProblem(fmt.Sprintf("spec.targets[%d].objectSelector", u.spec), u.err)
		if errors.Is(u.err, ErrNotServed) {
			p.notServed = append(p.notServed, u.err.Error())
		} else {
			p.plan.Retry = true
		}
	}
	r := &renderer{
		context: ctx, compiled: p.in.Compiled, upstream: set.Spec.Upstream, upstreamVar: variable(p.in.Upstream),
		repositories: make(map[string]*Repository, len(p.in.Repositories)), repositoryVars: map[string]map[string]any{},
	}
	for i := range p.in.Repositories {
		r.repositories[p.in.Repositories[i].Name] = &p.in.Repositories[i]
	}
	cache := cmp.Or(p.in.Cache, &RenderCache{})
	cache.begin(p.in.Compiled, p.in.Upstream)
	defer cache.end()
	p.targets = len(targets)
	duplicates := map[Package][]*Target{}
	for i := range targets {
		t := &targets[i]
		rendering := r.rendered(t, cache)
		if rendering.err != nil {
			p.targetFailed(t, rendering.err)
			p.interrupted = p.interrupted || rendering.interrupted
			p.plan.Retry = p.plan.Retry || rendering.interrupted
		}
		spec := rendering.spec
		if spec == nil {
			continue
		}
		if len(rendering.wrong) > 0 {
			p.targetFailed(t, fmt.Errorf("the PackageVariant would be invalid: %s", join(rendering.wrong)))
			continue
		}
		d := &desiredVariant{t, Package{spec.Downstream.Repo, spec.Downstream.Package}, rendering}
		if first := p.desired[d.pkg]; first != nil {
			if duplicates[d.pkg] == nil {
				duplicates[d.pkg] = []*Target{first.target}
			}
			duplicates[d.pkg] = append(duplicates[d.pkg], t)
			continue
		}
		p.desired[d.pkg] = d
	}
	for _, pkg := range sortedPackages(duplicates) {
		all := duplicates[pkg]
		p.targetFailed(all[0], fmt.Errorf("package %s is also wanted by %s; each package can have one target only", pkg, text.List(targetNames(all[1:]), 1)))
		p.desired[pkg].rendering = nil // an existing PackageVariant stays unchanged
	}
}

// planWrites plans creations and updates, and returns the names of the PackageVariants that the set
// wants.
func (p *setPlanner) planWrites() map[string]bool {
	keep := map[string]bool{}
	for _, pkg := range sortedPackages(p.desired) {
		d := p.desired[pkg]
		for _, pv := range p.own[pkg] {
			keep[pv.Name] = true
		}
		if d.rendering == nil {
			continue
		}
		if refused := p.in.Refused[pkg]; refused != "" {
			p.targetFailed(d.target, errors.New(refused)) // it is written again nevertheless
		}
		if own := p.own[pkg]; len(own) > 0 {
			p.update(own[0], d)
			for _, pv := range own[1:] { // created by a user with the label of the set
				delete(keep, pv.Name)
			}
			continue
		}
		if others := p.others[pkg]; len(others) > 0 {
			pv := slices.MinFunc(others, byName)
			preferred := Name(p.in.Set.Name, pkg, func(string) bool { return true })
			if len(others) == 1 && metav1.GetControllerOfNoCopy(pv) == nil && pv.DeletionTimestamp == nil && pv.Name == preferred {
				p.update(pv, d) // it is what the set would create
				keep[pv.Name] = true
				continue
			}
			p.plan.Blocked = append(p.plan.Blocked, pkg)
			p.targetFailed(d.target, fmt.Errorf("package %s already belongs to %s; delete that PackageVariant, or choose another package", pkg, ownerName(pv)))
			continue
		}
		name := Name(p.in.Set.Name, pkg, func(name string) bool { return !p.names[name] })
		if name == "" {
			p.targetFailed(d.target, fmt.Errorf("package %s: all possible names of its PackageVariant are in use", pkg))
			continue
		}
		p.names[name] = true
		keep[name] = true
		p.plan.Create = append(p.plan.Create, p.newVariant(name, d.rendering.spec))
	}
	return keep
}

func ownerName(pv *configv1alpha1.PackageVariant) string {
	if controller := metav1.GetControllerOfNoCopy(pv); controller != nil {
		return fmt.Sprintf("PackageVariant %s of %s %s", pv.Name, controller.Kind, controller.Name)
	}
	return fmt.Sprintf("PackageVariant %s", pv.Name)
}

func (p *setPlanner) newVariant(name string, spec *configv1alpha1.PackageVariantSpec) *configv1alpha1.PackageVariant {
	pv := &configv1alpha1.PackageVariant{ObjectMeta: metav1.ObjectMeta{Namespace: p.in.Set.Namespace, Name: name}, Spec: *spec}
	pv.APIVersion, pv.Kind = configv1alpha1.GroupVersion.String(), "PackageVariant"
	p.setOwner(pv)
	pv.Finalizers = []string{configv1alpha1.PackageVariantFinalizer}
	return pv
}

// update plans the update of an existing PackageVariant: its spec, and the metadata that make it
// belong to the set. Other metadata stay.
func (p *setPlanner) update(pv *configv1alpha1.PackageVariant, d *desiredVariant) {
	if pv.DeletionTimestamp != nil {
		p.targetFailed(d.target, fmt.Errorf("PackageVariant %s is being deleted; it is re-created afterwards", pv.Name))
		return
	}
	labelled := pv.Labels[configv1alpha1.LabelPackageVariantSet] == string(p.in.Set.UID)
	if p.owns(pv) && labelled && d.rendering.has(pv) {
		return
	}
	if field := p.ownPolicy(pv); field != "" {
		p.plan.Blocked = append(p.plan.Blocked, d.pkg) // until its annotations change
		p.targetFailed(d.target, fmt.Errorf("PackageVariant %s has an approval policy of its own in %s, so the set does not change it: remove the annotation %s there, and add it to the template of the target if the set is to have it",
			pv.Name, field, configv1alpha1.AnnotationApprovalPolicy))
		return
	}
	pv = pv.DeepCopy()
	pv.Spec = *d.rendering.spec
	p.setOwner(pv)
	p.plan.Update = append(p.plan.Update, pv)
}

// setOwner makes a PackageVariant belong to the set.
func (p *setPlanner) setOwner(pv *configv1alpha1.PackageVariant) {
	set := p.in.Set
	metav1.SetMetaDataLabel(&pv.ObjectMeta, configv1alpha1.LabelPackageVariantSet, string(set.UID))
	if metav1.IsControlledBy(pv, set) {
		return
	}
	pv.OwnerReferences = append(pv.OwnerReferences, *metav1.NewControllerRef(set, configv1alpha2.GroupVersion.WithKind("PackageVariantSet")))
}

// targetFailed records a target that is not created or updated.
func (p *setPlanner) targetFailed(t *Target, err error) {
	p.failed = true
	p.addProblem(t.String(), err)
}

func (p *setPlanner) addProblem(target string, err error) {
	p.problems = append(p.problems, configv1alpha2.Problem{Target: text.Clip(target, 1024), Message: text.Clip(err.Error(), 2048)})
}

// planDeletions plans deletions, except of the PackageVariants whose names are in keep, and of
// those that stay.
func (p *setPlanner) planDeletions(keep map[string]bool) {
	limits, mistakes := removalblock.Parse(p.in.Set.Annotations, "PackageVariants")
	for _, mistake := range mistakes {
		p.addProblem("metadata.annotations", errors.New(mistake))
	}
	detached := make(map[string]bool, len(p.in.Repositories)) // of Repositories that exist
	for i := range p.in.Repositories {
		detached[p.in.Repositories[i].Name] = p.in.Repositories[i].Detached
	}
	var unwanted []*configv1alpha1.PackageVariant
	existing := 0
	for _, list := range p.own {
		for _, pv := range list {
			if pv.DeletionTimestamp != nil {
				continue
			}
			existing++
			if !keep[pv.Name] && !p.stays(pv, detached) {
				unwanted = append(unwanted, pv)
			}
		}
	}
	if p.failed || len(unwanted) == 0 {
		p.plan.AllowanceUsed = limits.Token != "" && !p.failed
		return
	}
	slices.SortFunc(unwanted, byName)
	d := deletionsOf(unwanted)
	// Blocked deletions stay blocked while targets come back one by one. Else the last missing
	// targets, which are few, would be deleted.
	already := !limits.Off && meta.IsStatusConditionTrue(p.in.Set.Status.Conditions, configv1alpha1.PackageVariantSetConditionRemovalBlocked)
	if already || d.blocked(&limits, existing, len(p.desired)) {
		if !d.allowedBy(limits.Token, p.in.Allowed) {
			p.condition(configv1alpha1.PackageVariantSetConditionRemovalBlocked, metav1.ConditionTrue, configv1alpha1.ReasonRemovalLimitExceeded,
				d.removalBlocked(p.in.Set, unwanted, existing))
			return
		}
		p.plan.Allowed = d
		if p.in.Allowed != nil && limits.Token == p.in.Allowed.Token {
			p.plan.Allowed = p.in.Allowed
		}
	} else {
		p.plan.AllowanceUsed = limits.Token != ""
	}
	p.plan.Delete = unwanted
}

// stays reports whether a PackageVariant stays although no target wants it: its Repository is
// detached, or gone while the package has revisions. Tools delete Repositories and create them
// again, and drafts would be lost.
func (p *setPlanner) stays(pv *configv1alpha1.PackageVariant, detached map[string]bool) bool {
	pkg := packageOf(pv)
	left, there := detached[pkg.Repository]
	if there || !p.in.HasRevisions(pkg) {
		return left
	}
	p.kept[pkg] = true
	p.addProblem("PackageVariant "+pv.Name, fmt.Errorf("Repository %s does not exist; the PackageVariant stays as long as package %s has revisions", pkg.Repository, pkg))
	return true
}

// setConditions sets Stalled and Ready.
func (p *setPlanner) setConditions() {
	if !p.failed {
		p.condition(configv1alpha1.ConditionStalled, metav1.ConditionFalse, configv1alpha1.ReasonValid, "all validation checks passed")
		if meta.FindStatusCondition(p.plan.Status.Conditions, configv1alpha1.PackageVariantSetConditionRemovalBlocked) != nil {
			p.condition(configv1alpha1.ConditionReady, metav1.ConditionFalse, configv1alpha1.ReasonRemovalBlocked, "deletions are blocked; see condition RemovalBlocked")
			return
		}
		status, reason, message := p.ready()
		p.condition(configv1alpha1.ConditionReady, status, reason, message)
		return
	}
	if len(p.notServed) > 0 {
		p.stalled(configv1alpha1.ReasonNoMatchingTargets, join(p.notServed)+"; nothing is deleted until it is served")
		return
	}
	problems := make([]string, 0, len(p.problems))
	for i := range p.problems {
		problems = append(problems, p.problems[i].Target+": "+p.problems[i].Message)
	}
	const shown = 3
	reason := configv1alpha1.ReasonUnexpectedError
	if p.interrupted {
		reason = configv1alpha1.ReasonEvaluationInterrupted
	}
	p.stalled(reason, join(text.Bound(problems, shown))+". Nothing is deleted while a target fails")
}

// ready returns the condition Ready of a set of which nothing failed: that of its PackageVariants.
// What they reported of an earlier spec counts for nothing.
func (p *setPlanner) ready() (status metav1.ConditionStatus, reason, message string) {
	pending := len(p.plan.Create)+len(p.plan.Update) > 0
	for _, pkg := range sortedPackages(p.own) {
		if p.desired[pkg] == nil && !p.kept[pkg] {
			continue
		}
		pv := p.own[pkg][0]
		c := meta.FindStatusCondition(pv.Status.Conditions, configv1alpha1.ConditionReady)
		switch {
		case c == nil || c.ObservedGeneration != pv.Generation:
			pending = true
		case c.Status != metav1.ConditionTrue:
			return metav1.ConditionFalse, configv1alpha1.ReasonVariantsNotReady, fmt.Sprintf("PackageVariant %s is not ready: %s; see status.problems", pv.Name, c.Message)
		}
	}
	if pending {
		return metav1.ConditionUnknown, configv1alpha1.ReasonReconciling, "not all PackageVariants have reported yet"
	}
	return metav1.ConditionTrue, configv1alpha1.ReasonReconciled, "package variants successfully reconciled" // as Porch says it
}

// stalled reports that a user must change something.
func (p *setPlanner) stalled(reason, message string) {
	p.condition(configv1alpha1.ConditionStalled, metav1.ConditionTrue, reason, message)
	p.condition(configv1alpha1.ConditionReady, metav1.ConditionFalse, reason, message)
}

func (p *setPlanner) condition(kind string, status metav1.ConditionStatus, reason, message string) {
	p.plan.Status.Conditions = append(p.plan.Status.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: text.Clip(message, maxMessage), ObservedGeneration: p.in.Set.Generation,
	})
}

// maxProblems bounds status.problems.
const maxProblems = 10

// countStates fills the rest of the status: the states of the PackageVariants, and the problems.
func (p *setPlanner) countStates() {
	s := &p.plan.Status
	slices.SortFunc(s.Conditions, func(a, b metav1.Condition) int { return cmp.Compare(a.Type, b.Type) })
	s.ObservedGeneration = p.in.Set.Generation
	known := len(p.in.Invalid) == 0 && p.in.UpstreamErr == nil
	s.Targets = int32(p.targets)
	if !known { // the targets when they were last known
		s.Targets = int32(p.ownCount)
	}
	for pkg, list := range p.own {
		if known && p.desired[pkg] == nil && !p.failed {
			continue
		}
		st := &list[0].Status
		switch st.State {
		case configv1alpha1.VariantDraft:
			s.Draft++
		case configv1alpha1.VariantProposed:
			s.Proposed++
		case configv1alpha1.VariantPublished:
			if !meta.IsStatusConditionFalse(st.Conditions, configv1alpha1.ConditionReady) { // else the published revision is out of date
				s.Published++
			}
		case configv1alpha1.VariantDeletionProposed:
		}
		if meta.IsStatusConditionTrue(st.Conditions, configv1alpha1.PackageVariantConditionApplied) {
			s.Applied++
			if meta.IsStatusConditionTrue(st.Conditions, configv1alpha1.PackageVariantConditionHealthy) {
				s.Healthy++
			}
		}
		p.addVariantProblem(pkg, list[0])
	}
	slices.SortStableFunc(p.problems, func(a, b configv1alpha2.Problem) int {
		return cmp.Or(cmp.Compare(a.Target, b.Target), cmp.Compare(a.Message, b.Message))
	})
	s.Problems = slices.Clone(p.problems[:min(maxProblems, len(p.problems))])
	s.MoreProblems = int32(len(p.problems) - len(s.Problems))
}

// addVariantProblem records the first problem in the conditions of a PackageVariant.
func (p *setPlanner) addVariantProblem(pkg Package, pv *configv1alpha1.PackageVariant) {
	for _, kind := range []string{configv1alpha1.ConditionStalled, configv1alpha1.ConditionReady, configv1alpha1.PackageVariantConditionHealthy} {
		bad := metav1.ConditionFalse
		if kind == configv1alpha1.ConditionStalled {
			bad = metav1.ConditionTrue
		}
		if c := meta.FindStatusCondition(pv.Status.Conditions, kind); c != nil && c.Status == bad {
			p.addProblem("PackageVariant "+pv.Name, fmt.Errorf("%s: %s: %s", pkg, c.Reason, c.Message))
			return
		}
	}
}

func sortedPackages[T any](m map[Package]T) []Package {
	return slices.SortedFunc(maps.Keys(m), func(a, b Package) int {
		return cmp.Or(cmp.Compare(a.Repository, b.Repository), cmp.Compare(a.Name, b.Name))
	})
}
