package forecast

import (
	"github.com/starlinghq/starling/pkg/core/match"
)

// match fills the index: a new one, or that of a World that has settled before, which has no index
// then. Of that, only what differs is changed: what both Worlds have as one pointer is equal.
func (s *settled) match(before *settled) {
	had := &World{}
	if before != nil { // controllers run with the same settings before and after
		had, s.index, before.index = before.world, before.index, nil
	} else {
		s.index = match.NewIndex(match.Options{IncludeGenerated: s.world.Settings.Bindings.IncludeGenerated})
	}
	s.matchObjects(had)
	for name, c := range s.world.Clusters {
		switch was := had.Clusters[name]; {
		case was == c:
		case c.Refused == "":
			s.index.SetCluster(name, c.Labels)
		default:
			s.index.DeleteCluster(name)
		}
	}
	for name := range had.Clusters {
		if s.world.Clusters[name] == nil {
			s.index.DeleteCluster(name)
		}
	}
	for name, policy := range s.world.Policies {
		compiled, mistakes := match.Compile(&policy.Spec)
		switch {
		case len(mistakes) > 0: // it stays as its Bindings are, which may differ
			s.invalid[name] = mistakes
			s.index.FreezePolicy(name, s.stored(policy))
		case had.Policies[name] != policy:
			s.index.SetPolicy(name, compiled)
		}
	}
	for name := range had.Policies {
		if s.world.Policies[name] == nil {
			s.index.DeletePolicy(name)
		}
	}
}

// matchObjects changes the objects of the index, Namespaces first: so each object is matched once.
func (s *settled) matchObjects(had *World) {
	for ref, o := range s.world.Objects {
		switch {
		case ref.GroupResource() != namespaces || had.Objects[ref] == o:
		case o.Meta.GetDeletionTimestamp() != nil:
			s.index.EndNamespace(ref.Name)
		default:
			s.index.SetNamespace(ref.Name, o.Meta.GetLabels())
		}
	}
	for ref, o := range s.world.Objects {
		if had.Objects[ref] != o && s.world.Settings.Bindings.Selectable(ref.GroupResource()) {
			s.index.SetObject(o.Resource, o.Meta)
		}
	}
	for ref := range had.Objects {
		if s.world.Objects[ref] != nil {
			continue
		}
		if ref.GroupResource() == namespaces {
			s.index.DeleteNamespace(ref.Name)
		}
		s.index.DeleteObject(ref)
	}
}
