package transaction

import (
	"cmp"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
)

// Target is what an object of a package becomes part of.
type Target struct {
	// Revision, Package and Transaction own the object.
	Revision, Package, Transaction Owner
	// Labels and Annotations are the common ones of the package.
	Labels, Annotations map[string]string
}

// FieldManager is the field manager of what Transactions write.
const FieldManager = "starling-transactions"

// RemovalManager is the field manager of what a Transaction writes to objects before it removes
// their package. It tells the annotation from the same one of the package or of a user, so that it
// can be removed if the package stays.
const RemovalManager = "starling-removal"

// Object returns an object of a package as it must be. live is the object as the API server has it,
// nil if there is none. Labels, annotations and finalizers of others stay, all else is that of the
// package: labels and annotations that a Transaction has written, and that the package does not
// have any more, go.
func Object(packaged, live *unstructured.Unstructured, to Target) *unstructured.Unstructured {
	desired := packaged.DeepCopy()
	unstructured.RemoveNestedField(desired.Object, "status")
	name, labels, annotations := packaged.GetName(), map[string]string{}, map[string]string{}
	var owners []metav1.OwnerReference
	desired.Object["metadata"] = map[string]any{"name": name}
	if live != nil {
		labels, annotations = othersOf(live, "labels"), othersOf(live, "annotations")
		owners = live.GetOwnerReferences()
		desired.SetResourceVersion(live.GetResourceVersion())
		desired.SetUID(live.GetUID())
		desired.SetFinalizers(live.GetFinalizers())
		keepCABundle(desired, live)
	}
	maps.Copy(labels, packaged.GetLabels())
	maps.Copy(annotations, packaged.GetAnnotations())
	maps.Copy(labels, to.Labels)
	maps.Copy(annotations, to.Annotations)
	labels[pkgv1.LabelTransaction] = to.Transaction.Name
	if len(to.Package.Name) <= maxName {
		labels[pkgv1.LabelPackage] = to.Package.Name
	}
	desired.SetLabels(labels)
	if len(annotations) > 0 {
		desired.SetAnnotations(annotations)
	}
	desired.SetOwnerReferences(OfObject(owners, to.Revision, to.Package, to.Transaction))
	return desired
}

// OnRemoval returns the value that the annotation starling.io/on-removal of a
// CustomResourceDefinition must have when its package is removed, "" for none. What the user wants
// counts, on the object or by the annotations that the package puts on all of its objects.
// Otherwise clusters keep it, since they may have objects of which the space does not know, unless
// the user allows to delete it with all objects of its kind.
func OnRemoval(live *unstructured.Unstructured, common map[string]string, allowed bool) string {
	wish := cmp.Or(othersOf(live, "annotations")[controlv1alpha1.AnnotationOnRemoval], common[controlv1alpha1.AnnotationOnRemoval])
	switch wish = strings.TrimSpace(wish); {
	case wish == "orphan" || wish == "delete":
		return wish
	case allowed:
		return ""
	}
	return "orphan" // also if what the user wants cannot be understood
}

// othersOf returns the labels or annotations of an object that no Transaction has written, or
// somebody else as well: the API server records who did.
func othersOf(live *unstructured.Unstructured, field string) map[string]string {
	ours, theirs := written(live, field, FieldManager, RemovalManager)
	values, _, _ := unstructured.NestedStringMap(live.Object, "metadata", field)
	if values == nil {
		values = map[string]string{}
	}
	maps.DeleteFunc(values, func(key, _ string) bool { return ours[key] && !theirs[key] })
	return values
}

// HasRemoval reports whether an object has the annotation starling.io/on-removal that a Transaction
// has written before the removal of its package, and nobody else.
func HasRemoval(o metav1.Object) bool {
	if o.GetAnnotations()[controlv1alpha1.AnnotationOnRemoval] == "" {
		return false
	}
	ours, theirs := written(o, "annotations", RemovalManager)
	return ours[controlv1alpha1.AnnotationOnRemoval] && !theirs[controlv1alpha1.AnnotationOnRemoval]
}

// written returns the labels or annotations that these managers have written, and those that others
// have.
func written(o metav1.Object, field string, managers ...string) (ours, theirs map[string]bool) {
	ours, theirs = map[string]bool{}, map[string]bool{}
	for _, entry := range o.GetManagedFields() {
		keys := theirs
		if slices.Contains(managers, entry.Manager) && entry.Operation == metav1.ManagedFieldsOperationUpdate {
			keys = ours
		}
		var fields struct {
			Metadata map[string]map[string]json.RawMessage `json:"f:metadata"`
		}
		if entry.FieldsV1 == nil || json.Unmarshal(entry.FieldsV1.Raw, &fields) != nil {
			continue // without the knowledge whose they are, they stay
		}
		for key := range fields.Metadata["f:"+field] {
			keys[strings.TrimPrefix(key, "f:")] = true
		}
	}
	return ours, theirs
}

// keepCABundle keeps the certificate of a conversion webhook that something put into a
// CustomResourceDefinition: packages do not have it.
func keepCABundle(desired, live *unstructured.Unstructured) {
	path := []string{"spec", "conversion", "webhook", "clientConfig"}
	config, found, _ := unstructured.NestedMap(desired.Object, path...)
	if bundle, had, _ := unstructured.NestedString(live.Object, append(path, "caBundle")...); found && had && config["caBundle"] == nil {
		config["caBundle"] = bundle
		_ = unstructured.SetNestedMap(desired.Object, config, path...) // its parents are maps
	}
}

// Same reports whether a write would change nothing: stored is the object as the API server would
// store it, live as it is.
func Same(stored, live *unstructured.Unstructured) bool {
	return reflect.DeepEqual(withoutServerFields(stored), withoutServerFields(live))
}

func withoutServerFields(o *unstructured.Unstructured) map[string]any {
	content := maps.Clone(o.Object)
	delete(content, "status")
	if metadata, ok := content["metadata"].(map[string]any); ok {
		metadata = maps.Clone(metadata)
		for _, field := range []string{"managedFields", "resourceVersion", "generation"} {
			delete(metadata, field)
		}
		content["metadata"] = metadata
	}
	return content
}

// ControllerOf returns the owner that controls an object, nil if there is none.
func ControllerOf(o metav1.Object) *Owner {
	ref := metav1.GetControllerOfNoCopy(o)
	if ref == nil {
		return nil
	}
	return &Owner{APIVersion: ref.APIVersion, Kind: ref.Kind, Name: ref.Name, UID: ref.UID}
}
