package status

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Request is what the policies that select an object ask for, together.
type Request struct {
	// Singleton is wantSingletonReportedState.
	Singleton Want
	// MultiWEC is wantMultiWECReportedState.
	MultiWEC Want
}

// Want is one form of status return that is asked for an object.
type Want struct {
	// Requested tells whether a clause that matches the object asks for this form.
	Requested bool
	// Clusters are the destinations of the policies whose matching clauses ask for this form; in any order, duplicates do
	// not count.
	Clusters []string
}

// Report is what one cluster says of one object.
type Report struct {
	// Status is the object's .status in the cluster; nil for an object that has none.
	Status map[string]any
}

// Evidence is all that Decide looks at.
type Evidence struct {
	// Request is what the policies ask for.
	Request Request
	// RequestKnown is false as long as the policies, the object or the inventory were not evaluated since the start.
	RequestKnown bool
	// Report returns what the cluster reports of the object, nil for nothing; known is false if "nothing" may only mean
	// that the reports of that cluster were not read yet, or that several contradict each other.
	Report func(cluster string) (report *Report, known bool)
}

// Action is what is to be done with the status of an object in the WDS.
type Action string

const (
	// Keep leaves the object as it is.
	Keep Action = "Keep"
	// Copy makes the object's status that of Decision.Status.
	Copy Action = "Copy"
	// Clear empties the object's status, if it is one that was copied before.
	Clear Action = "Clear"
)

// Decision is what Decide decided.
type Decision struct {
	Action Action
	// Cluster is where the status comes from, with Copy.
	Cluster string
	// Status is shared with the Report that it comes from, with Copy: do not change it.
	Status map[string]any
	// Reason says why in a few words, for logs and tests.
	Reason string
}

// Decide tells what becomes of the status of an object in the WDS. In the order of the contract:
//
//  1. Both forms asked for: one cluster in the union of both: its status is copied; otherwise multi-cluster over the union.
//  2. Singleton asked for with exactly one cluster, or multi-cluster with exactly one: its status is copied.
//  3. Multi-cluster asked for with several clusters: not served yet, the object stays as it is.
//  4. Otherwise the status is cleared.
//
// A copy needs exactly one report of that cluster; a report without a status changes nothing; no report clears. What is not
// known changes nothing.
func Decide(ref schema.GroupResource, in Evidence) Decision {
	if !Returnable(ref) {
		return Decision{Action: Keep, Reason: "status of this kind is never returned"}
	}
	if !in.RequestKnown {
		return Decision{Action: Keep, Reason: "not evaluated yet"}
	}
	singleton, multi := clusters(in.Request.Singleton), clusters(in.Request.MultiWEC)
	union := maps.Clone(singleton)
	maps.Copy(union, multi)
	both := in.Request.Singleton.Requested && in.Request.MultiWEC.Requested

	switch {
	case both && len(union) == 1:
		return copyFrom(only(union), in.Report)
	case both && len(union) > 1:
		return Decision{Action: Keep, Reason: "several clusters: multi-cluster status is not served"}
	case !both && len(singleton) == 1:
		return copyFrom(only(singleton), in.Report)
	case !both && len(multi) == 1:
		return copyFrom(only(multi), in.Report)
	case !both && len(multi) > 1:
		return Decision{Action: Keep, Reason: "several clusters: multi-cluster status is not served"}
	case len(singleton) > 1:
		return Decision{Action: Clear, Reason: "several clusters"}
	case in.Request.Singleton.Requested || in.Request.MultiWEC.Requested:
		return Decision{Action: Clear, Reason: "no cluster"}
	default:
		return Decision{Action: Clear, Reason: "not requested"}
	}
}

// Returnable tells whether status of that resource may be written into a WDS. Namespaces and CustomResourceDefinitions live
// a life of their own there: their status says whether the WDS itself serves them.
func Returnable(gr schema.GroupResource) bool {
	return gr != schema.GroupResource{Resource: "namespaces"} &&
		gr != schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}
}

func copyFrom(cluster string, report func(string) (*Report, bool)) Decision {
	got, known := report(cluster)
	switch {
	case got == nil && !known:
		return Decision{Action: Keep, Cluster: cluster, Reason: "reports not known"}
	case got == nil:
		return Decision{Action: Clear, Cluster: cluster, Reason: "not reported"}
	case got.Status == nil:
		return Decision{Action: Keep, Cluster: cluster, Reason: "reported without a status"}
	default:
		return Decision{Action: Copy, Cluster: cluster, Status: got.Status, Reason: "reported"}
	}
}

func clusters(want Want) map[string]struct{} {
	set := map[string]struct{}{}
	if want.Requested {
		for _, cluster := range want.Clusters {
			set[cluster] = struct{}{}
		}
	}
	return set
}

func only(set map[string]struct{}) string {
	return slices.Collect(maps.Keys(set))[0]
}
