// Package resolve decides which versions of packages a transaction installs. It is a function of
// what users want, what is installed, and what is known of registries.
//
// # Rounds
//
// Resolve does not fetch anything. If it needs metadata that it does not have, it returns what it
// needs, and the caller adds that to the Knowledge and calls again:
//
//	for {
//		result, err := resolve.Resolve(problem, knowledge)
//		if err != nil || result.Solution != nil {
//			return result.Solution, err
//		}
//		// fetch all result.Needs at once, and add them to knowledge
//	}
//
// A round asks for everything that it can see, so the number of rounds depends on the depth of the
// dependencies, and not on their number. Only versions that are tried are asked for. A registry
// that cannot be asked is an error of the caller. It is never a missing dependency: that needs the
// answer that something was not found.
//
// # What is chosen
//
// Each repository is a variable, and its versions are the candidates. The subject of the
// transaction gets the version that its package object names. The packages of other users stay at
// their installed versions. Everything else that is installed or required is chosen, in this order:
// the installed version; the lowest version above it; the highest version below it, if downgrades
// are allowed. Of a package that is not installed, the highest version comes first. A candidate
// fits if it meets each constraint of each package of the result. Installed packages that nothing
// requires are part of the result.
//
// If that is a conflict in which pending roots take part, these may move to the versions that their
// objects name: two roots that share a dependency can be updated together only. All other packages
// are chosen as before, so an unrelated pending root that is broken does not matter.
//
// Requirements that installed packages do not meet among themselves are left as they are, unless
// the transaction changes one of the two. So a transaction does not fail because of a package that
// has nothing to do with it.
//
// # How it searches
//
// The search decides one variable after the other: dependents before what they require. If no
// candidate of a variable fits, it goes back to the latest decision that excluded one of them, and
// keeps nothing that was decided in between. Each level remembers which decisions excluded its
// candidates, so the search is complete: it finds a solution if there is one. (One exception: a
// digest is no candidate until a package that demands it was looked at.) If a package turns out to
// require another one that was decided before it, the search learns to decide it first and starts
// again. Else it would take an old version of the dependent, where an old version of the dependency
// is better.
//
// The search only follows known metadata. After the first unknown it decides nothing for good, but
// continues without going back, to see what else is needed. So neither the order of the input nor
// that of the answers, nor knowledge that is not used, changes the result. The number of candidates
// that are looked at is bounded: see ErrTooHard.
//
// # Conflicts
//
// A conflict describes where the best versions of everything end: the first decision that could not
// be made, with the requirements that lead there from what users want.
//
// Files use one another in one direction: constraint and problem; knowledge and graph;
// model, which has the variables; cursor and check, which yield and judge candidates; search;
// explain and solution, which turn its end into a result; resolve.
package resolve
