package placement

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/customize"
	"github.com/starlinghq/starling/pkg/core/customtransform"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/options"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/render"
	"github.com/starlinghq/starling/pkg/dynamicinformer"
)

// again is why a Binding must be gathered again without an event.
type again struct {
	// retry says that some objects cannot be read.
	retry bool
	// recheck says that some objects are missing for less than the grace.
	recheck bool
	// guessed says that the WDS does not serve kinds of packages: it may serve them later.
	guessed bool
	// late says that it is not known yet what some objects that leave asked for last.
	late bool
}

// guessedFor is how long the guess of a kind is used before the discovery of the WDS is read again.
const guessedFor = time.Minute

// gather returns the Placement of a Binding, given the one before, which may be nil. It reads the
// objects that changed.
func (g *Gatherer) gather(ctx context.Context, binding *controlv1alpha1.Binding, before *Placement) (p *Placement, more again) {
	entries := entriesOf(binding)
	p = &Placement{
		Name: binding.Name, UID: binding.UID, Generation: binding.Generation, Annotations: AnnotationsOf(binding),
		Destinations: make(map[string]struct{}, len(binding.Spec.Destinations)),
		Objects:      make(map[objref.Ref]plan.Object, len(entries)),
		Templates:    map[objref.Ref]*customize.Template{},
		Source:       SourceOf(binding),
		policy:       policyOf(binding),
		Problems:     listedTwice(binding),
		requested:    map[objref.Ref]options.Requested{},
	}
	for _, d := range binding.Spec.Destinations {
		p.Destinations[d.ClusterID] = struct{}{}
	}
	// What scales an object may be in another Binding of the policy.
	scalers := autoscalersIn(g.index.Beside(p.policy, p.Name))
	read := slices.Concat(entries, scalers)
	p.need(read)
	versions := g.watches.add(p)
	// The objects are listed before they are read: a change during the read must find the Binding.
	g.list(binding.Name, entries)

	findings := g.findAll(ctx, read, g.recipes(p, read, versions))
	beside := findings[len(entries):]
	findings = findings[:len(entries):len(entries)]
	if clauses := binding.Spec.Workload.Packages; len(clauses) > 0 {
		var objects []entry
		var found []finding
		objects, found, more = g.unpack(ctx, clauses, p, before, entries)
		g.list(binding.Name, objects)
		entries, findings = slices.Concat(entries, objects), slices.Concat(findings, found)
	} else {
		g.packages.use(binding.Name, nil)
	}
	for i, e := range entries {
		p.Objects[e.ref] = plan.Object{} // until it is known how it is carried
		f := &findings[i]
		if err := render.Withheld(e.ref, g.config.ManagementNamespaces); err != nil { // here all objects pass
			*f = finding{err: err}
		}
		if m := f.manifest; m != nil {
			if m.Template != nil {
				p.Templates[e.ref] = m.Template
			}
			if m.Requested != (options.Requested{}) {
				p.requested[e.ref] = m.Requested
			}
		} else if before != nil && before.UID == p.UID && before.requested[e.ref] != (options.Requested{}) {
			p.requested[e.ref] = before.requested[e.ref] // as it was delivered, and stays
		}
		if f.err != nil {
			p.Problems = append(p.Problems, e.ref.String()+": "+Clip(f.err.Error()))
		}
		more.retry = more.retry || f.retry
		more.recheck = more.recheck || f.recheck
	}
	p.leaving, more.late = g.leavingFrom(ctx, p, before)
	g.keep(p)
	own := listed{entries, findings}
	p.autoscalers = p.Annotations.scope(nil, own)
	objects, waiting := carry(own, listed{scalers, beside}, p.kept, &p.Annotations)
	p.Problems = append(p.Problems, waiting...)
	for i := range objects {
		p.Objects[objects[i].Ref] = objects[i]
	}
	slices.Sort(p.Problems)
	p.Desired = plan.NewDesired(objects, g.config.Limits)
	p.Held = g.heldOf(binding)
	p.Decided = g.config.Clock.Now()
	p.settled = more == again{} && !slices.ContainsFunc(objects, func(o plan.Object) bool { return !o.Known })
	return p, more
}

