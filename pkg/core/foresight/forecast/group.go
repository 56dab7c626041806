package forecast

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/render"
	"github.com/starlinghq/starling/pkg/core/text"
	"github.com/starlinghq/starling/pkg/core/transform"
)

// outcome is what happens to an object in a cluster, before it is described.
type outcome struct {
	verb Verb
	ref  objref.Ref
	// had and gets are what the cluster has and what it gets; zero for nothing, or if not read.
	// options are how it applies that.
	had, gets transform.Object
	options   plan.Options
	why       string
	conflict  bool
	// failed: something is wrong.
	failed bool
}

// keep makes the cluster keep what it has.
func (o *outcome) keep(why string, failed bool) { o.verb, o.why, o.failed = Keep, why, failed }

// content returns the hash of what works have of the object in the end, to which that of other
// sources is compared: its content without ignored fields.
func (o *outcome) content() transform.Hash {
	object, err := plan.Object{Object: o.gets, Known: true, Options: o.options}.Ignoring()
	if err != nil {
		return o.gets.Content() // it stays as it is
	}
	return object.Content()
}

// groups returns the Groups of the clusters of a pair, none if nothing changes there.
func (c *Comparison) groups(p *pair) []Group {
	var alike []outcome // in all clusters
	var varying []objref.Ref
	add := func(refs []objref.Ref, of func(objref.Ref, string) (outcome, bool)) {
		for _, ref := range refs {
			if c.varies(ref) {
				varying = append(varying, ref)
			} else if o, changes := of(ref, ""); changes {
				alike = append(alike, o)
			}
		}
	}
	add(p.created, func(ref objref.Ref, cluster string) (outcome, bool) { return c.created(p, ref, cluster), true })
	add(p.both, func(ref objref.Ref, cluster string) (outcome, bool) { return c.stays(p, ref, cluster) })
	add(p.lost, func(ref objref.Ref, cluster string) (outcome, bool) { return c.lost(p, ref, cluster), true })
	byKey := map[string]*Group{}
	var groups []*Group
	for _, cluster := range p.clusters {
		own, key := c.own(p, cluster, alike, varying)
		if len(alike)+len(own) == 0 {
			continue
		}
		g := byKey[key]
		if g == nil {
			g = c.describe(p, cluster, alike, own)
			byKey[key] = g
			groups = append(groups, g)
		}
		g.Clusters = append(g.Clusters, cluster)
		if known := c.after.world.Clusters[cluster]; known != nil && known.Unavailable != "" {
			g.Unavailable = append(g.Unavailable, cluster+" "+known.Unavailable)
		}
	}
	all := make([]Group, len(groups))
	for i, g := range groups {
		all[i] = *g
	}
	return all
}

// varies reports whether what happens to an object may differ between clusters of a pair: it has
// templates, or Transactions hold it.
func (c *Comparison) varies(ref objref.Ref) bool {
	_, held := c.after.held[ref]
	return held || templated(c.before.world.Objects[ref]) || templated(c.after.world.Objects[ref])
}

// own returns the outcomes of one cluster that differ from those of others, and a key that is equal
// for clusters in which they are the same.
func (c *Comparison) own(p *pair, cluster string, alike []outcome, varying []objref.Ref) (own []outcome, key string) {
	for _, ref := range varying {
		switch {
		case !p.had[ref]:
			own = append(own, c.created(p, ref, cluster))
		case !p.has[ref]:
			own = append(own, c.lost(p, ref, cluster))
		default:
			if o, changes := c.stays(p, ref, cluster); changes {
				own = append(own, o)
			}
		}
	}
	if known := c.after.world.Clusters[cluster]; known != nil && len(known.Others) > 0 {
		for _, o := range alike {
			if contested := contest(o, known.Others); contested.why != o.why {
				own = append(own, contested)
			}
		}
		for i := range own {
			own[i] = contest(own[i], known.Others)
		}
	}
	var b strings.Builder
	for _, o := range own {
		fmt.Fprintf(&b, "%s %s %s %s %s\n", o.verb, o.ref, o.had.Hash, o.gets.Hash, o.why)
	}
	return own, b.String()
}

// contest returns an outcome where another source delivers the object.
func contest(o outcome, others map[objref.Ref]Other) outcome {
	other, is := others[o.ref]
	if !is {
		if n := dependents(others, o.ref); n > 0 && o.verb == Delete {
			o.keep(stays(n), true)
		}
		return o
	}
	switch {
	case o.verb == Delete || o.verb == Release:
		o.keep(other.By+" delivers it too", false)
	case o.gets.Hash == (transform.Hash{}):
	case o.content() == other.Content:
		if o.verb == Create {
			o.keep(other.By+" delivers it too, with the same content", false)
		}
	default:
		o.conflict, o.why = true, other.By+" delivers it with different content; the first of the two is delivered"
	}
	return o
}

