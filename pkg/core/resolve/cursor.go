package resolve

import (
	"slices"

	"github.com/Masterminds/semver/v3"
)

// cursor yields the candidates of a variable, the best first. It looks at the tags of the
// repository only when nothing before them fits.
type cursor struct {
	stage stage
	next  int
	// digests are the digests that the demands name.
	digests []string
	// tags are the indices of the tags, in the order in which they are tried.
	tags []int
}

type stage int

const (
	stagePinned stage = iota
	stageDigests
	stageTags
	stageEnd
)

// step is the result of asking a cursor for a candidate. If none is set, there is no more.
type step struct {
	candidate *candidate
	need      *Need
}

// advance returns the next candidate. Failed reports that a candidate of the variable met all
// demands, and something that it requires failed.
func (c *cursor) advance(m *model, v *variable, failed bool) step {
	for {
		switch c.stage {
		case stagePinned:
			if c.next < len(v.pinned) {
				c.next++
				return step{candidate: v.pinned[c.next-1]}
			}
			c.enter(stageDigests)
			if !v.open {
				c.enter(stageEnd)
				break
			}
			c.digests = v.demandedDigests()
		case stageDigests:
			if c.next < len(c.digests) {
				c.next++
				if d := v.digestCandidate(c.digests[c.next-1]); d != nil {
					return step{candidate: d}
				}
				break
			}
			// A digest that is demanded is a candidate already. It is looked for among the tags
			// only if a range is demanded too.
			if len(c.digests) > 1 || len(c.digests) == 1 && !failed && !v.demandsRange() {
				c.enter(stageEnd)
				break
			}
			r := m.knowledge.repositories[v.source]
			if r == nil {
				return step{need: &Need{Source: v.source}}
			}
			c.enter(stageTags)
			v.repository = r
			c.tags = m.tagOrder(v)
		case stageTags:
			if c.next < len(c.tags) {
				c.next++
				return step{candidate: v.tagCandidate(c.tags[c.next-1])}
			}
			c.enter(stageEnd)
		case stageEnd:
			return step{}
		}
	}
}

func (c *cursor) enter(s stage) { c.stage, c.next = s, 0 }

// demandedDigests returns the digests that decided packages require, sorted.
func (v *variable) demandedDigests() []string {
	var digests []string
	for _, d := range v.demands {
		if d.constraint != nil && d.constraint.digest != "" {
			digests = append(digests, d.constraint.digest)
		}
	}
	slices.Sort(digests)
	return slices.Compact(digests)
}

// demandsRange reports whether a decided package requires a range that a digest alone cannot meet.
func (v *variable) demandsRange() bool {
	return slices.ContainsFunc(v.demands, func(d demand) bool {
		return d.constraint != nil && d.constraint.digest == "" && !d.constraint.any
	})
}

// digestCandidate returns the candidate that is a digest without a tag. It returns nil if a pinned
// candidate has the digest.
func (v *variable) digestCandidate(digest string) *candidate {
	if slices.ContainsFunc(v.pinned, func(c *candidate) bool { return c.Digest == digest }) {
		return nil
	}
	c := v.byDigest[digest]
	if c == nil {
		c = &candidate{Version: Version{Digest: digest}}
		if v.byDigest == nil {
			v.byDigest = map[string]*candidate{}
		}
		v.byDigest[digest] = c
	}
	return c
}

// tagOrder returns the indices of the tags that may be chosen, in the order in which they are
// tried: from the installed version up, and then down if that is allowed. Of a package that is not
// installed, the highest comes first.
func (m *model) tagOrder(v *variable) []int {
	r := v.repository
	if len(v.byTag) != len(r.tags) {
		v.byTag = make([]*candidate, len(r.tags))
	}
	order := make([]int, 0, len(r.tags))
	locked := v.lockedSemantic()
	if locked == nil {
		for i := range r.tags {
			order = append(order, i)
		}
		slices.Reverse(order)
		return order
	}
	above, _ := slices.BinarySearchFunc(r.tags, v.locked, func(t tag, c *candidate) int {
		return compareTags(t.version, locked, t.name, c.Tag)
	})
	for i := above; i < len(r.tags); i++ {
		if r.tags[i].name != v.locked.Tag {
			order = append(order, i)
		}
	}
	if m.problem.AllowDowngrade {
		for i := range slices.Backward(r.tags[:above]) {
			order = append(order, i)
		}
	}
	return order
}

func (v *variable) lockedSemantic() *semver.Version {
	if v.locked == nil {
		return nil
	}
	return v.locked.semantic
}

// tagCandidate returns the candidate that is a tag of the repository.
func (v *variable) tagCandidate(i int) *candidate {
	if v.byTag[i] == nil {
		t := v.repository.tags[i]
		v.byTag[i] = &candidate{Version: Version{Tag: t.name}, semantic: t.version}
	}
	return v.byTag[i]
}
