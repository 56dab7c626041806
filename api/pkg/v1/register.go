package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of all kinds of this package.
const GroupName = "pkg.crossplane.io"

// GroupVersion is the group and version of all kinds of this package.
var GroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1"}

// Kinds of packages.
const (
	KindProvider      = "Provider"
	KindConfiguration = "Configuration"
	KindFunction      = "Function"
)

// Resources of packages.
var (
	Providers      = GroupVersion.WithResource("providers")
	Configurations = GroupVersion.WithResource("configurations")
	Functions      = GroupVersion.WithResource("functions")
)

// Resources of the revisions of packages.
var (
	ProviderRevisions      = GroupVersion.WithResource("providerrevisions")
	ConfigurationRevisions = GroupVersion.WithResource("configurationrevisions")
	FunctionRevisions      = GroupVersion.WithResource("functionrevisions")
)

// SchemeBuilder collects the functions that add this package's types to a scheme.
var SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

// AddToScheme adds all types of this package to a scheme.
var AddToScheme = SchemeBuilder.AddToScheme

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Provider{}, &ProviderList{}, &Configuration{}, &ConfigurationList{}, &Function{}, &FunctionList{},
		&ProviderRevision{}, &ProviderRevisionList{}, &ConfigurationRevision{}, &ConfigurationRevisionList{}, &FunctionRevision{}, &FunctionRevisionList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
