package match

import (
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// anchor is a property by which a clause and the objects that could pass it find each other.
type anchor struct {
	kind anchorKind
	// key is the name, namespace, label key, resource or group.
	key string
	// value is the label's value.
	value string
}

type anchorKind uint8

// In the order in which they are preferred while there is nothing to count.
const (
	byName anchorKind = iota
	byNamespace
	byLabel
	byNamespaceLabel
	byLabelKey
	byNamespaceLabelKey
	byResource
	byGroup
	byNothing
	anchorKinds
)

// way returns anchors such that every object that passes the clause has at least one of them. Of the possible ways it takes
// the one whose anchors cost least together, and among equals the one that promises to stay so.
func (c *clause) way(cost func(anchor) int) []anchor {
	var best []anchor
	least := -1
	offer := func(way []anchor) {
		if way == nil {
			return
		}
		if sum := sumCost(way, cost); least < 0 || sum < least {
			least, best = sum, way
		}
	}
	offer(setWay(byName, c.names))
	offer(setWay(byNamespace, c.namespaces))
	offer(selectorsWay(byLabel, byLabelKey, c.objectSelectors, cost))
	offer(selectorsWay(byNamespaceLabel, byNamespaceLabelKey, c.namespaceSelectors, cost))
	offer(setWay(byResource, c.resources))
	if c.group != nil {
		offer([]anchor{{kind: byGroup, key: *c.group}})
	}
	if best == nil {
		return []anchor{{kind: byNothing}}
	}
	return best
}

func sumCost(way []anchor, cost func(anchor) int) int {
	sum := 0
	for _, a := range way {
		sum += cost(a)
	}
	return sum
}

func setWay(kind anchorKind, set map[string]struct{}) []anchor {
	if set == nil {
		return nil
	}
	way := make([]anchor, 0, len(set))
	for key := range set {
		way = append(way, anchor{kind: kind, key: key})
	}
	return way
}

// selectorsWay returns for each selector the cheapest requirement that asks for a label to be there; nil if there is a
// selector without.
func selectorsWay(pair, key anchorKind, selectors []labels.Selector, cost func(anchor) int) []anchor {
	var way []anchor
	for _, selector := range selectors {
		requirements, _ := selector.Requirements()
		var best []anchor
		least := -1
		for _, requirement := range requirements {
			var found []anchor
			switch requirement.Operator() {
			case selection.In, selection.Equals, selection.DoubleEquals:
				for _, value := range requirement.ValuesUnsorted() {
					found = append(found, anchor{kind: pair, key: requirement.Key(), value: value})
				}
			case selection.Exists:
				found = []anchor{{kind: key, key: requirement.Key()}}
			default: // the others pass without the label
				continue
			}
			if sum := sumCost(found, cost); least < 0 || sum < least {
				least, best = sum, found
			}
		}
		if best == nil {
			return nil
		}
		way = append(way, best...)
	}
	return way
}
