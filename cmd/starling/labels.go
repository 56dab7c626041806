package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// parseLabels reads k=v pairs.
func parseLabels(pairs []string) (map[string]string, error) {
	labels := map[string]string{}
	for _, pair := range pairs {
		key, value, found := strings.Cut(pair, "=")
		if !found || key == "" {
			return nil, usage(fmt.Errorf("label %q: key=value is asked for", pair))
		}
		labels[key] = value
	}
	return labels, nil
}

func formatLabels(labels map[string]string) string {
	pairs := make([]string, 0, len(labels))
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		pairs = append(pairs, key+"="+labels[key])
	}
	return strings.Join(pairs, ",")
}
