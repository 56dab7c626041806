package feedback

import (
	"slices"

	"github.com/starlinghq/starling/pkg/core/text"
)

// maxNames bounds the names in a message.
const maxNames = 5

// listing is a sorted list of texts of which only the first ones are kept: those that are shown.
type listing struct {
	first []string
	more  int
}

// listingOf returns a listing of texts that keeps the first ones up to a limit.
func listingOf(texts []string, limit int) listing {
	if len(texts) == 0 {
		return listing{}
	}
	kept := min(len(texts), limit)
	return listing{slices.Clone(slices.Sorted(slices.Values(texts))[:kept]), len(texts) - kept}
}

// plus returns a listing of the texts of both, given the limit that both have.
func (l listing) plus(other listing, limit int) listing {
	switch {
	case other.len() == 0:
		return l
	case l.len() == 0:
		return other
	case len(l.first) == limit && other.first[0] >= l.first[limit-1]:
		return listing{l.first, l.more + other.len()}
	}
	both := listingOf(slices.Concat(l.first, other.first), limit)
	both.more += l.more + other.more
	return both
}

func (l listing) len() int { return len(l.first) + l.more }

// names lists names as far as a message should.
type names struct{ listing }

func namesOf(texts ...string) names { return names{listingOf(texts, maxNames)} }

func (n *names) add(other names) { n.listing = n.plus(other.listing, maxNames) }

func (n names) String() string { return text.Some(n.first, n.more) }
