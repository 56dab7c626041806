package status

import (
	"maps"
	"slices"
	"strconv"
	"strings"

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
	// Generation is that of the object in the cluster when this was reported, 0 if the cluster does not say it.
	Generation int64
	// Source is the content that it has, the zero Source if the cluster does not say it.
	Source Source
}

// Evidence is all that Decide looks at.
type Evidence struct {
	// Request is what the policies ask for.
	Request Request
	// RequestKnown is false as long as the policies, the object or the inventory were not evaluated since the start.
	RequestKnown bool
	// Now is the object in the WDS; its generation is 0 if its kind has none.
	Now Source
	// Report returns what the cluster reports of the object, nil for nothing; known is false if "nothing" may only mean
	// that the reports of that cluster were not read yet, or that several contradict each other.
	Report func(cluster string) (report *Report, known bool)
}

// Action is what is to be done with the status of an object in the WDS.
type Action string

const (
	// Keep leaves the object's status as it is.
	Keep Action = "Keep"
	// Copy makes the object's status that of one cluster.
	Copy Action = "Copy"
	// Combine makes the object's status the aggregate of several clusters.
	Combine Action = "Combine"
	// Clear empties the object's status, if it is one that was returned before.
	Clear Action = "Clear"
)

// Decision is what Decide decided.
type Decision struct {
	Action Action
	// Clusters are where the status comes from, with Copy and Combine; with Keep and Clear, of what clusters there is nothing.
	// Sorted.
	Clusters []string
	// Silent are the clusters of which there is nothing in it, with Combine. Sorted.
	Silent []string
	// Status may be shared with the Reports that it comes from, with Copy and Combine: do not change it.
	Status map[string]any
	// Executing is in how many clusters the object executes of which status is asked for; "" if none is. Known tells whether it
	// is known.
	Executing string
	Known     bool
	// Reason says why in a few words, for logs and tests.
	Reason string
}

// Decide tells what becomes of the status of an object in the WDS. In the order of the contract:
//
//  1. Both forms asked for: one cluster in the union of both: its status is copied; otherwise multi-cluster over the union.
//  2. Singleton asked for with exactly one cluster, or multi-cluster with exactly one: its status is copied.
//  3. Multi-cluster asked for with several clusters: multi-cluster over them.
//  4. Otherwise the status is cleared.
//
// A copy needs exactly one report of that cluster; a report without a status changes nothing; no report clears. Multi-cluster is
// the aggregate of what is reported, also if that is one report of several; nothing clears. What is not known changes nothing.
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

	d := Decision{Action: Clear}
	switch {
	case both && len(union) == 1, !both && len(singleton) == 1, !both && len(multi) == 1:
		d = copyFrom(slices.Collect(maps.Keys(union))[0], in) // one of the two is empty, or the same
	case both && len(union) > 1, !both && len(multi) > 1:
		d = combine(ref, slices.Sorted(maps.Keys(union)), in)
	case len(singleton) > 1:
		d.Reason = "several clusters"
	case in.Request.Singleton.Requested || in.Request.MultiWEC.Requested:
		d.Reason = "no cluster"
	default:
		d.Reason = "not requested"
	}
	d.Known = true
	if in.Request.Singleton.Requested || in.Request.MultiWEC.Requested {
		d.Executing = strconv.Itoa(len(union))
	}
	return d
}

// Returnable tells whether status of that resource may be written into a WDS. Namespaces and CustomResourceDefinitions live
// a life of their own there: their status says whether the WDS itself serves them.
func Returnable(gr schema.GroupResource) bool {
	return gr != schema.GroupResource{Resource: "namespaces"} &&
		gr != schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}
}

func copyFrom(cluster string, in Evidence) Decision {
	got, known := in.Report(cluster)
	from := []string{cluster}
	switch {
	case got == nil && !known:
		return Decision{Action: Keep, Clusters: from, Reason: "reports not known"}
	case got == nil:
		return Decision{Action: Clear, Clusters: from, Reason: "not reported"}
	case got.Status == nil:
		return Decision{Action: Keep, Clusters: from, Reason: "reported without a status"}
	default:
		return Decision{Action: Copy, Clusters: from, Status: got.inTermsOf(in.Now), Reason: "reported"}
	}
}

// combine makes one status of those of several clusters. An object that has no status in a cluster yet is as good as not reported.
func combine(gr schema.GroupResource, from []string, in Evidence) Decision {
	var reported []Reported
	d := Decision{Action: Combine}
	for _, cluster := range from {
		got, known := in.Report(cluster)
		switch {
		case got == nil && !known:
			return Decision{Action: Keep, Clusters: []string{cluster}, Reason: "reports not known"}
		case got == nil || got.Status == nil:
			d.Silent = append(d.Silent, cluster)
		default:
			d.Clusters = append(d.Clusters, cluster)
			reported = append(reported, Reported{Cluster: cluster, Status: got.inTermsOf(in.Now)})
		}
	}
	if len(reported) == 0 {
		return Decision{Action: Clear, Clusters: d.Silent, Reason: "not reported"}
	}
	d.Status = Aggregate(gr, reported, d.Silent)
	d.Reason = "reported by " + strconv.Itoa(len(reported)) + " of " + strconv.Itoa(len(from))
	return d
}

// From names the clusters that the decision speaks of, for logs.
func (d Decision) From() string { return strings.Join(d.Clusters, ",") }

func clusters(want Want) map[string]struct{} {
	set := map[string]struct{}{}
	if want.Requested {
		for _, cluster := range want.Clusters {
			set[cluster] = struct{}{}
		}
	}
	return set
}
