package transform

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
)

const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// unsentLabels are written by us into the WDS. Were they delivered, returning a status would cause a delivery.
var unsentLabels = []string{
	controlv1alpha1.LabelSingletonStatus, controlv1alpha1.LabelMultiWECStatus, controlv1alpha1.LabelExecutingCount,
}

// unsentAnnotations are for others than the clusters: kubectl, and ourselves.
var unsentAnnotations = []string{
	lastApplied, controlv1alpha1.AnnotationApply, controlv1alpha1.AnnotationIgnoreFields, controlv1alpha1.AnnotationOnRemoval,
	controlv1alpha1.AnnotationSourceGeneration,
}

// keepUserMetadata leaves name, namespace, labels and annotations: all else in metadata belongs to the server it came from.
// This list says what stays, so that what servers may add later does not go out. Empty maps go, since the API server that
// holds the mailboxes drops them too and the hash must be that of what it stores.
func keepUserMetadata(_ objref.Ref, obj map[string]any) error {
	metadata, _ := obj["metadata"].(map[string]any)
	kept := map[string]any{}
	for _, field := range []string{"name", "namespace"} {
		if s, ok := metadata[field].(string); ok && s != "" {
			kept[field] = s
		}
	}
	if kept["name"] == nil {
		return errors.New("the object has no name")
	}
	for field, unsent := range map[string][]string{"labels": unsentLabels, "annotations": unsentAnnotations} {
		values, _ := metadata[field].(map[string]any)
		for key, value := range values {
			if _, ok := value.(string); !ok {
				return fmt.Errorf("metadata.%s[%q] is no string", field, key)
			}
		}
		remove(values, unsent...)
		if len(values) > 0 {
			kept[field] = values
		}
	}
	obj["metadata"] = kept
	return nil
}

// dropStatus drops the status, also of kinds without a status subresource: what runs in a cluster is reported from there.
func dropStatus(_ objref.Ref, obj map[string]any) error {
	delete(obj, "status")
	return nil
}

// service drops what each cluster assigns to its own Services.
func service(ref objref.Ref, obj map[string]any) error {
	if ref.Group != "" || ref.Resource != "services" {
		return nil
	}
	spec, ok := obj["spec"].(map[string]any)
	if !ok {
		return nil
	}
	remove(spec, "ipFamilies", "externalTrafficPolicy", "internalTrafficPolicy", "ipFamilyPolicy", "sessionAffinity",
		"healthCheckNodePort") // valid only beside the externalTrafficPolicy that was just dropped
	// "None" is not assigned but asked for: it makes a Service headless.
	const headless = "None"
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
	if annotation(obj, controlv1alpha1.AnnotationPreserve) == "nodeport" {
		return nil
	}
	ports, _ := spec["ports"].([]any)
	for _, p := range ports {
		if port, ok := p.(map[string]any); ok {
			delete(port, "nodePort")
		}
	}
	return nil
}

// job drops what ties a Job to its own Pods: each cluster generates that anew.
func job(ref objref.Ref, obj map[string]any) error {
	if ref.Group != "batch" || ref.Resource != "jobs" {
		return nil
	}
	labels := []string{"controller-uid", "batch.kubernetes.io/controller-uid"}
	removeFrom(obj, []string{"metadata", "annotations"}, "batch.kubernetes.io/job-tracking")
	removeFrom(obj, []string{"metadata", "labels"}, labels...)
	removeFrom(obj, []string{"spec", "template", "metadata", "labels"}, labels...)
	removeFrom(obj, []string{"spec"}, "selector", "suspend")
	return nil
}

// boundByController is put on claims and volumes whose other half a controller chose, not the user.
const boundByController = "pv.kubernetes.io/bound-by-controller"

// claim drops what the controllers of a space with volumes wrote about its own: each cluster binds for itself. A volume that the
// user named stays.
func claim(ref objref.Ref, obj map[string]any) error {
	if ref.Group != "" || ref.Resource != "persistentvolumeclaims" {
		return nil
	}
	if annotation(obj, boundByController) != "" {
		removeFrom(obj, []string{"spec"}, "volumeName")
	}
	removeFrom(obj, []string{"metadata", "annotations"}, boundByController, "pv.kubernetes.io/bind-completed",
		"volume.beta.kubernetes.io/storage-provisioner", "volume.kubernetes.io/storage-provisioner", "volume.kubernetes.io/selected-node")
	return nil
}

// volume does the same for the other half. A claim that the user named stays, but not which of that name it was.
func volume(ref objref.Ref, obj map[string]any) error {
	if ref.Group != "" || ref.Resource != "persistentvolumes" {
		return nil
	}
	if annotation(obj, boundByController) != "" {
		removeFrom(obj, []string{"spec"}, "claimRef")
	} else {
		removeFrom(obj, []string{"spec", "claimRef"}, "uid", "resourceVersion")
	}
	removeFrom(obj, []string{"metadata", "annotations"}, boundByController)
	return nil
}

// serviceAccount drops the Secrets that controllers made for the account in its space, by the names that they give.
func serviceAccount(ref objref.Ref, obj map[string]any) error {
	if ref.Group != "" || ref.Resource != "serviceaccounts" {
		return nil
	}
	for _, field := range []string{"secrets", "imagePullSecrets"} {
		secrets, ok := obj[field].([]any)
		if !ok {
			continue
		}
		kept := slices.DeleteFunc(secrets, func(secret any) bool {
			fields, _ := secret.(map[string]any)
			name, _ := fields["name"].(string)
			return strings.HasPrefix(name, ref.Name+"-token-") || strings.HasPrefix(name, ref.Name+"-dockercfg-")
		})
		if len(kept) == 0 {
			delete(obj, field)
		} else {
			obj[field] = kept
		}
	}
	return nil
}

func annotation(obj map[string]any, key string) string {
	metadata, _ := obj["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	value, _ := annotations[key].(string)
	return value
}

func remove(m map[string]any, keys ...string) {
	for _, key := range keys {
		delete(m, key)
	}
}

// removeFrom removes keys from the map at path, and that map from its parent if nothing is left of it: an empty map in
// metadata is not stored.
func removeFrom(obj map[string]any, path []string, keys ...string) {
	parent := obj
	for _, field := range path[:len(path)-1] {
		parent, _ = parent[field].(map[string]any)
	}
	last := path[len(path)-1]
	m, ok := parent[last].(map[string]any)
	if !ok {
		return
	}
	before := len(m)
	remove(m, keys...)
	if len(m) == 0 && before > 0 {
		delete(parent, last)
	}
}
