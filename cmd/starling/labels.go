package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// parseLabels parses labels in the form key=value.
func parseLabels(pairs []string) (map[string]string, error) {
	labels := map[string]string{}
	for _, pair := range pairs {
		key, value, found := strings.Cut(pair, "=")
		if !found || key == "" {
			return nil, usage(fmt.Errorf("invalid label %q: must be key=value", pair))
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
