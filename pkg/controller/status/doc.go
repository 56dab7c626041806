// Package status returns the status of delivered objects from the clusters to the objects of the
// WDS.
//
// It owns .status of the objects whose policies ask for it, and the labels that mark them. Its
// queue holds objects; for one it
//
//  1. gathers what the policies request (an index of package match), what the clusters report
//     (WorkStatuses, by object and cluster) and what the object holds (what was written last, or
//     one read),
//  2. lets package core/status decide and plan, and
//  3. writes: merge patches of .status and of those labels, each bound to the version of the object
//     that it was planned on.
//
// Ignorance clears nothing: an object waits until the policies were evaluated and the ITSes were
// read. Fields that the WDS refuses keep their values there, and are reported to the binding
// controller, which shows them in the status of policies (statuserror.go). A restart reads each
// object with returned status once and writes only what differs. A write by another client is
// observed by its version, and requeues the object.
package status
