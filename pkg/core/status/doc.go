// Package status decides what status of the clusters goes to the objects of a WDS.
//
// It is pure: what the policies ask for (Request), what the clusters report (Report) and what the object holds (View) come
// in, a Decision and the Steps that carry it out come out. The status of one cluster is copied; those of several are aggregated
// (Aggregate) by rules for each kind. In both, observedGeneration is one of the object in the WDS (generation.go).
package status
