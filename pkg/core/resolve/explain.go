package resolve

import (
	"fmt"
	"slices"
	"strings"

	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
)

// explain turns the end of a search into a conflict.
func (s *search) explain(end *dead) *Conflict {
	s.reset()
	var decided []*node
	for n := end.after; n != nil; n = n.parent {
		decided = append(decided, n)
	}
	for _, n := range slices.Backward(decided) {
		s.decide(n.variable, n.candidate)
	}
	e := newExplainer(s.model)
	c := e.conflict(end.variable)
	if c.Reason == pkgv1alpha1.ReasonMissingDependency {
		s.addMissing(c)
	}
	return c
}

// addMissing continues after the first missing dependency and adds the others to the conflict.
func (s *search) addMissing(c *Conflict) {
	messages := []string{c.Message}
	s.reset()
	s.ahead = true
	s.gather = func(v *variable) {
		other := newExplainer(s.model).conflict(v)
		if other.Reason != pkgv1alpha1.ReasonMissingDependency || slices.Contains(messages, other.Message) {
			return
		}
		messages = append(messages, other.Message)
		c.addSteps(other.Steps...)
		c.Hint = "" // it is about one of them only
	}
	if _, err := s.run(); err != nil {
		return // the first one is enough
	}
	c.Message = capped(messages)
}

func (c *Conflict) addSteps(steps ...Step) {
	for _, step := range steps {
		if !slices.Contains(c.Steps, step) {
			c.Steps = append(c.Steps, step)
		}
	}
}

// explainer describes why no candidate of a variable fits what is decided.
type explainer struct {
	*model
	names *names
}

func newExplainer(m *model) *explainer {
	roots := map[string]*Root{}
	for _, v := range m.all {
		roots[v.source] = v.root
	}
	e := &explainer{model: m, names: newNames(roots)}
	for _, v := range m.all {
		e.names.add(v.source)
	}
	return e
}

// attempt is a candidate that does not fit.
type attempt struct {
	candidate *candidate
	obstacle
}

// attempts returns all candidates.
func (e *explainer) attempts(v *variable) []attempt {
	var tried []attempt
	var c cursor
	for {
		next := c.advance(e.model, v, false)
		if next.candidate == nil {
			return tried
		}
		tried = append(tried, attempt{candidate: next.candidate, obstacle: e.check(v, next.candidate)})
	}
}

func (e *explainer) conflict(v *variable) *Conflict {
	tried := e.attempts(v)
	if c := e.missing(v); c != nil {
		return c
	}
	// Of the candidates that all dependents accept, one whose package is usable tells more.
	var main *attempt
	for i := range tried {
		a := &tried[i]
		if a.demand != nil || a.need != nil {
			continue
		}
		if main == nil || main.unusable != nil && a.unusable == nil {
			main = a
		}
	}
	switch {
	case main == nil:
		return e.disagreement(v, tried)
	case main.unusable != nil:
		return e.unusable(v, main)
	case main.cycle != nil:
		return e.circular(v, main)
	default:
		return e.unmet(v, main)
	}
}

// missing is about demands that no version of the repository meets.
func (e *explainer) missing(v *variable) *Conflict {
	if !v.open {
		return nil
	}
	c := &Conflict{Reason: pkgv1alpha1.ReasonMissingDependency}
	var messages []string
	for i := range v.demands {
		d := &v.demands[i]
		if d.optional() || d.constraint == nil || e.exists(v, d.constraint) {
			continue
		}
		messages = append(messages, e.notFound(d))
		c.addSteps(e.chain(d)...)
	}
	if len(messages) == 0 {
		return nil
	}
	slices.Sort(messages)
	c.Message = capped(slices.Compact(messages))
	c.Hint = e.repository(v)
	return c
}

func (e *explainer) notFound(d *demand) string {
	return fmt.Sprintf("Package %s requires %s %s, but no compatible version found",
		e.names.of(d.by.variable.source), e.names.of(d.to.source), d.constraint.text)
}

// exists reports whether some version meets a constraint, or may do so. Like all explanations, it
// uses only what the search looked at, and not what happens to be known beside it.
func (*explainer) exists(v *variable, c *constraint) bool {
	for _, p := range v.pinned {
		if !violated(c, p) {
			return true
		}
	}
	if c.digest != "" {
		d := v.byDigest[c.digest]
		return d == nil || !d.loaded || d.release.found
	}
	r := v.repository
	return r == nil || slices.ContainsFunc(r.tags, func(t tag) bool { return c.fits(t.version) })
}

