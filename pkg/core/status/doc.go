// Package status decides which status each object of a WDS gets from the clusters.
//
// It is pure. Its input is what the policies request (Request), what the clusters report (Report),
// and what the object has (View). Its output is a Decision, and the Steps that carry it out. The
// status of one cluster is copied; the statuses of several clusters are aggregated (Aggregate), by
// rules for each kind. Each observedGeneration in the result is a generation of the object in the
// WDS (generation.go).
package status
