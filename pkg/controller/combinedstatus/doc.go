// Package combinedstatus combines the reports of clusters on objects into CombinedStatuses, as
// StatusCollectors request.
//
// It owns the CombinedStatuses of a WDS, the status of its StatusCollectors, and the namespace
// kubestellar-report. There are two queues. That of Collectors holds names of StatusCollectors:
// each is compiled when it changes, and its errors are written to its status. That of the
// Controller holds pairs of an object and a policy; for one it
//
//  1. gathers what the policy requests (an index of package match), the compiled StatusCollectors,
//     the versions of the reports, and the labels of the clusters and the object if an expression
//     uses them,
//  2. has the pair's Table (package core/combine) evaluate the rows for which something changed,
//     and
//  3. creates, updates or deletes CombinedStatuses, if they differ in meaning.
//
// Ignorance changes nothing: a pair waits until the policies were evaluated and the ITSes and
// collectors were read. Of CombinedStatuses a hash of the results is kept, not the results. After a
// quiet time a change is written at once; then changes of one pair are collected for half a second.
package combinedstatus
