package destination

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"slices"
	"strings"

	"github.com/starlinghq/starling/pkg/core/resolve"
)

// situation is everything that the verdict on a cluster depends on.
type situation struct {
	effects []seen
	// demands are what packages of other spaces require of packages of the proposal that are there.
	demands []demand
	// ranges are the packages that arrive or change there and state a range of versions of
	// Kubernetes, sorted; kubernetes is the version of the cluster if there are any.
	ranges     []string
	kubernetes string
}

// seen is an effect with what is known of the cluster.
type seen struct {
	effect
	// had is the CRD that the cluster has, gets the one that it gets; nil for none. They are those
	// of the Change unless templates make them differ: then variant identifies them.
	had, gets *CRD
	variant   string
	// held: the content that the cluster has is not known.
	held bool
	// kept says why the CRD is not delivered, so that the cluster keeps what it has; "" if it is.
	kept string
	// rendered are the custom resources that vary, as the cluster gets them.
	rendered []*Object
	// stored are the stored versions that the cluster reports of the CRD, nil if it does not.
	stored []string
	// crds and objects are what other spaces deliver: the CRD, and custom resources of it.
	crds, objects []Foreign
}

// demand is what a package of another space requires of a package of the proposal.
type demand struct{ by, source, constraint string }

func (in *Input) situation(c *Cluster, a *audience, templates renderer) *situation {
	s := &situation{}
	foreign := map[string][]Foreign{}
	for _, f := range c.Foreign {
		name := nameOf(f.Ref)
		if f.CRD != nil {
			name = f.CRD.Name
		}
		foreign[name] = append(foreign[name], f)
	}
	arriving := map[string]bool{}
	for _, source := range a.packages { // sorted
		if !in.changes(source) {
			continue
		}
		arriving[source] = true
		if in.Packages[source].Kubernetes != "" {
			s.ranges, s.kubernetes = append(s.ranges, source), c.Kubernetes
		}
	}
	for _, e := range a.effects {
		change := &in.Changes[e.change]
		known := seen{effect: e, held: c.Held[change.crd().Name], stored: c.Stored[change.crd().Name]}
		known.deliver(change, c, templates)
		for _, f := range foreign[change.crd().Name] {
			if f.CRD != nil {
				known.crds = append(known.crds, f)
			} else {
				known.objects = append(known.objects, f)
			}
		}
		sortForeign(known.crds)
		sortForeign(known.objects)
		s.effects = append(s.effects, known)
	}
	for i := range c.Packages {
		for _, d := range resolve.FromLock(c.Packages[i : i+1])[0].Dependencies {
			if arriving[d.Source] {
				s.demands = append(s.demands, demand{by: c.Packages[i].Name, source: d.Source, constraint: d.Constraint})
			}
		}
	}
	slices.SortFunc(s.demands, func(x, y demand) int {
		return strings.Compare(x.by+"\n"+x.source+"\n"+x.constraint, y.by+"\n"+y.source+"\n"+y.constraint)
	})
	return s
}

// deliver finds out what the cluster gets.
func (s *seen) deliver(change *Change, c *Cluster, templates renderer) {
	if s.before {
		s.had = change.Before
	}
	if s.after {
		s.gets = change.After
	}
	if had := change.Had; s.before && had != nil {
		at := templates.at(had, c.Properties)
		s.held = s.held || at.Unknown != ""
		if had.Varies() {
			s.variant = at.hash
		}
		if at.CRD != nil {
			s.had = at.CRD
		}
	}
	if gets := change.Gets; s.after && gets != nil {
		at := templates.at(gets, c.Properties)
		s.kept = at.Unknown
		if gets.Varies() {
			s.variant += " " + at.hash
		}
		if at.CRD != nil {
			s.gets = at.CRD
		}
	}
	for _, o := range s.varying {
		s.rendered = append(s.rendered, templates.at(o, c.Properties))
	}
}

func sortForeign(all []Foreign) {
	slices.SortFunc(all, func(x, y Foreign) int {
		return strings.Compare(x.by()+"\n"+x.Ref.String()+"\n"+x.hash, y.by()+"\n"+y.Ref.String()+"\n"+y.hash)
	})
}

// hash returns what two situations have in common exactly if they are equal. The names of clusters
// are in none of them.
func (s *situation) hash() string {
	h := sha256.New()
	for i := range s.effects {
		e := &s.effects[i]
		fmt.Fprintf(h, "change %d %t %t %t %t %q %q\nstored %d %q\n", e.change, e.before, e.after, e.stays, e.held, e.kept, e.variant, len(e.stored), e.stored)
		if e.stored == nil {
			fmt.Fprintln(h, "unknown")
		}
		fmt.Fprintf(h, "alike %s\n", e.alike.hash)
		for _, o := range e.rendered {
			fmt.Fprintf(h, "rendered %s %s\n", o.Ref, o.hash)
		}
		writeForeign(h, e.crds)
		writeForeign(h, e.objects)
	}
	for _, d := range s.demands {
		fmt.Fprintf(h, "demand %q %q %q\n", d.by, d.source, d.constraint)
	}
	fmt.Fprintf(h, "kubernetes %q %q\n", s.ranges, s.kubernetes)
	return hex.EncodeToString(h.Sum(nil))
}

func writeForeign(h hash.Hash, all []Foreign) {
	fmt.Fprintf(h, "foreign %d\n", len(all))
	for i := range all {
		f := &all[i]
		fmt.Fprintf(h, "%s %s %s\n", f.by(), f.Ref, f.hash)
	}
}
