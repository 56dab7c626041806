package install

// Steps returns the packages in steps: those of a step require only packages of earlier steps, so
// they can be installed at the same time. Packages come after their dependencies.
func Steps(packages []Package) [][]*Package {
	var steps [][]*Package
	step := map[string]int{} // by source
	for n := range packages {
		p := &packages[n]
		at := 0
		for _, d := range p.Locked.Dependencies {
			if before, found := step[d.Package]; found {
				at = max(at, before+1)
			}
		}
		step[p.Locked.Source] = at
		for len(steps) <= at {
			steps = append(steps, nil)
		}
		steps[at] = append(steps[at], p)
	}
	return steps
}
