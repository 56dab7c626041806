// Package status decides what status of the clusters goes to the objects of a WDS.
//
// It is pure: what the policies ask for (Request), what the clusters report (Report) and what the object holds (View) come
// in, a Decision and the Steps that carry it out come out. Forms of status that come later, multi-cluster aggregates and
// CombinedStatus, are further decisions over the same Requests and Reports.
package status
