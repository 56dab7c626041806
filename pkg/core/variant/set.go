package variant

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	configv1alpha2 "github.com/starlinghq/starling/api/config/v1alpha2"
)

// SetInput is all that the plan of a set follows from. It is not changed, but for Rendered.
type SetInput struct {
	Set *configv1alpha2.PackageVariantSet
	// Compiled are the expressions of Set at its generation; Invalid is what ValidateSet and Compile say is wrong with it. One of them is
	// there.
	Compiled *Compiled
	Invalid  []string
	// Upstream is the revision that spec.upstream denotes; UpstreamErr why there is none.
	Upstream    *Metadata
	UpstreamErr error
	// Repositories are those of the namespace.
	Repositories []Repository
	// Objects lists what objectSelectors select from.
	Objects Objects
	// Variants are all PackageVariants of the namespace, whoever they belong to.
	Variants []*configv1alpha1.PackageVariant
	// Begun is what was released of deletions that may be half done; nil if nothing was.
	Begun *Deletions
	// Refused says of packages why the API server did not take their PackageVariants when they were written last.
	Refused map[Package]string
	// Rendered, if it is there, makes the next planning faster; it is changed.
	Rendered *Rendered
}

// SetPlan is what is to be done for a set.
type SetPlan struct {
	// Create, Update and Delete are PackageVariants, in the order in which they are written: what is new comes before what goes. Their
	// specs are shared with other plans and must not be changed.
	Create, Update, Delete []*configv1alpha1.PackageVariant
	// Status is what the set shall say; its conditions have no times.
	Status configv1alpha2.PackageVariantSetStatus
	// Blocked are packages that the set asks for, of which others keep PackageVariants.
	Blocked []Package
	// Retry tells that something could not be read that may be readable later.
	Retry bool
	// Released are deletions that would be held, had they not been released; it is Begun of the next plan.
	Released *Deletions
	// Spent tells that the annotation which releases deletions has nothing left to release, and shall go.
	Spent bool
}

// desired is a PackageVariant that a set asks for.
type desired struct {
	target    *Target
	pkg       Package
	rendering *rendering
}

// planning is the state of one planning.
type planning struct {
	in       *SetInput
	plan     *SetPlan
	problems []configv1alpha2.Problem
	// failed tells that it is not known what the set asks for as a whole, so that nothing may be deleted.
	failed bool
	// notServed names kinds that are not served.
	notServed []string
	targets   int
	wanted    map[Package]*desired
	// names are those of all PackageVariants, with those that are planned.
	names map[string]bool
	// own are those of the set by their packages, several if somebody made them so; others are all others.
	own, others map[Package][]*configv1alpha1.PackageVariant
	ownCount    int
}

// PlanSet returns what is to be done for a set. It costs as much as there are targets and PackageVariants, some microseconds for each, and
// evaluates the expressions of those targets that are not as they were when Rendered was given last.
//
// While anything about the set is wrong or not known, nothing is deleted; what is right goes on.
func PlanSet(in *SetInput) *SetPlan {
	p := &planning{in: in, plan: &SetPlan{}, wanted: map[Package]*desired{}, names: make(map[string]bool, len(in.Variants))}
	p.sort()
	switch {
	case len(in.Invalid) > 0:
		p.stalled(configv1alpha1.ReasonValidationError, join(in.Invalid))
	case in.UpstreamErr != nil:
		p.stalled(configv1alpha1.ReasonUpstreamNotFound, in.UpstreamErr.Error())
	default:
		p.ask()
		keep := p.write()
		p.delete(keep)
		p.conclude()
	}
	p.count()
	return p.plan
}

// sort finds out which PackageVariants are those of the set.
func (p *planning) sort() {
	p.own, p.others = map[Package][]*configv1alpha1.PackageVariant{}, map[Package][]*configv1alpha1.PackageVariant{}
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
			if going := a.DeletionTimestamp != nil; going != (b.DeletionTimestamp != nil) {
				if going {
					return 1
				}
				return -1
			}
			return byName(a, b)
		})
	}
}

// owns tells whether a PackageVariant is one of the set: the set controls it, or it has lost its controller and kept the label.
func (p *planning) owns(pv *configv1alpha1.PackageVariant) bool {
	if controller := metav1.GetControllerOfNoCopy(pv); controller != nil {
		return controller.UID == p.in.Set.UID
	}
	return p.in.Set.UID != "" && pv.Labels[configv1alpha1.LabelPackageVariantSet] == string(p.in.Set.UID)
}

func packageOf(pv *configv1alpha1.PackageVariant) Package {
	if d := pv.Spec.Downstream; d != nil {
		return Package{d.Repo, d.Package}
	}
	return Package{}
}

