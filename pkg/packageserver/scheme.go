package packageserver

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
	"github.com/starlinghq/starling/pkg/packages"
)

// newScheme returns a scheme in which the one version of our kinds is also what requests are worked on in.
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
	unversioned := schema.GroupVersion{Version: "v1"}
	scheme.AddUnversionedTypes(unversioned, &metav1.Status{}, &metav1.APIVersions{}, &metav1.APIGroupList{}, &metav1.APIGroup{}, &metav1.APIResourceList{})
	for _, kind := range []string{"PackageRevision", "PackageRevisionResources", "PorchPackage"} {
		if err := scheme.AddFieldLabelConversionFunc(porchv1alpha1.GroupVersion.WithKind(kind), knownField); err != nil {
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

// keptFields are the field selectors that are selectors of what is kept as well.
var keptFields = []string{
	nameField, namespaceField, "spec.revision", "spec.packageName", "spec.repository", "spec.workspaceName", "spec.lifecycle",
}

// knownField refuses what nothing can be selected by.
func knownField(name, value string) (field, v string, err error) {
	if slices.Contains(keptFields, name) || strings.HasPrefix(name, metadataLabelField) && strings.HasSuffix(name, "]") {
		return name, value, nil
	}
	return "", "", fmt.Errorf("%q is not a known field selector: only %s and %sKEY] are", name, strings.Join(keptFields, ", "), metadataLabelField)
}

// selectKept makes selectors of what is served selectors of what is kept: those of a Kptfile's labels select by labels there.
func selectKept(byField fields.Selector, byLabel labels.Selector) (fieldSelector, labelSelector string, err error) {
	if byLabel == nil {
		byLabel = labels.Everything()
	}
	var kept []fields.Selector
	if byField != nil {
		for _, r := range byField.Requirements() {
			if !strings.HasPrefix(r.Field, metadataLabelField) {
				one := fields.OneTermEqualSelector(r.Field, r.Value)
				if r.Operator == selection.NotEquals {
					one = fields.OneTermNotEqualSelector(r.Field, r.Value)
				}
				kept = append(kept, one)
				continue
			}
			key := strings.TrimSuffix(strings.TrimPrefix(r.Field, metadataLabelField), "]")
			requirement, err := labels.NewRequirement(packages.MetadataLabel(key), r.Operator, []string{packages.MetadataValue(r.Value)})
			if err != nil {
				return "", "", err
			}
			byLabel = byLabel.Add(*requirement)
		}
	}
	return fields.AndSelectors(kept...).String(), byLabel.String(), nil
}
