package bundle

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/starlinghq/starling/pkg/core/redact"
)

// kind is a resource that is collected.
type kind struct {
	schema.GroupResource
	// metadata requests the metadata of objects only, so that nothing else is read.
	metadata bool
	// reduce, if not nil, returns what is kept of an object, which it may change.
	reduce func(obj map[string]any) map[string]any
}

func of(group string, resources ...string) []kind {
	var all []kind
	for _, resource := range resources {
		all = append(all, kind{GroupResource: schema.GroupResource{Group: group, Resource: resource}})
	}
	return all
}

func reduced(group, resource string, reduce func(map[string]any) map[string]any) []kind {
	return []kind{{GroupResource: schema.GroupResource{Group: group, Resource: resource}, reduce: reduce}}
}

func metadataOf(group, resource string) []kind {
	return []kind{{GroupResource: schema.GroupResource{Group: group, Resource: resource}, metadata: true, reduce: identity}}
}

// kindsOfSpaces returns what is collected from a space. What a space does not serve is skipped.
// The workload in a WDS is not collected: it belongs to users.
func kindsOfSpaces() []kind {
	return join(
		of("control.kubestellar.io", "bindingpolicies", "bindings", "customtransforms", "statuscollectors"),
		reduced("control.kubestellar.io", "combinedstatuses", withoutRows),
		reduced("control.kubestellar.io", "workstatuses", withoutStatusOfSecrets),
		of("config.porch.kpt.dev", "repositories", "packagevariants", "packagevariantsets"),
		reduced("store.starling.io", "packagerevisions", conditions),
		of("cluster.open-cluster-management.io", "managedclusters"),
		of("addon.open-cluster-management.io", "managedclusteraddons", "clustermanagementaddons", "addondeploymentconfigs"),
		reduced("work.open-cluster-management.io", "manifestworks", withoutPayload),
		of("work.open-cluster-management.io", "appliedmanifestworks"),
		of("coordination.k8s.io", "leases"),
		of("", "events"),
		metadataOf("", "namespaces"),
		reduced("certificates.k8s.io", "certificatesigningrequests", conditions),
		reduced("apiextensions.k8s.io", "customresourcedefinitions", conditions),
		of("apiregistration.k8s.io", "apiservices"),
		of("admissionregistration.k8s.io", "validatingwebhookconfigurations", "mutatingwebhookconfigurations"),
		metadataOf("admissionregistration.k8s.io", "validatingadmissionpolicies"),
	)
}

// kindsOfHost returns what is collected from the namespace of a hosting cluster.
func kindsOfHost() []kind {
	return join(
		of("", "pods", "services", "serviceaccounts", "configmaps", "persistentvolumeclaims", "events"),
		metadataOf("", "secrets"),
		of("apps", "deployments", "statefulsets"),
		of("batch", "jobs", "cronjobs"),
		of("networking.k8s.io", "networkpolicies", "ingresses"),
		of("policy", "poddisruptionbudgets"),
		of("coordination.k8s.io", "leases"),
		of("rbac.authorization.k8s.io", "roles", "rolebindings"),
	)
}

func join(all ...[]kind) []kind {
	var out []kind
	for _, kinds := range all {
		out = append(out, kinds...)
	}
	return out
}

// identity returns what identifies an object: no annotations, which can have copies of all of it.
func identity(obj map[string]any) map[string]any {
	out := map[string]any{}
	metadata, _ := obj["metadata"].(map[string]any)
	for _, field := range []string{"name", "namespace", "uid", "labels", "creationTimestamp", "deletionTimestamp", "finalizers", "ownerReferences"} {
		if value, ok := metadata[field]; ok {
			out[field] = value
		}
	}
	return map[string]any{"metadata": out}
}

// conditions returns the identity of an object and its conditions.
func conditions(obj map[string]any) map[string]any {
	out := identity(obj)
	if status, ok := obj["status"].(map[string]any); ok && status["conditions"] != nil {
		out["status"] = map[string]any{"conditions": status["conditions"]}
	}
	return out
}

// withoutPayload returns a ManifestWork with the names and sizes of its manifests, and without the
// values that it reports of them.
func withoutPayload(obj map[string]any) map[string]any {
	spec, _ := obj["spec"].(map[string]any)
	workload, _ := spec["workload"].(map[string]any)
	if manifests, ok := workload["manifests"].([]any); ok {
		for i, manifest := range manifests {
			manifests[i] = nameOf(manifest)
		}
	}
	status, _ := obj["status"].(map[string]any)
	resources, _ := status["resourceStatus"].(map[string]any)
	manifests, _ := resources["manifests"].([]any)
	for _, manifest := range manifests {
		if fields, ok := manifest.(map[string]any); ok {
			delete(fields, "statusFeedback")
		}
	}
	return obj
}

func nameOf(manifest any) map[string]any {
	fields, _ := manifest.(map[string]any)
	metadata, _ := fields["metadata"].(map[string]any)
	out := map[string]any{"apiVersion": fields["apiVersion"], "kind": fields["kind"], "name": metadata["name"]}
	if metadata["namespace"] != nil {
		out["namespace"] = metadata["namespace"]
	}
	if text, err := json.Marshal(manifest); err == nil {
		out["bytes"] = int64(len(text))
	}
	return out
}

// withoutRows returns a CombinedStatus with the number of its rows: expressions of users compute
// them, from any field of an object.
func withoutRows(obj map[string]any) map[string]any {
	results, _ := obj["results"].([]any)
	for _, result := range results {
		fields, _ := result.(map[string]any)
		if rows, ok := fields["rows"].([]any); ok {
			fields["rows"] = int64(len(rows))
		}
	}
	return obj
}

// withoutStatusOfSecrets returns a WorkStatus, without status if it is that of a Secret.
func withoutStatusOfSecrets(obj map[string]any) map[string]any {
	spec, _ := obj["spec"].(map[string]any)
	source, _ := spec["sourceRef"].(map[string]any)
	if (source["kind"] == "Secret" || source["resource"] == "secrets") && obj["status"] != nil {
		obj["status"] = redact.Removed
	}
	return obj
}
