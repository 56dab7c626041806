package transform

import (
	"slices"
	"strings"
)

// pod drops what admission and the scheduler of the WDS added to a Pod that has no controller: it
// does not fit another cluster, where the same is added.
func pod(_ string, obj map[string]any, w *written) {
	spec, ok := obj["spec"].(map[string]any)
	if !ok {
		return
	}
	// Admission refuses another priority than that of the class, which each cluster has of its own.
	delete(spec, "priority")
	w.dropUnwritten(spec, "preemptionPolicy", "nodeName", "imagePullSecrets")
	dropFrom(spec, "tolerations", isDefaultToleration)
	tokens := dropFrom(spec, "volumes", func(volume map[string]any) bool {
		name, _ := volume["name"].(string)
		return strings.HasPrefix(name, "kube-api-access-") && volume["projected"] != nil && !w.isWritten("spec", "volumes", key{"name": name})
	})
	for _, field := range []string{"initContainers", "containers", "ephemeralContainers"} {
		containers, _ := spec[field].([]any)
		for _, c := range containers {
			container, ok := c.(map[string]any)
			if !ok {
				continue
			}
			dropFrom(container, "volumeMounts", func(mount map[string]any) bool {
				return slices.ContainsFunc(tokens, func(volume map[string]any) bool { return volume["name"] == mount["name"] })
			})
		}
	}
}

// isDefaultToleration reports whether a toleration is one that admission adds to every Pod.
func isDefaultToleration(toleration map[string]any) bool {
	const seconds = int64(300)
	name := toleration["key"]
	return (name == "node.kubernetes.io/not-ready" || name == "node.kubernetes.io/unreachable") && toleration["operator"] == "Exists" &&
		toleration["effect"] == "NoExecute" && toleration["tolerationSeconds"] == seconds
}

// dropFrom drops elements from a list, and the list if none is left. It returns what it dropped.
func dropFrom(fields map[string]any, field string, drop func(map[string]any) bool) (dropped []map[string]any) {
	list, ok := fields[field].([]any)
	if !ok {
		return nil
	}
	kept := slices.DeleteFunc(list, func(item any) bool {
		element, _ := item.(map[string]any)
		if element == nil || !drop(element) {
			return false
		}
		dropped = append(dropped, element)
		return true
	})
	fields[field] = kept
	if len(kept) == 0 && len(dropped) > 0 {
		delete(fields, field)
	}
	return dropped
}