// repository describes the versions of a repository.
func (*explainer) repository(v *variable) string {
	r := v.repository
	switch {
	case r == nil:
		return ""
	case !r.found:
		return fmt.Sprintf("Repository %s was not found", v.source)
	case len(r.tags) == 0:
		return fmt.Sprintf("Repository %s has no versions", v.source)
	default:
		return fmt.Sprintf("The highest version in %s is %s", v.source, r.tags[len(r.tags)-1].name)
	}
}

// unusable is about a package that fits nowhere.
func (e *explainer) unusable(v *variable, a *attempt) *Conflict {
	c := &Conflict{Reason: a.unusable.reason}
	c.Message = fmt.Sprintf("package %s %s %s", e.names.of(v.source), a.candidate.short(), a.unusable.text)
	for i := range v.demands {
		if d := &v.demands[i]; !d.optional() {
			c.addSteps(e.chain(d)...)
			if a.unusable.notFound {
				c.Hint = strings.ToUpper(c.Message[:1]) + c.Message[1:]
				c.Message = e.notFound(d)
			}
			break
		}
	}
	return c
}

// circular is about a package that requires itself through others.
func (e *explainer) circular(v *variable, a *attempt) *Conflict {
	c := &Conflict{Reason: pkgv1alpha1.ReasonCircularDependency}
	sources := make([]string, 0, len(a.cycle))
	for i, on := range a.cycle {
		sources = append(sources, on.source)
		from, to := a.candidate, v
		if i > 0 {
			from = on.node.candidate
		}
		if i+1 < len(a.cycle) {
			to = a.cycle[i+1]
		}
		c.addSteps(e.step(on, from, edgeTo(from, to)))
	}
	texts := make([]string, 0, len(sources)+1)
	for _, source := range rotate(sources) {
		texts = append(texts, e.names.of(source))
	}
	c.Message = "circular dependency: " + strings.Join(texts, " -> ")
	return c
}

// unmet is about a candidate that requires another version of a decided package.
func (e *explainer) unmet(v *variable, a *attempt) *Conflict {
	c := &Conflict{Reason: pkgv1alpha1.ReasonVersionConflict}
	last := e.step(v, a.candidate, a.edge)
	to := a.edge.to
	if to.removed {
		c.Message = fmt.Sprintf("package %s requires %s, which is being removed", last.Package, last.Requires)
		c.addSteps(e.chainTo(v, last)...)
		return c
	}
	c.addSteps(e.chainTo(v, last)...)
	for i := range to.demands {
		if d := &to.demands[i]; !d.optional() && d.constraint != nil && to.movable() {
			c.addSteps(e.chain(d)...)
		}
	}
	at := to.node.candidate
	if len(to.demands) == 0 || !to.movable() {
		c.addSteps(e.step(to, at, nil))
	}
	c.Message = fmt.Sprintf("package %s %s does not fit: %s requires %s",
		e.names.of(to.source), at.short(), last.Package, a.edge.constraint.text)
	c.Hint = e.hint(to, c, a.edge.constraint.text)
	return c
}

// disagreement is about demands of which no version meets all.
func (e *explainer) disagreement(v *variable, tried []attempt) *Conflict {
	c := &Conflict{Reason: pkgv1alpha1.ReasonVersionConflict}
	var culprits []*demand
	for i := range tried {
		for _, d := range []*demand{tried[i].demand, tried[i].other} {
			if d != nil && !slices.Contains(culprits, d) {
				culprits = append(culprits, d)
			}
		}
	}
	if !v.base && !slices.ContainsFunc(culprits, func(d *demand) bool { return !d.optional() }) {
		// Without the others, nothing would require the package.
		for i := range v.demands {
			if d := &v.demands[i]; !d.optional() {
				c.addSteps(e.chain(d)...)
				break
			}
		}
	}
	slices.SortStableFunc(culprits, func(a, b *demand) int { return a.by.level - b.by.level })
	var wishes, ranges []string
	for _, d := range culprits {
		c.addSteps(e.chain(d)...)
		wishes = append(wishes, fmt.Sprintf("%s requires %s", e.names.of(d.by.variable.source), d.constraint.text))
		if !slices.Contains(ranges, d.constraint.text) {
			ranges = append(ranges, d.constraint.text)
		}
	}
	name := e.names.of(v.source)
	at := v.present()
	switch {
	case at == nil || v.open && len(culprits) > 1:
		c.Message = fmt.Sprintf("no version of %s fits all packages that require it", name)
	default:
		c.Message = fmt.Sprintf("package %s %s does not fit: %s", name, at.short(), capped(wishes))
		c.addSteps(e.step(v, at, nil))
	}
	c.Hint = e.hint(v, c, strings.Join(ranges, " and "))
	return c
}

