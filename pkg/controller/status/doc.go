// Package status returns the status of delivered objects from the clusters to the objects of the WDS.
//
// It owns .status of the objects whose policies ask for it, and the labels that mark them. Its queue holds objects; for one
// it
//
//  1. gathers what the policies ask (an index of package match), what the clusters report (WorkStatuses, by object and
//     cluster) and what the object holds (what it was given last, or else one read),
//  2. lets package core/status decide and plan, and
//  3. writes: merge patches of .status and of those labels, each bound to the version of the object that it was planned on.
//
// What is not known yet clears nothing: the object waits until the policies were evaluated and the inventories were read.
// What the WDS refuses stays as it was there, field by field, and is told to whoever writes the status of policies (trouble.go).
// A restart reads each object with returned status once and writes only what differs. Somebody else's write to such an object
// is noticed by its version, and the status is looked at again.
package status
