package transform

import (
	"reflect"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
)

const (
	// headless is the clusterIP of a Service that has none. It is asked for, never assigned.
	headless = "None"
	// affinitySeconds is the default of how long a client stays with a Pod.
	affinitySeconds = int64(10800)
)

// service drops what the WDS assigned to a Service, and defaults that nobody wrote: each cluster
// has its own.
func service(_ string, obj map[string]any, w *written) {
	spec, ok := obj["spec"].(map[string]any)
	if !ok {
		return
	}
	w.dropDefault(spec, "externalTrafficPolicy", "Cluster")
	w.dropDefault(spec, "internalTrafficPolicy", "Cluster")
	w.dropUnwritten(spec, "ipFamilies", "ipFamilyPolicy", "healthCheckNodePort")
	w.dropDefault(spec, "ipFamilyPolicy", "SingleStack")
	dropAffinity(spec, w)
	dropAddresses(spec, w)
	if annotation(obj, controlv1alpha1.AnnotationPreserve) == "nodeport" {
		return
	}
	ports, _ := spec["ports"].([]any)
	for _, p := range ports {
		port, ok := p.(map[string]any)
		if !ok {
			continue
		}
		protocol, _ := port["protocol"].(string)
		if protocol == "" {
			protocol = "TCP"
		}
		if !w.isWritten("spec", "ports", key{"port": port["port"], "protocol": protocol}, "nodePort") {
			delete(port, "nodePort")
		}
	}
}

func dropAffinity(spec map[string]any, w *written) {
	w.dropDefault(spec, "sessionAffinity", "None")
	defaults := map[string]any{"clientIP": map[string]any{"timeoutSeconds": affinitySeconds}}
	if spec["sessionAffinity"] != "ClientIP" || reflect.DeepEqual(spec["sessionAffinityConfig"], defaults) && !w.isSaid("spec", "sessionAffinityConfig") {
		delete(spec, "sessionAffinityConfig")
	}
}

// dropAddresses drops the addresses that the WDS assigned.
func dropAddresses(spec map[string]any, w *written) {
	if spec["clusterIP"] != headless && w.isWritten("spec", "clusterIP") {
		w.dropUnwritten(spec, "clusterIPs")
		return
	}
	if spec["clusterIP"] != headless {
		delete(spec, "clusterIP")
	}
	ips, _ := spec["clusterIPs"].([]any)
	delete(spec, "clusterIPs")
	var kept []any
	for _, ip := range ips {
		if ip == headless {
			kept = append(kept, ip)
		}
	}
	if len(kept) > 0 {
		spec["clusterIPs"] = kept
	}
}
