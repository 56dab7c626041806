package resolve

// obstacle is why a candidate does not fit. None of the fields is set if it fits.
type obstacle struct {
	// demand is a requirement that the candidate does not meet.
	demand *demand
	// other is set with demand, if no version meets both.
	other *demand
	// unusable is set if the candidate fits nowhere.
	unusable *unusable
	// edge is a requirement of the candidate that the decided packages do not meet.
	edge *edge
	// cycle is the path of dependencies that leads back to the candidate.
	cycle []*variable
	// need is set if metadata is missing to decide.
	need *Need
}

func (o *obstacle) none() bool {
	return o.demand == nil && o.unusable == nil && o.edge == nil && o.cycle == nil && o.need == nil
}

// check returns what is against a candidate, given what is decided.
func (m *model) check(v *variable, c *candidate) obstacle {
	if o := m.admit(v, c); !o.none() {
		return o
	}
	if need, ok := m.load(v, c); !ok {
		return obstacle{need: &need}
	}
	if c.unusable != nil {
		return obstacle{unusable: c.unusable}
	}
	connected := false // a cycle needs a way out of the package and one back
	for i := range c.edges {
		e := &c.edges[i]
		connected = connected || e.to.node != nil && len(v.demands) > 0 || e.to == v
		if e.to.removed && !e.optional() {
			return obstacle{edge: e}
		}
		if e.to.node == nil || e.to == v {
			continue
		}
		met, need := m.meets(e, e.to, e.to.node.candidate)
		if need != nil {
			return obstacle{need: need}
		}
		if !met {
			return obstacle{edge: e}
		}
	}
	if connected {
		if path := cycle(v, c); path != nil {
			return obstacle{cycle: path}
		}
	}
	return obstacle{}
}

// admit returns the first demand that the candidate does not meet. Ranges are looked at first,
// because digests may have to be fetched.
func (m *model) admit(v *variable, c *candidate) obstacle {
	var digest *demand
	for i := range v.demands {
		d := &v.demands[i]
		switch {
		case d.constraint == nil, d.broken && c.same:
		case d.constraint.digest == "":
			if !d.constraint.fits(c.semantic) {
				return obstacle{demand: d}
			}
		case c.Digest != "":
			if d.constraint.digest != c.Digest {
				return obstacle{demand: d}
			}
		case digest == nil:
			digest = d
		case digest.constraint.digest != d.constraint.digest:
			return obstacle{demand: d, other: digest}
		}
	}
	if digest == nil {
		return obstacle{}
	}
	met, need := m.meets(digest.edge, v, c)
	if need != nil || met {
		return obstacle{need: need}
	}
	return obstacle{demand: digest}
}

// meets reports whether a candidate is what an edge requires.
func (m *model) meets(e *edge, v *variable, c *candidate) (bool, *Need) {
	if e.constraint == nil || e.broken && c.same {
		return true, nil
	}
	if e.constraint.digest == "" {
		return e.constraint.fits(c.semantic), nil
	}
	digest, need := m.digest(v, c)
	return digest == e.constraint.digest, need
}

// digest returns the digest of a candidate. That of an installed version may not be in the Lock.
func (m *model) digest(v *variable, c *candidate) (string, *Need) {
	if c.Digest != "" {
		return c.Digest, nil
	}
	if !c.kept {
		if need, ok := m.load(v, c); !ok {
			return "", &need
		}
		return c.Digest, nil
	}
	need := Need{Source: v.source, Version: c.Tag}
	r := m.knowledge.releases[need]
	if r == nil {
		return "", &need
	}
	return r.Digest, nil
}

// cycle returns a path of decided dependencies that leads from the candidate back to its variable,
// or nil. A cycle of installed packages that all stay is no new one: it does not count.
func cycle(v *variable, c *candidate) []*variable {
	type visit struct {
		v       *variable
		changed bool
	}
	seen := map[visit]bool{}
	var path []*variable
	var follow func(from *candidate, changed bool) bool
	follow = func(from *candidate, changed bool) bool {
		changed = changed || !from.kept
		for i := range from.edges {
			to := from.edges[i].to
			if to == v {
				if changed {
					return true
				}
				continue
			}
			if to.node == nil || seen[visit{to, changed}] {
				continue
			}
			seen[visit{to, changed}] = true
			path = append(path, to)
			if follow(to.node.candidate, changed) {
				return true
			}
			path = path[:len(path)-1]
		}
		return false
	}
	path = append(path, v)
	if !follow(c, false) {
		return nil
	}
	return path
}
