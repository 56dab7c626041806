package binding

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
)

// A policy that selects very much has several Bindings: every update of an object costs etcd the whole of it, and etcd takes no
// more than 1.5 MiB at once. The first Binding is named after the policy; the others are its overflow.

// DefaultMaxSize is how large the spec of a Binding becomes before another one begins, in bytes of JSON: about 2,000 objects. The
// record of field managers that the API server keeps beside it is as large again.
const DefaultMaxSize = 400 << 10

// Unite returns what the Bindings of one policy say together, in the contract's order; nil if there are none. Of an object that
// several list, the first one counts. The result may share memory with the specs.
func Unite(specs []*controlv1alpha1.BindingSpec) *controlv1alpha1.BindingSpec {
	switch len(specs) {
	case 0:
		return nil
	case 1:
		return specs[0]
	}
	seen := map[objref.Ref]bool{}
	var entries []entry
	var clusters []string
	for _, spec := range specs {
		for ref, e := range index(spec) {
			if !seen[ref] {
				seen[ref] = true
				entries = append(entries, e)
			}
		}
		for _, d := range spec.Destinations {
			clusters = append(clusters, d.ClusterID)
		}
	}
	sortEntries(entries)
	slices.Sort(clusters)
	united := assemble(entries, slices.Compact(clusters))
	return &united
}

// Divide divides a spec over the Bindings that there are, and as many new ones as it takes for none to be larger than maxSize. The
// result has a spec for each of stored, which may be empty, and then those of new Bindings; all have all destinations.
//
// An object stays in the Binding that lists it, however large that has become: to move it would take it out of one work and into
// another for nothing (invariant 4). A new one goes to the first Binding with room.
func Divide(spec controlv1alpha1.BindingSpec, stored []*controlv1alpha1.BindingSpec, maxSize int) []controlv1alpha1.BindingSpec {
	objects := maxSize - frameSize(spec.Destinations)
	// Many clusters must not leave a Binding for each object.
	objects = max(objects, maxSize/4)
	if len(stored) <= 1 && objectsSize(&spec) <= objects {
		return []controlv1alpha1.BindingSpec{spec}
	}

	home := map[objref.Ref]int{}
	for i, s := range stored {
		for ref := range index(s) {
			if _, known := home[ref]; !known {
				home[ref] = i
			}
		}
	}
	sizes := slices.Repeat([]int{0}, max(1, len(stored)))
	parts := slices.Repeat([]controlv1alpha1.BindingSpec{{}}, len(sizes))
	stays := func(ref objref.Ref, size int) {
		if i, ok := home[ref]; ok {
			sizes[i] += size
		}
	}
	eachObject(&spec, stays)
	// Objects without a Namespace come first: so what others need, Namespaces among them, is in the first Bindings.
	eachObject(&spec, func(ref objref.Ref, size int) {
		if _, ok := home[ref]; ok {
			return
		}
		i := slices.IndexFunc(sizes, func(used int) bool { return used == 0 || used+size <= objects })
		if i < 0 {
			i = len(sizes)
			sizes = append(sizes, 0)
			parts = append(parts, controlv1alpha1.BindingSpec{})
		}
		sizes[i] += size
		home[ref] = i
	})
	for i := range spec.Workload.ClusterScope {
		c := &spec.Workload.ClusterScope[i]
		part := &parts[home[clusterRef(c)]].Workload
		part.ClusterScope = append(part.ClusterScope, *c)
	}
	for i := range spec.Workload.NamespaceScope {
		c := &spec.Workload.NamespaceScope[i]
		part := &parts[home[namespaceRef(c)]].Workload
		part.NamespaceScope = append(part.NamespaceScope, *c)
	}
	for i := range parts {
		parts[i].Destinations = spec.Destinations
	}
	return parts
}

// Empty tells whether a spec lists no objects.
func Empty(spec *controlv1alpha1.BindingSpec) bool {
	return len(spec.Workload.ClusterScope)+len(spec.Workload.NamespaceScope) == 0
}

// OverflowName returns the name of the nth Binding of a policy, n from 2. Very long names are cut, and then carry a hash of the
// policy's name.
func OverflowName(policy string, n int) string {
	suffix := fmt.Sprintf("--%d", n)
	if len(policy)+len(suffix) <= validation.DNS1123SubdomainMaxLength {
		return policy + suffix
	}
	const digits = 10
	sum := sha256.Sum256([]byte(policy))
	suffix = "-" + hex.EncodeToString(sum[:])[:digits] + suffix
	return strings.TrimRight(policy[:validation.DNS1123SubdomainMaxLength-len(suffix)], "-.") + suffix
}

func eachObject(spec *controlv1alpha1.BindingSpec, visit func(objref.Ref, int)) {
	for i := range spec.Workload.ClusterScope {
		c := &spec.Workload.ClusterScope[i]
		visit(clusterRef(c), clusterSize(c))
	}
	for i := range spec.Workload.NamespaceScope {
		c := &spec.Workload.NamespaceScope[i]
		visit(namespaceRef(c), namespaceSize(c))
	}
}

func clusterRef(c *controlv1alpha1.ClusterScopeDownsyncClause) objref.Ref {
	return objref.Ref{Group: c.Group, Resource: c.Resource, Name: c.Name}
}

func namespaceRef(c *controlv1alpha1.NamespaceScopeDownsyncClause) objref.Ref {
	return objref.Ref{Group: c.Group, Resource: c.Resource, Namespace: c.Namespace, Name: c.Name}
}

func objectsSize(spec *controlv1alpha1.BindingSpec) int {
	size := 0
	for i := range spec.Workload.ClusterScope {
		size += clusterSize(&spec.Workload.ClusterScope[i])
	}
	for i := range spec.Workload.NamespaceScope {
		size += namespaceSize(&spec.Workload.NamespaceScope[i])
	}
	return size
}

// The sizes are those of JSON with its punctuation; names need no escapes.

const flagSize = len(`"wantMultiWECReportedState":true,`)

func clusterSize(c *controlv1alpha1.ClusterScopeDownsyncClause) int {
	const frame = len(`{"group":"","version":"","resource":"","name":"","resourceVersion":""},`)
	return frame + len(c.Group) + len(c.Version) + len(c.Resource) + len(c.Name) + len(c.ResourceVersion) + modulationSize(&c.DownsyncModulation)
}

func namespaceSize(c *controlv1alpha1.NamespaceScopeDownsyncClause) int {
	const frame = len(`{"group":"","version":"","resource":"","namespace":"","name":"","resourceVersion":""},`)
	return frame + len(c.Group) + len(c.Version) + len(c.Resource) + len(c.Namespace) + len(c.Name) + len(c.ResourceVersion) +
		modulationSize(&c.DownsyncModulation)
}

func modulationSize(m *controlv1alpha1.DownsyncModulation) int {
	size := 0
	for _, flag := range []bool{m.CreateOnly, m.WantSingletonReportedState, m.WantMultiWECReportedState} {
		if flag {
			size += flagSize
		}
	}
	if len(m.StatusCollectors) > 0 {
		size += len(`"statusCollectors":[],`)
		for _, name := range m.StatusCollectors {
			size += len(`"",`) + len(name)
		}
	}
	return size
}

// frameSize is the size of a spec without its objects.
func frameSize(destinations []controlv1alpha1.Destination) int {
	size := len(`{"workload":{"clusterScope":[],"namespaceScope":[]},"destinations":[]}`)
	for i := range destinations {
		size += len(`{"clusterId":""},`) + len(destinations[i].ClusterID)
	}
	return size
}
