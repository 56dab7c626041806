package match

import (
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/sets"
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

// way returns anchors such that every object that passes the clause has at least one of them. Of
// the possible ways it takes the one whose anchors cost least together, and among equals the one
// that promises to stay so.
func (c *clause) way(cost func(anchor) int) []anchor {
	ways := [][]anchor{
		setWay(byName, c.names),
		setWay(byNamespace, c.namespaces),
		selectorsWay(byLabel, byLabelKey, c.objectSelectors, cost),
		selectorsWay(byNamespaceLabel, byNamespaceLabelKey, c.namespaceSelectors, cost),
		setWay(byResource, c.resources),
	}
	if c.group != nil {
		ways = append(ways, []anchor{{kind: byGroup, key: *c.group}})
	}
	if best := cheapest(ways, cost); best != nil {
		return best
	}
	return []anchor{{kind: byNothing}}
}

// cheapest returns the first of the ways whose anchors cost least together; nil is no way.
func cheapest(ways [][]anchor, cost func(anchor) int) []anchor {
	var best []anchor
	least := -1
	for _, way := range ways {
		sum := 0
		for _, a := range way {
			sum += cost(a)
		}
		if way != nil && (least < 0 || sum < least) {
			least, best = sum, way
		}
	}
	return best
}

func setWay(kind anchorKind, set sets.Set[string]) []anchor {
	if set == nil {
		return nil
	}
	way := make([]anchor, 0, len(set))
	for key := range set {
		way = append(way, anchor{kind: kind, key: key})
	}
	return way
}

// selectorsWay returns for each selector the cheapest requirement that asks for a label to be
// there; nil if there is a selector without.
func selectorsWay(pair, key anchorKind, selectors []labels.Selector, cost func(anchor) int) []anchor {
	var way []anchor
	for _, selector := range selectors {
		requirements, _ := selector.Requirements()
		var ways [][]anchor
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
			ways = append(ways, found)
		}
		best := cheapest(ways, cost)
		if best == nil {
			return nil
		}
		way = append(way, best...)
	}
	return way
}
