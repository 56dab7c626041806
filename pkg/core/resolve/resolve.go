package resolve

import (
	"errors"
	"maps"
	"slices"
)

// Result of a call of Resolve: a solution, or what is needed to find one.
type Result struct {
	// Needs are the metadata to fetch before the next call, sorted. All of it may be fetched at
	// once.
	Needs []Need
	// Solution is nil if something is needed.
	Solution *Solution
}

// Resolve chooses the versions of packages. If it returns needs, the caller adds the metadata to
// the knowledge and calls again. If no set of versions is suitable, the error is a *Conflict.
//
// It first keeps all roots but the subject at their installed versions. If that is a conflict in
// which other roots take part, it also tries the desired versions of the pending ones. If nothing
// of this fits, the conflict is the first one.
func Resolve(p *Problem, k *Knowledge) (Result, error) {
	var first error
	var last *search
	for f := rootsStay; f <= pendingMove; f++ {
		if last != nil && !last.mayHelp() {
			continue
		}
		m, err := newModel(p, k, f)
		if err != nil {
			return Result{}, err
		}
		last = newSearch(m)
		result, err := last.solve()
		if err == nil {
			return result, nil
		}
		if first == nil {
			first = err
		}
		if _, ok := errors.AsType[*Conflict](err); !ok {
			break
		}
	}
	return Result{}, first
}

func (s *search) solve() (Result, error) {
	end, err := s.run()
	switch {
	case err != nil:
		return Result{}, err
	case end != nil:
		return Result{}, s.explain(end)
	case s.ahead:
		return Result{Needs: slices.SortedFunc(maps.Keys(s.needs), compareNeeds)}, nil
	default:
		return Result{Solution: s.solution()}, nil
	}
}

// mayHelp reports whether more freedom may resolve the conflict that the search found: whether a
// root that gets it took part.
func (s *search) mayHelp() bool {
	for v := range s.involved {
		if v.root != nil && !v.root.Subject && v.root.Pending && !v.root.Version.same(v.lockedVersion()) {
			return true
		}
	}
	return false
}
