package apiserver

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/pkg/packages/store"
)

// newScheme returns a scheme in which the internal version has the same Go types as v1alpha1.
func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	if err := porchv1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	internal := schema.GroupVersion{Group: porchv1alpha1.GroupName, Version: runtime.APIVersionInternal}
	scheme.AddKnownTypes(internal,
		&porchv1alpha1.PackageRevision{}, &porchv1alpha1.PackageRevisionList{},
		&porchv1alpha1.PackageRevisionResources{}, &porchv1alpha1.PackageRevisionResourcesList{},
		&porchv1alpha1.PorchPackage{}, &porchv1alpha1.PorchPackageList{},
	)
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	for _, kind := range []string{"PackageRevision", "PackageRevisionResources", "PorchPackage"} {
		if err := scheme.AddFieldLabelConversionFunc(porchv1alpha1.GroupVersion.WithKind(kind), checkFieldSelector); err != nil {
			return nil, err
		}
	}
	return scheme, nil
}

const (
	metadataLabelField = "spec.packageMetadata.labels["
	nameField          = "metadata.name"
	namespaceField     = "metadata.namespace"
)

// storedFields are the field selectors that stored revisions have as well.
var storedFields = []string{
	nameField, namespaceField, "spec.revision", "spec.packageName", "spec.repository", "spec.workspaceName", "spec.lifecycle",
}

// checkFieldSelector refuses unknown field selectors.
func checkFieldSelector(name, value string) (field, v string, err error) {
	if slices.Contains(storedFields, name) || strings.HasPrefix(name, metadataLabelField) && strings.HasSuffix(name, "]") {
		return name, value, nil
	}
	return "", "", fmt.Errorf("%q is not a supported field selector: supported are %s and %sKEY]", name, strings.Join(storedFields, ", "), metadataLabelField)
}

// storedSelectors translates selectors of served revisions into selectors of stored ones. A field
// selector for a label of the Kptfile becomes a label selector.
func storedSelectors(byField fields.Selector, byLabel labels.Selector) (fieldSelector, labelSelector string, err error) {
	if byLabel == nil {
		byLabel = labels.Everything()
	}
	var stored []fields.Selector
	if byField != nil {
		for _, r := range byField.Requirements() {
			if !strings.HasPrefix(r.Field, metadataLabelField) {
				one := fields.OneTermEqualSelector(r.Field, r.Value)
				if r.Operator == selection.NotEquals {
					one = fields.OneTermNotEqualSelector(r.Field, r.Value)
				}
				stored = append(stored, one)
				continue
			}
			key := strings.TrimSuffix(strings.TrimPrefix(r.Field, metadataLabelField), "]")
			requirement, err := labels.NewRequirement(store.MetadataLabel(key), r.Operator, []string{store.MetadataValue(r.Value)})
			if err != nil {
				return "", "", err
			}
			byLabel = byLabel.Add(*requirement)
		}
	}
	return fields.AndSelectors(stored...).String(), byLabel.String(), nil
}
