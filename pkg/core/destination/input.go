package destination

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	pkgv1beta1 "github.com/starlinghq/starling/api/pkg/v1beta1"
	"github.com/starlinghq/starling/pkg/core/crdcheck"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/objref"
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
	// Takes: the custom resources of the space are deleted with the CRD, as the user allows.
	Takes bool
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

// Policy is a BindingPolicy.
type Policy struct {
	Name string
	// Compiled is nil if the policy cannot be understood: its Bindings stay as they are.
	Compiled *match.Policy
	// Objects and Clusters are what its Bindings list.
	Objects  map[objref.Ref]bool
	Clusters map[string]bool
}

// Cluster is a cluster, as far as it is known.
type Cluster struct {
	Name   string
	Labels map[string]string
	// Kubernetes is its version; "" if it is not known.
	Kubernetes string
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

// Foreign is an object that another space delivers to a cluster.
type Foreign struct {
	// Space is the name of the space.
	Space string
	*Object
}

// Object is an object with its content, which must not change.
type Object struct {
	Ref     objref.Ref
	Labels  map[string]string
	Content map[string]any
	// CRD is the object if it is a CustomResourceDefinition.
	CRD *CRD

	hash string
}

// NewObject returns an Object. The error says that a CustomResourceDefinition cannot be decoded.
func NewObject(ref objref.Ref, content *unstructured.Unstructured) (*Object, error) {
	o := &Object{Ref: ref, Labels: content.GetLabels(), Content: content.Object}
	if ref.GroupResource() == definitions {
		o.CRD = &CRD{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content.Object, o.CRD); err != nil {
			return nil, err
		}
		o.hash = crdcheck.Hash(o.CRD)
		return o, nil
	}
	// What the server keeps in metadata changes with each write, and no schema is about it.
	hashed := maps.Clone(content.Object)
	hashed["metadata"] = nil
	raw, err := json.Marshal(hashed)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(append([]byte(ref.String()+"\n"), raw...))
	o.hash = hex.EncodeToString(sum[:])
	return o, nil
}
