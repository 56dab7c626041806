package transform

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	"github.com/starlinghq/starling/pkg/core/objref"
)

const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// unsentLabels are written by us into the WDS. If they were delivered, returning a status would
// cause a delivery.
var unsentLabels = []string{
	controlv1alpha1.LabelSingletonStatus, controlv1alpha1.LabelMultiWECStatus, controlv1alpha1.LabelExecutingCount,
}

// unsentAnnotations are not for clusters, but for kubectl and ourselves.
var unsentAnnotations = []string{
	lastApplied, controlv1alpha1.AnnotationApply, controlv1alpha1.AnnotationIgnoreFields, controlv1alpha1.AnnotationOnRemoval,
	controlv1alpha1.AnnotationSourceGeneration,
}

// keepUserMetadata retains name, namespace, labels and annotations: all else in metadata belongs to
// the server that it came from. This is a list of what stays, so that fields that servers add later
// are not delivered. Empty maps are removed, since the API server that has the mailboxes removes
// them too, and the hash must be that of what it stores.
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

// dropStatus drops the status, also of kinds without a status subresource: what runs in a cluster
// is reported from there.
func dropStatus(_ objref.Ref, obj map[string]any) error {
	delete(obj, "status")
	return nil
}

// ofKinds are the steps for objects of some kinds, by the name of the object, and by what of it
// users wrote.
var ofKinds = map[schema.GroupResource]func(name string, obj map[string]any, w *written){
	{Resource: "services"}:                                                 service,
	{Resource: "pods"}:                                                     pod,
	{Resource: "secrets"}:                                                  secret,
	{Group: "batch", Resource: "jobs"}:                                     job,
	{Resource: "persistentvolumeclaims"}:                                   claim,
	{Resource: "persistentvolumes"}:                                        volume,
	{Resource: "serviceaccounts"}:                                          serviceAccount,
	{Resource: "replicationcontrollers"}:                                   scaled,
	{Group: "apps", Resource: "deployments"}:                               scaled,
	{Group: "apps", Resource: "statefulsets"}:                              scaled,
	{Group: "apps", Resource: "replicasets"}:                               scaled,
	{Group: "rbac.authorization.k8s.io", Resource: "clusterroles"}:         clusterRole,
	{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}: definition,
}

// dropAssigned drops what each cluster decides for its own objects of some kinds, unless users
// wrote it. It comes before what it reads of the metadata is removed.
func dropAssigned(ref objref.Ref, obj map[string]any) error {
	if step := ofKinds[ref.GroupResource()]; step != nil {
		step(ref.Name, obj, writtenIn(obj))
	}
	return nil
}

// dropDefault drops a field of the spec that has its default, unless someone wrote just that: the
// cluster has the same default, or another one for a reason.
func (w *written) dropDefault(spec map[string]any, field string, value any) {
	if spec[field] == value && !w.isSaid("spec", field) {
		delete(spec, field)
	}
}

// dropUnwritten drops fields of the spec that nobody wrote.
func (w *written) dropUnwritten(spec map[string]any, fields ...string) {
	for _, field := range fields {
		if !w.isWritten("spec", field) {
			delete(spec, field)
		}
	}
}

// scaled drops the default of replicas: whatever scales the object in a cluster owns them.
func scaled(_ string, obj map[string]any, w *written) {
	if spec, ok := obj["spec"].(map[string]any); ok {
		w.dropDefault(spec, "replicas", int64(1))
	}
}

// clusterRole drops the rules that each cluster aggregates.
func clusterRole(_ string, obj map[string]any, _ *written) {
	if obj["aggregationRule"] != nil {
		delete(obj, "rules")
	}
}

// definition drops a conversion by a webhook that nobody serves: a cluster that called it could not
// read the objects.
func definition(_ string, obj map[string]any, _ *written) {
	if name, _, _ := unstructured.NestedString(obj, "spec", "conversion", "webhook", "clientConfig", "service", "name"); name == pkgv1.UnnamedWebhookService {
		removeFrom(obj, []string{"spec"}, "conversion")
	}
}

// secret leaves of a token nothing but its declaration: each cluster issues its own.
func secret(_ string, obj map[string]any, _ *written) {
	if obj["type"] != "kubernetes.io/service-account-token" {
		return
	}
	delete(obj, "data")
	removeFrom(obj, []string{"metadata", "annotations"}, "kubernetes.io/service-account.uid")
	removeFrom(obj, []string{"metadata", "labels"}, "kubernetes.io/legacy-token-last-used", "kubernetes.io/legacy-token-invalid-since")
}

// job drops what connects a Job with its own Pods, unless its users chose that: each cluster
// generates it itself.
func job(_ string, obj map[string]any, w *written) {
	removeFrom(obj, []string{"metadata", "annotations"}, "batch.kubernetes.io/job-tracking")
	spec, ok := obj["spec"].(map[string]any)
	if !ok {
		return
	}
	w.dropDefault(spec, "suspend", false)
	// A cluster that removes a finished Job after this time lacks it, and its agent creates it
	// again: the Job would run every few minutes.
	delete(spec, "ttlSecondsAfterFinished")
	if manual, _ := spec["manualSelector"].(bool); manual {
		return
	}
	labels := []string{"controller-uid", "batch.kubernetes.io/controller-uid"}
	removeFrom(obj, []string{"metadata", "labels"}, labels...)
	removeFrom(obj, []string{"spec", "template", "metadata", "labels"}, labels...)
	delete(spec, "selector")
}

// boundByController is put on claims and volumes whose other half a controller chose, not the user.
const boundByController = "pv.kubernetes.io/bound-by-controller"

// claim drops what the controllers of a space with volumes wrote about its own volumes: each
// cluster binds its own. A volume that the user named stays.
func claim(_ string, obj map[string]any, _ *written) {
	if annotation(obj, boundByController) != "" {
		removeFrom(obj, []string{"spec"}, "volumeName")
	}
	removeFrom(obj, []string{"metadata", "annotations"}, boundByController, "pv.kubernetes.io/bind-completed",
		"volume.beta.kubernetes.io/storage-provisioner", "volume.kubernetes.io/storage-provisioner", "volume.kubernetes.io/selected-node")
}

// volume does the same for the other half. A claim that the user named stays, but not which of that
// name it was.
func volume(_ string, obj map[string]any, _ *written) {
	if annotation(obj, boundByController) != "" {
		removeFrom(obj, []string{"spec"}, "claimRef")
	} else {
		removeFrom(obj, []string{"spec", "claimRef"}, "uid", "resourceVersion")
	}
	removeFrom(obj, []string{"metadata", "annotations"}, boundByController)
}

// serviceAccount drops the Secrets that controllers created for the account in its space, by the
// names that they give.
func serviceAccount(account string, obj map[string]any, _ *written) {
	for _, field := range []string{"secrets", "imagePullSecrets"} {
		secrets, ok := obj[field].([]any)
		if !ok {
			continue
		}
		kept := slices.DeleteFunc(secrets, func(secret any) bool {
			fields, _ := secret.(map[string]any)
			name, _ := fields["name"].(string)
			return strings.HasPrefix(name, account+"-token-") || strings.HasPrefix(name, account+"-dockercfg-")
		})
		if len(kept) == 0 {
			delete(obj, field)
		} else {
			obj[field] = kept
		}
	}
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

// removeFrom removes keys from the map at path, and that map from its parent if nothing is left of
// it: an empty map in metadata is not stored.
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