// created returns what happens to an object that a cluster has not.
func (c *Comparison) created(p *pair, ref objref.Ref, cluster string) outcome {
	o := outcome{verb: Create, ref: ref}
	if why, failed := c.withheld(p, ref, cluster); why != "" {
		o.keep(why, failed)
		return o
	}
	after := c.after.world.Objects[ref]
	switch {
	case after == nil && !c.after.world.unread(ref.GroupResource()):
		o.keep("it does not exist in the WDS", true)
		return o
	case after == nil || !after.Read:
		return o
	}
	gets := c.after.gets.at(ref, c.after.world.properties(cluster))
	switch {
	case errors.Is(gets.err, render.ErrPropertiesUnknown):
		o.why = "its content is unknown: " + gets.err.Error()
	case gets.err != nil:
		o.keep("cannot be delivered: "+gets.err.Error(), true)
	}
	o.gets, o.options = gets.object, c.after.gets.carriedBy(ref, p.after).options
	return o
}

// stays returns what happens to an object that a cluster has and is to have, and whether that is
// anything.
func (c *Comparison) stays(p *pair, ref objref.Ref, cluster string) (outcome, bool) {
	before, after := c.before.world.Objects[ref], c.after.world.Objects[ref]
	o := outcome{verb: Update, ref: ref}
	switch { // a Binding may list what does not exist
	case before == nil && after == nil:
		return o, false
	case before == nil:
		return c.created(p, ref, cluster), true
	case after == nil:
		o.keep("a Binding lists it, and it does not exist in the WDS any more", true)
		return o, true
	}
	was, is := c.before.gets.carriedBy(ref, p.before), c.after.gets.carriedBy(ref, p.after)
	o.options = is.options
	reoptioned := was != is
	if before.Read && after.Read {
		had, gets := c.before.gets.at(ref, c.before.world.properties(cluster)), c.after.gets.at(ref, c.after.world.properties(cluster))
		unknown := errors.Is(had.err, render.ErrPropertiesUnknown) || errors.Is(gets.err, render.ErrPropertiesUnknown)
		if gets.err != nil && !errors.Is(gets.err, render.ErrPropertiesUnknown) {
			o.keep("cannot be delivered: "+gets.err.Error(), true)
			return o, had.err == nil || had.err.Error() != gets.err.Error()
		}
		o.had, o.gets = had.object, gets.object
		switch {
		case unknown && (c.edited[ref] || c.propertiesDiffer(cluster)):
			o.why = "whether its content changes is unknown: " + render.ErrPropertiesUnknown.Error()
		case !reoptioned && (unknown || had.err == nil && had.object.Hash == gets.object.Hash):
			return o, false
		}
	} else if !reoptioned {
		return o, false // nothing was edited, or Needs would have asked for it
	}
	if why, failed := c.withheld(p, ref, cluster); why != "" {
		o.keep(why, failed)
	} else if o.why == "" {
		o.verb, o.why = effect(&o, was.options)
	}
	return o, true
}

// effect returns what a cluster that has an object does with a content, or with other options than
// it had, and why it does not do all.
func effect(o *outcome, had plan.Options) (verb Verb, why string) {
	change := render.ChangeOf(o.had, o.gets, o.options)
	var notes []string
	applied := had
	applied.Orphan, applied.IgnoredFields = o.options.Orphan, o.options.IgnoredFields // they are said by themselves
	switch {
	case change.CreateOnly:
		return Keep, "kept: create-only"
	case had.CreateOnly && !o.options.CreateOnly:
		notes = append(notes, "it was create-only: the cluster may have another content, which is updated, too")
	case applied != o.options:
		notes = append(notes, "how it is applied changes")
	case had.Orphan == o.options.Orphan:
	case had.Orphan:
		notes = append(notes, "the cluster will delete it when it leaves")
	default:
		notes = append(notes, "the cluster will keep it when it leaves")
	}
	if left := fewer(o.options.IgnoredFields, had.IgnoredFields); len(left) > 0 {
		notes = append(notes, text.List(left, len(left))+" "+text.Plural(len(left), "is", "are")+" ignored from now on: the cluster keeps what it has")
	}
	if had.Update && !had.CreateOnly && removes(&change) {
		notes = append(notes, "the cluster can keep fields that it got by update")
	}
	if freed := fewer(had.IgnoredFields, o.options.IgnoredFields); len(freed) > 0 {
		notes = append(notes, text.List(freed, len(freed))+" "+text.Plural(len(freed), "is", "are")+" ignored no more: the cluster gets what the WDS has, or nothing")
	}
	verb = Update
	if len(change.Ignored) > 0 {
		notes = append(notes, "kept: ignored "+text.Plural(len(change.Ignored), "field ", "fields ")+strings.Join(change.Ignored, ", "))
		if !change.Updates() && had == o.options {
			verb = Keep
		}
	}
	if len(notes) == 0 && change.Source && reflect.DeepEqual(change.Before, change.After) {
		notes = append(notes, "only annotation "+controlv1alpha1.AnnotationSourceGeneration+" changes, which says what it is a copy of")
	}
	return verb, strings.Join(notes, "; ")
}