// present returns the version that is installed or wanted.
func (v *variable) present() *candidate {
	if len(v.pinned) == 0 {
		return nil
	}
	return v.pinned[0]
}

// hint returns what may resolve a conflict about the version of v.
func (e *explainer) hint(v *variable, c *Conflict, wish string) string {
	for _, step := range c.Steps {
		if by := e.variables[step.Source]; step.State == Installed && step.Requires != "" && e.orphan(by) {
			return fmt.Sprintf("No package requires %s any more: delete it, if it is not used", step.Package)
		}
	}
	at := v.present()
	switch {
	case v.root != nil && !v.open:
		return fmt.Sprintf("Set %s to %s", v.root.object(), wish)
	case at != nil && at.semantic == nil:
		return fmt.Sprintf("The version of %s %s is not known: only its digest, or a tag that is no version", e.names.of(v.source), at.short())
	case at != nil && !e.problem.AllowDowngrade && e.lower(v):
		return fmt.Sprintf("A lower version of %s fits: allow downgrades, or change what requires it", e.names.of(v.source))
	}
	var objects []string
	for _, step := range c.Steps {
		if root := e.variables[step.Source].root; root != nil && !slices.Contains(objects, root.object()) {
			objects = append(objects, root.object())
		}
	}
	if len(objects) == 0 {
		return ""
	}
	return "Change the version of " + strings.Join(objects, " or ")
}

// lower reports whether a version below the installed one meets all demands.
func (*explainer) lower(v *variable) bool {
	r := v.repository
	return r != nil && slices.ContainsFunc(r.tags, func(t tag) bool {
		return t.version.LessThan(v.present().semantic) && !slices.ContainsFunc(v.demands, func(d demand) bool {
			return d.constraint != nil && (d.constraint.digest != "" || !d.constraint.fits(t.version))
		})
	})
}

// orphan reports whether no root requires a package, directly or indirectly.
func (e *explainer) orphan(v *variable) bool {
	path := e.path(v)
	return path[0].root == nil
}

// path returns the shortest way from a root down to v. If there is none, it is only v.
func (e *explainer) path(v *variable) []*variable {
	parents := map[*variable]*variable{v: nil}
	for todo := []*variable{v}; len(todo) > 0; todo = todo[1:] {
		at := todo[0]
		if at.root != nil {
			var path []*variable
			for ; at != nil; at = parents[at] {
				path = append(path, at)
			}
			return path
		}
		for _, d := range at.demands {
			if _, seen := parents[d.by.variable]; !seen && !d.optional() {
				parents[d.by.variable] = at
				todo = append(todo, d.by.variable)
			}
		}
	}
	return []*variable{v}
}

// chain returns the requirements that lead from a root to a demand, and the demand.
func (e *explainer) chain(d *demand) []Step {
	return e.chainTo(d.by.variable, e.step(d.by.variable, d.by.candidate, d.edge))
}

// chainTo returns the requirements that lead from a root to v, and a last step.
func (e *explainer) chainTo(v *variable, last Step) []Step {
	path := e.path(v)
	steps := make([]Step, 0, len(path))
	for i, at := range path[:len(path)-1] {
		from := at.node.candidate
		steps = append(steps, e.step(at, from, edgeTo(from, path[i+1])))
	}
	return append(steps, last)
}

func (e *explainer) step(v *variable, c *candidate, to *edge) Step {
	step := Step{Package: e.names.of(v.source), Source: v.source, Version: c.short()}
	switch {
	case c.kept:
		step.State = Installed
	case c.wanted:
		step.State = Wanted
	}
	if to != nil {
		step.Requires = e.names.of(to.Source)
		step.RequiredSource = to.Source
		step.Constraint = to.Constraint
	}
	return step
}

func edgeTo(c *candidate, to *variable) *edge {
	i := slices.IndexFunc(c.edges, func(e edge) bool { return e.to == to })
	return &c.edges[i]
}
