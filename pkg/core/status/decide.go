package status

import (
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/starlinghq/starling/pkg/core/match"
)

// Report is what one cluster reports about one object.
type Report struct {
	// Status is the object's .status in the cluster, nil if it has none.
	Status map[string]any
	// Generation is the generation of the object in the cluster at the time of the report, 0 if
	// unknown.
	Generation int64
	// Source identifies the content of the object in the cluster. It is the zero Source if unknown.
	Source Source
	// Gone: the object was in the cluster, and is not there any more.
	Gone bool
}

// Evidence is the input of Decide.
type Evidence struct {
	// Requests are those of the policies.
	Requests match.Requests
	// Now identifies the current content of the object in the WDS. Its generation is 0 if the kind
	// has none.
	Now Source
	// Report returns the report of a cluster, nil if there is none. Known is false if the reports
	// of the cluster are not synced yet, or if several of them contradict each other.
	Report func(cluster string) (report *Report, known bool)
	// Reading: what is not known of a cluster may be known in a moment, since reports are read
	// since a moment ago. An aggregate waits for that, and for nothing else.
	Reading bool
}

// Action is what happens to the status of an object in the WDS.
type Action string

const (
	// Keep does not change the status.
	Keep Action = "Keep"
	// Copy writes the status of one cluster.
	Copy Action = "Copy"
	// Combine writes the aggregate of the statuses of several clusters.
	Combine Action = "Combine"
	// Clear removes the status if it was returned before.
	Clear Action = "Clear"
)

// Decision is the result of Decide.
type Decision struct {
	Action Action
	// Clusters, sorted, are the clusters whose statuses are in Status, for Copy and Combine. For
	// Keep and Clear they are the clusters that have not reported.
	Clusters []string
	// Silent, sorted, are the clusters that have not reported, for Combine.
	Silent []string
	// Status is the new status, for Copy and Combine. It may be shared with Reports and must not be
	// changed.
	Status map[string]any
	// Executing is the number of clusters whose status is requested, "" if no status is requested.
	Executing string
	// Known is true if Executing is known.
	Known bool
	// Reason explains the decision in a few words, for logs and tests.
	Reason string
}

// Decide returns the decision for the status of an object in the WDS. The first rule that applies
// decides, in the order of the contract:
//
//  1. Both forms are requested: if their union has one cluster, its status is copied; otherwise the
//     statuses of the union are aggregated.
//  2. One form is requested, with exactly one cluster: its status is copied.
//  3. The multi-cluster form is requested, with several clusters: their statuses are aggregated.
//  4. Otherwise the status is cleared.
//
// A copy needs exactly one report of its cluster. A report without a status changes nothing;
// without a report the status is cleared. An aggregate needs one report or more; without any the
// status is cleared. If something is unknown, the status is not changed; but a cluster of which
// nothing is known holds up no aggregate of the others: it counts as one that has not reported.
func Decide(ref schema.GroupResource, in Evidence) Decision {
	if !Returnable(ref) {
		return Decision{Action: Keep, Known: true, Reason: "status of this kind is never returned"}
	}
	if !in.Requests.Known {
		return Decision{Action: Keep, Reason: "not evaluated yet"}
	}
	var union []string
	if in.Requests.Singleton {
		union = append(union, in.Requests.SingletonClusters...)
	}
	if in.Requests.MultiWEC {
		union = append(union, in.Requests.MultiWECClusters...)
	}
	slices.Sort(union)
	union = slices.Compact(union)

	d := Decision{Action: Clear}
	switch {
	case !in.Requests.Singleton && !in.Requests.MultiWEC:
		d.Reason = "not requested"
	case len(union) == 0:
		d.Reason = "no cluster"
	case len(union) == 1:
		d = copyFrom(union[0], in)
	case in.Requests.MultiWEC:
		d = combine(ref, union, in)
	default:
		d.Reason = "several clusters"
	}
	d.Known = true
	if in.Requests.Singleton || in.Requests.MultiWEC {
		d.Executing = strconv.Itoa(len(union))
	}
	return d
}

// Returnable reports whether objects of that resource may have a status that is written into a WDS.
// Namespaces and CustomResourceDefinitions have a status of their own there: whether the WDS itself
// serves them.
func Returnable(gr schema.GroupResource) bool {
	return HasStatus(gr) && gr != schema.GroupResource{Resource: "namespaces"} &&
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

// combine aggregates the statuses of several clusters. A report without a status counts as no
// report.
func combine(gr schema.GroupResource, from []string, in Evidence) Decision {
	var reported []Reported
	var unknown []string
	d := Decision{Action: Combine}
	for _, cluster := range from {
		got, known := in.Report(cluster)
		switch {
		case got == nil && !known && in.Reading:
			return Decision{Action: Keep, Clusters: []string{cluster}, Reason: "reports not known"}
		case got == nil || got.Status == nil:
			if !known && got == nil {
				unknown = append(unknown, cluster)
			}
			d.Silent = append(d.Silent, cluster)
		default:
			d.Clusters = append(d.Clusters, cluster)
			reported = append(reported, Reported{Cluster: cluster, Status: got.inTermsOf(in.Now)})
		}
	}
	switch {
	case len(reported) == 0 && len(unknown) > 0:
		return Decision{Action: Keep, Clusters: unknown, Reason: "reports not known"}
	case len(reported) == 0:
		return Decision{Action: Clear, Clusters: d.Silent, Reason: "not reported"}
	}
	d.Status = Aggregate(gr, reported, d.Silent)
	d.Reason = "reported by " + strconv.Itoa(len(reported)) + " of " + strconv.Itoa(len(from))
	return d
}

// From returns the names of d.Clusters, for logs.
func (d Decision) From() string { return strings.Join(d.Clusters, ",") }
