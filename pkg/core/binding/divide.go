package binding

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/objref"
)

// A policy that selects very much has several Bindings: every update of an object costs etcd the
// whole of it, and etcd takes no more than 1.5 MiB at once. The first Binding is named after the
// policy; the others are its overflow.

// DefaultMaxSize is how large the spec of a Binding becomes before another one begins, in bytes of
// JSON: about 2,000 objects. The record of field managers that the API server keeps beside it is as
// large again.
const DefaultMaxSize = 400 << 10

// Unite returns what the Bindings of one policy say together, in the contract's order; nil if there
// are none. Of an object that several list, the first one counts. The result may share memory with
// the specs.
func Unite(specs []*controlv1alpha1.BindingSpec) *controlv1alpha1.BindingSpec {
	switch len(specs) {
	case 0:
		return nil
	case 1:
		return specs[0]
	}
	seen := map[objref.Ref]bool{}
	var entries []match.Match
	var clusters []string
	for _, spec := range specs {
		for e := range match.Entries(spec) {
			if !seen[e.Ref] {
				seen[e.Ref] = true
				entries = append(entries, e)
			}
		}
		clusters = append(clusters, clustersOf(spec)...)
	}
	united := assemble(entries, clusters)
	return &united
}

// Divide divides a spec over the Bindings that there are, and as many new ones as it takes for none
// to be larger than maxSize. The result has a spec for each of stored, which may be empty, and then
// those of new Bindings; all have all destinations.
//
// An object stays in the Binding that lists it, however large that has become: to move it would
// take it out of one work and into another for nothing (invariant 4). A new one goes to the first
// Binding with room.
func Divide(spec controlv1alpha1.BindingSpec, stored []*controlv1alpha1.BindingSpec, maxSize int) []controlv1alpha1.BindingSpec {
	// Many clusters must not leave a Binding for each object.
	objects := max(maxSize-frameSize(spec.Destinations), maxSize/4)
	whole := 0
	for e := range match.Entries(&spec) {
		whole += sizeOf(&e)
	}
	if len(stored) <= 1 && whole <= objects {
		return []controlv1alpha1.BindingSpec{spec}
	}

	home := map[objref.Ref]int{}
	for i, s := range stored {
		for e := range match.Entries(s) {
			if _, known := home[e.Ref]; !known {
				home[e.Ref] = i
			}
		}
	}
	sizes := slices.Repeat([]int{0}, max(1, len(stored)))
	for e := range match.Entries(&spec) {
		if i, stays := home[e.Ref]; stays {
			sizes[i] += sizeOf(&e)
		}
	}
	parts := slices.Repeat([][]match.Match{nil}, len(sizes))
	// Objects without a Namespace come first: so what others need, Namespaces among them, is in the
	// first Bindings.
	for e := range match.Entries(&spec) {
		i, stays := home[e.Ref]
		if !stays {
			i = slices.IndexFunc(sizes, func(used int) bool { return used == 0 || used+sizeOf(&e) <= objects })
			if i < 0 {
				i = len(sizes)
				sizes, parts = append(sizes, 0), append(parts, nil)
			}
			sizes[i] += sizeOf(&e)
		}
		parts[i] = append(parts[i], e)
	}
	specs := make([]controlv1alpha1.BindingSpec, len(parts))
	for i, part := range parts {
		specs[i] = assemble(part, nil)
		specs[i].Destinations = spec.Destinations
	}
	return specs
}

// OverflowName returns the name of the nth Binding of a policy, n from 2. Very long names are cut,
// and then carry a hash of the policy's name.
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

// sizeOf returns the size of an entry in JSON with its punctuation; names need no escapes.
func sizeOf(e *match.Match) int {
	size := len(`{"group":"","version":"","resource":"","name":"","resourceVersion":""},`) +
		len(e.Ref.Group) + len(e.Version) + len(e.Ref.Resource) + len(e.Ref.Name) + len(e.ResourceVersion)
	if e.Ref.Namespace != "" {
		size += len(`"namespace":"",`) + len(e.Ref.Namespace)
	}
	for _, flag := range []bool{e.Modulation.CreateOnly, e.Modulation.WantSingletonReportedState, e.Modulation.WantMultiWECReportedState} {
		if flag {
			size += len(`"wantMultiWECReportedState":true,`) // the longest
		}
	}
	if len(e.Modulation.StatusCollectors) > 0 {
		size += len(`"statusCollectors":[],`)
		for _, name := range e.Modulation.StatusCollectors {
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