// keep finds out what must stay in the clusters because objects do that the Binding lists or that
// leave it, or that the other Bindings of its policy have.
func (g *Gatherer) keep(p *Placement) {
	p.keeps = render.Kept{}
	for ref := range p.Objects {
		p.keeps.Add(ref, p.requested[ref], p.Annotations.options)
	}
	for ref, requested := range p.leaving {
		p.keeps.Add(ref, requested, p.Annotations.options)
	}
	p.kept = p.keeps
	for _, b := range g.index.Beside(p.policy, p.Name) {
		if other := g.index.Get(b.Name); other != nil && len(other.keeps) > 0 {
			p.kept = maps.Clone(p.kept)
			maps.Copy(p.kept, other.keeps)
		}
	}
}

// leavingFrom returns what the objects asked for last that a Binding does not list any more, and
// that some work may have; before is its Placement before, nil if there was none. It reports
// whether a watch is late: objects may have asked for something just before they left.
func (g *Gatherer) leavingFrom(ctx context.Context, p, before *Placement) (leaving map[objref.Ref]options.Requested, late bool) {
	if before == nil || before.UID != p.UID {
		return nil, false
	}
	left := func(ref objref.Ref) bool { _, stays := p.Objects[ref]; return !stays }
	var now, earlier []objref.Ref
	for ref := range before.Objects {
		if left(ref) {
			now = append(now, ref)
		}
	}
	for ref := range before.leaving {
		if left(ref) {
			earlier = append(earlier, ref)
		}
	}
	if len(now)+len(earlier) == 0 {
		return nil, false // mostly: what is delivered costs all of it
	}
	delivered, complete := g.config.Mailboxes.Delivered(p.UID)
	isGone := func(ref objref.Ref) bool { _, has := delivered[ref]; return complete && !has }
	now, earlier = slices.DeleteFunc(now, isGone), slices.DeleteFunc(earlier, isGone)

	late = g.objects.late(ctx, now, before.watched)
	leaving = make(map[objref.Ref]options.Requested, len(now)+len(earlier))
	for _, ref := range earlier {
		leaving[ref] = before.leaving[ref]
	}
	for _, ref := range now {
		if before.Objects[ref].Known {
			leaving[ref] = before.requested[ref]
		}
	}
	for _, ref := range slices.Concat(earlier, now) {
		if requested, known := g.objects.lastRequest(ref); known {
			leaving[ref] = requested
		}
	}
	return leaving, late
}

// need records which resources the entries have.
func (p *Placement) need(entries []entry) {
	p.watched = map[schema.GroupResource]dynamicinformer.Resource{}
	p.resources = map[schema.GroupResource]struct{}{}
	for _, e := range entries {
		gr := e.ref.GroupResource()
		p.watched[gr] = dynamicinformer.Resource{GroupVersionResource: gr.WithVersion(e.version), Namespaced: e.namespaced}
		p.resources[gr] = struct{}{}
	}
}

// recipes returns how each of the objects that a Binding lists itself is read, and adds to p what
// keeps objects from being read.
func (g *Gatherer) recipes(p *Placement, entries []entry, versions map[schema.GroupResource]string) []recipe {
	instructionsFor := g.transforms.instructionsFor(p.Name)
	removals := make(map[schema.GroupResource]*customtransform.Instructions, len(p.watched))
	for gr := range p.watched {
		removals[gr] = instructionsFor(gr)
		if len(removals[gr].Unknown) > 0 {
			p.Problems = append(p.Problems, unknownInstructions(gr, removals[gr]))
		}
	}
	recipes := make([]recipe, len(entries))
	for i, e := range entries {
		gr := e.ref.GroupResource()
		recipes[i] = recipe{version: versions[gr], removal: removals[gr]}
	}
	return recipes
}

