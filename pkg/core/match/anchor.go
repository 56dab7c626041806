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

// ways returns the ways to find the clause. Each is complete by itself: an object that passes has at least one of its
// anchors. There is at least one way.
func (c *clause) ways() [][]anchor {
	var ways [][]anchor
	add := func(way []anchor) {
		if way != nil {
			ways = append(ways, way)
		}
	}
	add(setWay(byName, c.names))
	add(setWay(byNamespace, c.namespaces))
	add(selectorsWay(byLabel, byLabelKey, c.objectSelectors))
	add(selectorsWay(byNamespaceLabel, byNamespaceLabelKey, c.namespaceSelectors))
	add(setWay(byResource, c.resources))
	if c.group != nil {
		add([]anchor{{kind: byGroup, key: *c.group}})
	}
	if ways == nil {
		add([]anchor{{kind: byNothing}})
	}
	return ways
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

// selectorsWay returns nil if one of the selectors asks for no label to be there.
func selectorsWay(pair, key anchorKind, selectors []labels.Selector) []anchor {
	var way []anchor
	for _, selector := range selectors {
		required := selectorAnchors(pair, key, selector)
		if required == nil {
			return nil
		}
		way = append(way, required...)
	}
	return way
}

// selectorAnchors returns the anchors for the requirement of the selector that asks for the fewest pairs.
func selectorAnchors(pair, key anchorKind, selector labels.Selector) []anchor {
	requirements, _ := selector.Requirements()
	var best []anchor
	for _, requirement := range requirements {
		switch requirement.Operator() {
		case selection.In, selection.Equals, selection.DoubleEquals:
			values := requirement.ValuesUnsorted()
			if best == nil || best[0].kind == key || len(values) < len(best) {
				best = make([]anchor, 0, len(values))
				for _, value := range values {
					best = append(best, anchor{kind: pair, key: requirement.Key(), value: value})
				}
			}
		case selection.Exists, selection.GreaterThan, selection.LessThan:
			if best == nil {
				best = []anchor{{kind: key, key: requirement.Key()}}
			}
		default: // the others pass without the label
		}
	}
	return best
}