// removes reports whether a change removes fields.
func removes(change *render.Change) bool {
	return slices.ContainsFunc(fieldsOf(change.Before, change.After), func(f Field) bool { return f.After == nil })
}

// fewer returns the ignored fields that were, and are not any more.
func fewer(were, are string) []string {
	kept := strings.Split(are, "\n")
	return slices.DeleteFunc(strings.Split(were, "\n"), func(path string) bool { return path == "" || slices.Contains(kept, path) })
}

// lost returns what happens to an object that is no longer delivered.
func (c *Comparison) lost(p *pair, ref objref.Ref, cluster string) outcome {
	o := outcome{verb: Delete, ref: ref}
	if why, failed := c.held(p.before, ref, cluster); why != "" {
		o.keep(why, failed)
		return o
	}
	if n := dependents(p.has, ref); n > 0 {
		o.keep(stays(n), true)
		return o
	}
	if c.before.gets.carriedBy(ref, p.before).options.Orphan {
		o.verb = Release
		return o
	}
	o.why = takes(ref)
	return o
}

// takes says what a cluster deletes with an object, beyond what is delivered: nobody in the hub
// knows all of it.
func takes(ref objref.Ref) string {
	switch ref.GroupResource() {
	case namespaces:
		return "with everything in it, also what was not delivered"
	case definitions:
		return "with all objects of its kind, also those that were not delivered"
	}
	return ""
}

// dependents counts the objects that a cluster would delete with a Namespace or a
// CustomResourceDefinition.
func dependents[V any](refs map[objref.Ref]V, of objref.Ref) int {
	n := 0
	if !plan.IsPrerequisite(of) {
		return n
	}
	for ref := range refs {
		if slices.Contains(plan.Prerequisites(ref), of) {
			n++
		}
	}
	return n
}

func stays(dependents int) string {
	return fmt.Sprintf("stays, because %s would be deleted with it", text.Count(dependents, "object"))
}

// withheld returns why an object is not delivered, "" if it is, and whether something is wrong.
func (c *Comparison) withheld(p *pair, ref objref.Ref, cluster string) (why string, failed bool) {
	if err := render.Withheld(ref, c.after.world.Settings.Transport.ManagementNamespaces); err != nil {
		return err.Error(), true
	}
	if why, failed := c.held(p.after, ref, cluster); why != "" {
		return why, failed
	}
	return c.after.gets.carriedBy(ref, p.after).why, true
}

// held returns what holds an object in a cluster, "" if nothing does: a Binding that lists it, or a
// Transaction. Of what Transactions hold, what they hold after the change counts. failed: the
// annotation cannot be understood, so everything is held.
func (c *Comparison) held(by []*listing, ref objref.Ref, cluster string) (why string, failed bool) {
	if c.after.holds.At(cluster).Holds(ref) {
		if by := c.after.holds.Holder(cluster, ref).Transaction; by != "" {
			return "held by transaction " + by, false
		}
		return "held by the annotation " + pkgv1.AnnotationHeldObjects + " of Binding " + pkgv1.HoldsBinding + ", which is invalid and so holds everything", true
	}
	for _, l := range by {
		value, is := l.annotations[controlv1alpha1.AnnotationHold]
		if !is || l.objects[ref] == nil {
			continue
		}
		if hold, err := plan.ParseHold(value); hold.Holds(ref) {
			return fmt.Sprintf("held by the annotation %s of Binding %s", controlv1alpha1.AnnotationHold, l.name), err != nil
		}
	}
	return "", false
}

// describe returns the Group of a cluster, without clusters. Of what is in both lists, own counts.
func (c *Comparison) describe(p *pair, cluster string, alike, own []outcome) *Group {
	all := map[objref.Ref]outcome{}
	for _, o := range slices.Concat(alike, own) {
		all[o.ref] = o
	}
	g := &Group{}
	for _, ref := range slices.SortedFunc(maps.Keys(all), objref.Compare) {
		o := all[ref]
		g.Items = append(g.Items, c.item(o))
		g.Bytes += len(o.gets.JSON)
	}
	g.Works = works(g.Items, len(p.has))
	has := p.has
	if known := c.after.world.Clusters[cluster]; known != nil && len(known.Others) > 0 {
		has = maps.Clone(p.has)
		for ref := range known.Others {
			has[ref] = true
		}
	}
	g.Warnings = c.lacking(has, g.Items)
	return g
}

// perWork is the default of the transport-controller for how many objects share a work.
const perWork = 16

// works estimates how many works are written: at most one for each object, and at most all of them.
// Namespaces and CustomResourceDefinitions are in works of their own, which makes one more.
func works(items []Item, objects int) int {
	n := 0
	for i := range items {
		if items[i].Verb != Keep {
			n++
		}
	}
	return min(n, (max(objects, n)+perWork-1)/perWork+1)
}