// findAll returns the content of all entries. Those that must be read are read side by side, or
// with a list if they are many.
func (g *Gatherer) findAll(ctx context.Context, entries []entry, recipes []recipe) []finding {
	findings := make([]finding, len(entries))
	var unknown []int
	unread := batches{}
	for i, e := range entries {
		how := recipes[i]
		if len(how.removal.Unknown) > 0 {
			continue // it is not known what to deliver of it
		}
		if f, ok := g.objects.cached(e.ref, how); ok {
			findings[i] = f
			continue
		}
		unknown = append(unknown, i)
		if _, gone := g.objects.seen(e.ref); !gone {
			unread.add(e.ref, how)
		}
	}
	g.objects.readTogether(ctx, unread)
	now := g.config.Clock.Now()
	slots := make(chan struct{}, atOnce)
	var reading sync.WaitGroup
	for _, i := range unknown {
		slots <- struct{}{}
		reading.Go(func() {
			findings[i] = g.objects.find(ctx, entries[i].ref, recipes[i], now)
			<-slots
		})
	}
	reading.Wait()
	return findings
}

// packageName returns how problems name a package: with the number of its revision or, if that was
// imported from a tag and has none, with the name of the PackageRevision.
func packageName(clause *controlv1alpha1.PackageClause) string {
	if clause.Revision > 0 {
		return fmt.Sprintf("package %s/%s/%s v%d", clause.Namespace, clause.Repository, clause.Package, clause.Revision)
	}
	return fmt.Sprintf("package %s/%s/%s, revision %s", clause.Namespace, clause.Repository, clause.Package, clause.Name)
}

// unpack returns the objects of the packages that a Binding lists, except those that are entries of
// the Binding itself, and adds to p what is wrong with them. Where the content of a package is not
// known, what clusters hold of it stays.
func (g *Gatherer) unpack(
	ctx context.Context, clauses []controlv1alpha1.PackageClause, p, before *Placement, entries []entry,
) (objects []entry, findings []finding, more again) {
	g.packages.use(p.Name, clauses)
	listed := make(map[objref.Ref]string, len(entries))
	for i := range entries {
		listed[entries[i].ref] = "the Binding itself"
	}
	add := func(ref objref.Ref, in string, f finding) {
		listed[ref] = in
		objects, findings = append(objects, entry{ref: ref, namespaced: ref.Namespace != ""}), append(findings, f)
	}
	instructions := g.transforms.instructionsFor(p.Name)
	unknown := false
	for i := range clauses {
		clause := &clauses[i]
		name := packageName(clause)
		found, err := g.packages.find(ctx, clause, instructions)
		if err != nil {
			p.Problems = append(p.Problems, name+": "+Clip(err.Error())+"; what was delivered of it stays")
			unknown, more.retry = true, more.retry || !errors.Is(err, errNoPackages)
			continue
		}
		more.guessed = more.guessed || len(found.guessed) > 0
		unknown = unknown || found.incomplete
		for gr, digest := range found.removed {
			p.resources[gr] = struct{}{}
			if digest == unknownDigest {
				p.Problems = append(p.Problems, unknownInstructions(gr, instructions(gr)))
			}
		}
		for _, problem := range found.problems {
			p.Problems = append(p.Problems, name+": "+Clip(problem))
		}
		p.Refused += found.refused
		for j := range found.objects {
			o := &found.objects[j]
			if in, twice := listed[o.ref]; twice {
				p.Problems = append(p.Problems, fmt.Sprintf("%s: %s is also in %s, which is delivered", name, o.ref, in))
				p.Refused++
				continue
			}
			f := o.finding
			if f.err != nil {
				f.err = fmt.Errorf("%s: %w", name, f.err)
			}
			add(o.ref, name, f)
		}
		for _, ref := range found.unsure {
			if _, twice := listed[ref]; !twice {
				add(ref, name, finding{})
			}
		}
	}
	if p.Incomplete = unknown; unknown {
		for ref := range g.delivered(p, before) {
			if _, ok := listed[ref]; !ok {
				add(ref, "", finding{})
			}
		}
	}
	return objects, findings, more
}

// delivered returns the objects that a Binding delivered before, as far as is known. If that is not
// all, p becomes provisional.
func (g *Gatherer) delivered(p, before *Placement) map[objref.Ref]struct{} {
	refs, complete := g.config.Mailboxes.Delivered(p.UID)
	p.Provisional = !complete
	if before != nil && before.UID == p.UID {
		for ref := range before.Objects {
			refs[ref] = struct{}{}
		}
	}
	return refs
}