func byName(a, b *configv1alpha1.PackageVariant) int { return cmp.Compare(a.Name, b.Name) }

// ask finds out which PackageVariants the set asks for.
func (p *planning) ask() {
	set := p.in.Set
	targets, unread := unroll(&set.Spec, p.in.Repositories, p.in.Objects)
	for _, u := range unread {
		p.failed = true
		p.problem(fmt.Sprintf("spec.targets[%d].objectSelector", u.spec), u.err)
		if isNotServed(u.err) {
			p.notServed = append(p.notServed, u.err.Error())
		} else {
			p.plan.Retry = true
		}
	}
	r := &renderer{
		compiled: p.in.Compiled, upstream: set.Spec.Upstream, upstreamVar: variable(p.in.Upstream),
		repositories: make(map[string]*Repository, len(p.in.Repositories)), repositoryVars: map[string]map[string]any{},
	}
	for i := range p.in.Repositories {
		r.repositories[p.in.Repositories[i].Name] = &p.in.Repositories[i]
	}
	memory := cmp.Or(p.in.Rendered, &Rendered{})
	memory.begin(p.in.Compiled, p.in.Upstream)
	defer memory.end()
	p.targets = len(targets)
	twice := map[Package][]*Target{}
	for i := range targets {
		t := &targets[i]
		rendering := r.rendered(t, memory)
		if rendering.err != nil {
			p.targetFailed(t, rendering.err)
		}
		spec := rendering.spec
		if spec == nil {
			continue
		}
		if len(rendering.wrong) > 0 {
			p.targetFailed(t, fmt.Errorf("the PackageVariant would be invalid: %s", join(rendering.wrong)))
			continue
		}
		d := &desired{t, Package{spec.Downstream.Repo, spec.Downstream.Package}, rendering}
		if first := p.wanted[d.pkg]; first != nil {
			if twice[d.pkg] == nil {
				twice[d.pkg] = []*Target{first.target}
			}
			twice[d.pkg] = append(twice[d.pkg], t)
			continue
		}
		p.wanted[d.pkg] = d
	}
	for _, pkg := range sortedPackages(twice) {
		all := twice[pkg]
		p.targetFailed(all[0], fmt.Errorf("package %s is also asked for by %s%s; each package can have one target only", pkg, all[1], andMore(len(all)-2)))
		p.wanted[pkg].rendering = nil // what is there stays as it is
	}
}

// write plans what is created and updated, and returns the PackageVariants that the set asks for.
func (p *planning) write() map[string]bool {
	keep := map[string]bool{}
	for _, pkg := range sortedPackages(p.wanted) {
		d := p.wanted[pkg]
		for _, pv := range p.own[pkg] {
			keep[pv.Name] = true
		}
		if d.rendering == nil {
			continue
		}
		if text := p.in.Refused[pkg]; text != "" {
			p.targetFailed(d.target, errText(text)) // it is written again all the same
		}
		if own := p.own[pkg]; len(own) > 0 {
			p.update(own[0], d)
			for _, pv := range own[1:] { // made by somebody with the label of the set
				delete(keep, pv.Name)
			}
			continue
		}
		if others := p.others[pkg]; len(others) > 0 {
			pv := slices.MinFunc(others, byName)
			if len(others) == 1 && metav1.GetControllerOfNoCopy(pv) == nil && pv.DeletionTimestamp == nil && pv.Name == firstName(p.in.Set.Name, pkg) {
				p.update(pv, d) // it is what the set would make
				keep[pv.Name] = true
				continue
			}
			p.plan.Blocked = append(p.plan.Blocked, pkg)
			p.targetFailed(d.target, fmt.Errorf("package %s is kept by %s already; delete that, or choose another package", pkg, whose(pv)))
			continue
		}
		name := Name(p.in.Set.Name, pkg, func(name string) bool { return !p.names[name] })
		if name == "" {
			p.targetFailed(d.target, fmt.Errorf("package %s: all names for its PackageVariant are taken", pkg))
			continue
		}
		p.names[name] = true
		keep[name] = true
		p.plan.Create = append(p.plan.Create, p.fresh(name, d.rendering.spec))
	}
	return keep
}

// firstName is the name that a PackageVariant would have if all were free.
func firstName(set string, pkg Package) string {
	return Name(set, pkg, func(string) bool { return true })
}

func whose(pv *configv1alpha1.PackageVariant) string {
	if controller := metav1.GetControllerOfNoCopy(pv); controller != nil {
		return fmt.Sprintf("PackageVariant %s of %s %s", pv.Name, controller.Kind, controller.Name)
	}
	return fmt.Sprintf("PackageVariant %s", pv.Name)
}

