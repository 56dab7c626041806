package rights

import (
	"fmt"
	"slices"
)

// Allowed are rights that may be unused, with the reason.
type Allowed struct {
	Space     string   `json:"space"`
	Identity  string   `json:"identity"`
	Namespace string   `json:"namespace,omitempty"`
	Group     string   `json:"group"`
	Resources []string `json:"resources"`
	Names     []string `json:"names,omitempty"`
	Verbs     []string `json:"verbs"`
	// Sometimes is true if it depends on timing whether they are used.
	Sometimes bool `json:"sometimes,omitempty"`
	// Reason is why they are granted.
	Reason string `json:"reason"`
}

func (a *Allowed) rights() []Right {
	names := a.Names
	if len(names) == 0 {
		names = []string{""}
	}
	var rights []Right
	for _, resource := range a.Resources {
		for _, name := range names {
			for _, verb := range a.Verbs {
				rights = append(rights, Right{
					Space: a.Space, Identity: a.Identity, Namespace: a.Namespace, Group: a.Group, Resource: resource, Name: name, Verb: verb,
				})
			}
		}
	}
	return rights
}

// Compare returns what is wrong: rights that were not used and that the list does not have, and
// entries of the list that were used, that no rule grants, or that have no reason.
func Compare(granted, uses []Right, list []Allowed) []string {
	used := map[Right]bool{}
	for _, g := range granted {
		used[g] = used[g] || slices.ContainsFunc(uses, g.covers)
	}
	var problems []string
	listed := map[Right]bool{}
	for i := range list {
		a := &list[i]
		for _, r := range a.rights() {
			wasUsed, isGranted := used[r]
			switch {
			case a.Reason == "":
				problems = append(problems, fmt.Sprintf("%s: the allow-list has no reason", r))
			case !isGranted:
				problems = append(problems, fmt.Sprintf("%s: the allow-list has it, and no rule grants it; remove it from the list", r))
			case listed[r]:
				problems = append(problems, fmt.Sprintf("%s: the allow-list has it twice", r))
			case wasUsed && !a.Sometimes:
				problems = append(problems, fmt.Sprintf("%s: the allow-list has it, and it was used; remove it from the list", r))
			}
			listed[r] = true
		}
	}
	unused := map[Right]bool{}
	for r, wasUsed := range used {
		if !wasUsed && !listed[r] {
			unused[r] = true
		}
	}
	for _, r := range Sorted(unused) {
		problems = append(problems, fmt.Sprintf("%s: it was not used; remove the right, or add it to the allow-list with a reason", r))
	}
	return problems
}
