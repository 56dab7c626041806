package destination

import (
	"strconv"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	pkgv1beta1 "github.com/starlinghq/starling/api/pkg/v1beta1"
	"github.com/starlinghq/starling/pkg/core/customize"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/options"
)

// CRD is a CustomResourceDefinition.
type CRD = apiextensionsv1.CustomResourceDefinition

// Input is all that Evaluate decides by.
type Input struct {
	// Changes are the CRDs that the proposal creates, updates or deletes. Each CRD is in one of
	// them.
	Changes []Change
	// Unchanged are the CRDs of installed packages that do not change.
	Unchanged []Owned
	// Policies are those of the space.
	Policies []Policy
	// Clusters are the accepted clusters.
	Clusters []Cluster
	// Resources are the custom resources of the space whose CRDs change.
	Resources []*Object
	// Namespaces are the labels of the Namespaces of the space.
	Namespaces map[string]map[string]string
	// Accepted are the CRDs whose breaking changes the user accepts.
	Accepted map[string]bool
	// Packages are those that the proposal installs or updates, by source.
	Packages map[string]Package
}

// Package is a package that the proposal installs or updates.
type Package struct {
	// Version is its version, in the form of a Lock.
	Version string
	// Kubernetes is the range of versions of Kubernetes that it states; "" for all.
	Kubernetes string
}

// Change is a CRD that a proposal creates, updates or deletes. The labels are those that select it.
type Change struct {
	// Package is the source of the package that has the CRD.
	Package string
	// Before is nil if the CRD is created, After if it is deleted.
	Before, After *CRD
	// Had and Gets are what is delivered of Before and After; nil: the CRDs themselves.
	Had, Gets *Object
	// Takes: the custom resources of the space are deleted with the CRD, as the user allows.
	Takes bool
	// OnRemoval is what the CRD requests for when it leaves clusters. What it leaves open is up to
	// the policies that deliver it.
	OnRemoval options.Requested
}

// Stays reports whether clusters keep the CRD when it leaves, whatever policies request.
func (c *Change) Stays() bool { return c.stays(options.Requested{}) }

func (c *Change) stays(requests options.Requested) bool {
	return c.OnRemoval.WithDefaults(requests).Options().Orphan
}

func (c *Change) crd() *CRD {
	if c.After != nil {
		return c.After
	}
	return c.Before
}

// Owned is a CRD of a package that does not change.
type Owned struct {
	// Package is the source of the package.
	Package string
	Name    string
	Labels  map[string]string
}

// Policy is a BindingPolicy, or a package that is delivered to clusters as a whole.
type Policy struct {
	Name string
	// Package is set for a package: it has all Changes and Resources of the Input, and is delivered
	// to Clusters. Compiled and Objects are not used then.
	Package bool
	// Compiled is nil if the policy cannot be understood: its Bindings stay as they are.
	Compiled *match.Policy
	// Objects and Clusters are what its Bindings list.
	Objects  map[objref.Ref]bool
	Clusters map[string]bool
	// OnRemoval is what its Bindings request for objects that leave clusters.
	OnRemoval options.Requested
}

// Cluster is a cluster, as far as it is known.
type Cluster struct {
	Name   string
	Labels map[string]string
	// Kubernetes is its version; "" if it is not known.
	Kubernetes string
	// Properties are the data of templates; nil if they are not known.
	Properties *customize.Properties
	// Stored are the stored versions of the CRDs that the cluster has reported, by name.
	Stored map[string][]string
	// Packages are those that other spaces have there, as its Lock says.
	Packages []pkgv1beta1.LockPackage
	// Held are the CRDs that the cluster keeps as they were before an earlier transaction. Their
	// content is not known.
	Held map[string]bool
	// Foreign are CRDs, and custom resources of CRDs that change, that other spaces deliver there.
	Foreign []Foreign
}

// Foreign is an object that another space delivers to a cluster, or another Binding of the space
// beside a package.
type Foreign struct {
	// Space is the name of the other space; "" for a Binding of the same one.
	Space string
	// Binding is the name of the Binding.
	Binding string
	*Object
}

// by returns who delivers the object.
func (f *Foreign) by() string {
	if f.Space == "" {
		return "Binding " + strconv.Quote(f.Binding)
	}
	return "workload definition space " + strconv.Quote(f.Space)
}
