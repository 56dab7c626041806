// Package near says what a selector that matches nothing lacks, and what its user may have meant:
// most of the time a label is misspelt.
package near

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apilabels "k8s.io/apimachinery/pkg/labels"
)

// Selector says why a selector matches nothing that has one of these sets of labels, as "no cluster
// has the label envrnment; near: environment". what names such a thing. It returns "" for a
// selector that is invalid, or that matches something.
func Selector(what string, selector *metav1.LabelSelector, labels []map[string]string) string {
	matcher, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil || slices.ContainsFunc(labels, func(set map[string]string) bool { return matcher.Matches(apilabels.Set(set)) }) {
		return ""
	}
	values := map[string]map[string]bool{} // by key
	for _, set := range labels {
		for key, value := range set {
			if values[key] == nil {
				values[key] = map[string]bool{}
			}
			values[key][value] = true
		}
	}
	for _, r := range requirements(selector) {
		has := values[r.key]
		switch {
		case has == nil:
			return fmt.Sprintf("no %s has the label %s%s", what, r.key, like(r.key, maps.Keys(values), ""))
		case len(r.values) > 0 && !slices.ContainsFunc(r.values, func(value string) bool { return has[value] }):
			return fmt.Sprintf("no %s has the label %s=%s%s", what, r.key, strings.Join(r.values, "|"), like(r.values[0], maps.Keys(has), r.key+"="))
		}
	}
	return fmt.Sprintf("no %s has all labels of %s", what, metav1.FormatLabelSelector(selector))
}

// Name says that there is nothing of that name among these, as "there is no Namespace shpo; near:
// shop". It returns "" if there is.
func Name(what, name string, names []string) string {
	if slices.Contains(names, name) {
		return ""
	}
	return fmt.Sprintf("there is no %s %s%s", what, name, like(name, slices.Values(names), ""))
}

// requirement is a label that a selector asks for, with one of these values; none for any.
type requirement struct {
	key    string
	values []string
}

func requirements(selector *metav1.LabelSelector) []requirement {
	var all []requirement
	for _, key := range slices.Sorted(maps.Keys(selector.MatchLabels)) {
		all = append(all, requirement{key, []string{selector.MatchLabels[key]}})
	}
	for _, e := range selector.MatchExpressions {
		if e.Operator == metav1.LabelSelectorOpIn || e.Operator == metav1.LabelSelectorOpExists {
			all = append(all, requirement{e.Key, e.Values})
		}
	}
	return all
}

const (
	maxNear = 3 // names that a text proposes
	// A third of the letters may be wrong, so two that are swapped in a word of four: with more,
	// almost everything short is near.
	lettersPerError = 3
)

// like returns what is spelt like a word, as the end of a sentence.
func like(word string, others func(yield func(string) bool), prefix string) string {
	type candidate struct {
		name     string
		distance int
	}
	var found []candidate
	for other := range others {
		if d := levenshtein.ComputeDistance(strings.ToLower(word), strings.ToLower(other)); d <= (len(word)+lettersPerError-1)/lettersPerError {
			found = append(found, candidate{other, d})
		}
	}
	if len(found) == 0 {
		return ""
	}
	slices.SortFunc(found, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), strings.Compare(a.name, b.name))
	})
	var names []string
	for _, c := range found[:min(len(found), maxNear)] {
		names = append(names, prefix+c.name)
	}
	return "; near: " + strings.Join(names, ", ")
}