func (p *planning) fresh(name string, spec *configv1alpha1.PackageVariantSpec) *configv1alpha1.PackageVariant {
	pv := &configv1alpha1.PackageVariant{ObjectMeta: metav1.ObjectMeta{Namespace: p.in.Set.Namespace, Name: name}, Spec: *spec}
	pv.APIVersion, pv.Kind = configv1alpha1.GroupVersion.String(), "PackageVariant"
	p.mark(&pv.ObjectMeta)
	pv.Finalizers = []string{configv1alpha1.PackageVariantFinalizer}
	return pv
}

// update plans a PackageVariant that is there. Its metadata stay the user's, but for what makes it one of the set.
func (p *planning) update(pv *configv1alpha1.PackageVariant, d *desired) {
	if pv.DeletionTimestamp != nil {
		p.targetFailed(d.target, fmt.Errorf("PackageVariant %s is being deleted; another follows when it is gone", pv.Name))
		return
	}
	marked := metav1.IsControlledBy(pv, p.in.Set) && pv.Labels[configv1alpha1.LabelPackageVariantSet] == string(p.in.Set.UID)
	if marked && d.rendering.has(pv, apiequality.Semantic.DeepEqual) {
		return
	}
	pv = pv.DeepCopy()
	pv.Spec = *d.rendering.spec
	p.mark(&pv.ObjectMeta)
	p.plan.Update = append(p.plan.Update, pv)
}

// mark makes a PackageVariant one of the set.
func (p *planning) mark(meta *metav1.ObjectMeta) {
	set := p.in.Set
	if meta.Labels == nil {
		meta.Labels = map[string]string{}
	}
	meta.Labels[configv1alpha1.LabelPackageVariantSet] = string(set.UID)
	if metav1.IsControlledBy(meta, set) {
		return
	}
	meta.OwnerReferences = append(meta.OwnerReferences, *metav1.NewControllerRef(set, configv1alpha2.GroupVersion.WithKind("PackageVariantSet")))
}

// targetFailed notes that nothing new is done for a target.
func (p *planning) targetFailed(t *Target, err error) {
	p.failed = true
	p.problem(t.String(), err)
}

func (p *planning) problem(target string, err error) {
	p.problems = append(p.problems, configv1alpha2.Problem{Target: limited(target, 1024), Message: limited(err.Error(), 2048)})
}

// Deletions are PackageVariants that a set does not ask for any more.
type Deletions struct {
	// Variants are their names with their UIDs, sorted.
	Variants []string
	// Token identifies them.
	Token string
}

// delete plans deletions.
func (p *planning) delete(keep map[string]bool) {
	limits, mistakes := limitsOf(p.in.Set)
	for _, mistake := range mistakes {
		p.problem("metadata.annotations", errText(mistake))
	}
	detached := map[string]bool{}
	for i := range p.in.Repositories {
		if p.in.Repositories[i].Detached {
			detached[p.in.Repositories[i].Name] = true
		}
	}
	var gone []*configv1alpha1.PackageVariant
	there := 0
	for _, list := range p.own {
		for _, pv := range list {
			if pv.DeletionTimestamp != nil {
				continue
			}
			there++
			if !keep[pv.Name] && !detached[packageOf(pv).Repository] {
				gone = append(gone, pv)
			}
		}
	}
	if p.failed || len(gone) == 0 {
		p.plan.Spent = limits.Release != "" && !p.failed
		return
	}
	slices.SortFunc(gone, byName)
	d := deletionsOf(gone)
	// What is held stays so while targets come back one by one: those that are missing yet are not most of them at the end.
	already := !limits.Off && has(p.in.Set.Status.Conditions, configv1alpha1.PackageVariantSetConditionHeld, metav1.ConditionTrue)
	if already || d.held(&limits, there, len(p.wanted)) {
		if !d.releasedBy(limits.Release, p.in.Begun) {
			p.hold(d, gone, there)
			return
		}
		p.plan.Released = d
		if p.in.Begun != nil && limits.Release == p.in.Begun.Token {
			p.plan.Released = p.in.Begun
		}
	} else {
		p.plan.Spent = limits.Release != ""
	}
	p.plan.Delete = gone
}

// conclude says how the set does.
func (p *planning) conclude() {
	if !p.failed {
		p.condition(configv1alpha1.ConditionStalled, metav1.ConditionFalse, configv1alpha1.ReasonValid, "all validation checks passed")
		if p.find(configv1alpha1.PackageVariantSetConditionHeld) != nil {
			p.condition(configv1alpha1.ConditionReady, metav1.ConditionFalse, configv1alpha1.ReasonHeld, "deletions are held; see condition Held")
			return
		}
		p.condition(configv1alpha1.ConditionReady, metav1.ConditionTrue, configv1alpha1.ReasonReconciled, "package variants successfully reconciled")
		return
	}
	if len(p.notServed) > 0 {
		p.stalled(configv1alpha1.ReasonNoMatchingTargets, join(p.notServed)+"; nothing is deleted before it is")
		return
	}
	const many = 3
	var shown []string
	for i := range p.problems[:min(many, len(p.problems))] {
		shown = append(shown, p.problems[i].Target+": "+p.problems[i].Message)
	}
	text := join(shown)
	if more := len(p.problems) - many; more > 0 {
		text += fmt.Sprintf("; … and %d more", more)
	}
	p.stalled(configv1alpha1.ReasonUnexpectedError, text+". Nothing is deleted while a target fails")
}

// stalled says that a user has to do something.
func (p *planning) stalled(reason, message string) {
	p.condition(configv1alpha1.ConditionStalled, metav1.ConditionTrue, reason, message)
	p.condition(configv1alpha1.ConditionReady, metav1.ConditionFalse, reason, message)
}

func (p *planning) condition(kind string, status metav1.ConditionStatus, reason, message string) {
	p.plan.Status.Conditions = append(p.plan.Status.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: limited(message, maxMessage), ObservedGeneration: p.in.Set.Generation,
	})
}

func (p *planning) find(kind string) *metav1.Condition {
	for i := range p.plan.Status.Conditions {
		if c := &p.plan.Status.Conditions[i]; c.Type == kind {
			return c
		}
	}
	return nil
}

// maxProblems is how many problems a status lists.
const maxProblems = 10

// count fills the rest of the status: how far the PackageVariants are.
func (p *planning) count() {
	s := &p.plan.Status
	slices.SortFunc(s.Conditions, func(a, b metav1.Condition) int { return cmp.Compare(a.Type, b.Type) })
	s.ObservedGeneration = p.in.Set.Generation
	known := len(p.in.Invalid) == 0 && p.in.UpstreamErr == nil
	s.Targets = int32(p.targets)
	if !known { // what was asked for when it was known
		s.Targets = int32(p.ownCount)
	}
	for pkg, list := range p.own {
		if known && p.wanted[pkg] == nil && !p.failed {
			continue
		}
		st := &list[0].Status
		switch st.State {
		case configv1alpha1.VariantDraft:
			s.Draft++
		case configv1alpha1.VariantProposed:
			s.Proposed++
		case configv1alpha1.VariantPublished:
			if !has(st.Conditions, configv1alpha1.ConditionReady, metav1.ConditionFalse) { // else it is, but not as it should be
				s.Published++
			}
		case configv1alpha1.VariantDeletionProposed:
		}
		if has(st.Conditions, configv1alpha1.PackageVariantConditionApplied, metav1.ConditionTrue) {
			s.Applied++
			if has(st.Conditions, configv1alpha1.PackageVariantConditionHealthy, metav1.ConditionTrue) {
				s.Healthy++
			}
		}
		p.variantProblem(pkg, list[0])
	}
	slices.SortStableFunc(p.problems, func(a, b configv1alpha2.Problem) int {
		return cmp.Or(cmp.Compare(a.Target, b.Target), cmp.Compare(a.Message, b.Message))
	})
	s.Problems = slices.Clone(p.problems[:min(maxProblems, len(p.problems))])
	s.MoreProblems = int32(len(p.problems) - len(s.Problems))
}

// variantProblem tells what a PackageVariant complains of.
func (p *planning) variantProblem(pkg Package, pv *configv1alpha1.PackageVariant) {
	for _, kind := range []string{configv1alpha1.ConditionStalled, configv1alpha1.ConditionReady, configv1alpha1.PackageVariantConditionHealthy} {
		for i := range pv.Status.Conditions {
			c := &pv.Status.Conditions[i]
			if c.Type != kind || c.Status == metav1.ConditionUnknown || (c.Status == metav1.ConditionTrue) != (kind == configv1alpha1.ConditionStalled) {
				continue
			}
			p.problem("PackageVariant "+pv.Name, fmt.Errorf("%s: %s: %s", pkg, c.Reason, c.Message))
			return
		}
	}
}

func has(conditions []metav1.Condition, kind string, status metav1.ConditionStatus) bool {
	return slices.ContainsFunc(conditions, func(c metav1.Condition) bool { return c.Type == kind && c.Status == status })
}

func sortedPackages[T any](m map[Package]T) []Package {
	return slices.SortedFunc(maps.Keys(m), func(a, b Package) int {
		return cmp.Or(cmp.Compare(a.Repository, b.Repository), cmp.Compare(a.Name, b.Name))
	})
}
