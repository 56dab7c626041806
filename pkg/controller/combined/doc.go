// Package combined combines what clusters report of objects into CombinedStatuses, as StatusCollectors ask.
//
// It owns the CombinedStatuses of a WDS, the status of its StatusCollectors, and the namespace kubestellar-report. There are two
// queues. That of Collectors holds names of StatusCollectors: each is compiled when it changes, and its mistakes are written to
// its status. That of the Controller holds pairs of an object and a policy; for one it
//
//  1. gathers what the policy asks (an index of package match), the compiled StatusCollectors, the versions of the reports, the
//     labels of the clusters if they are asked for, and the object if an expression looks at it,
//  2. lets the pair's Table (package core/combine) evaluate the rows for which something changed, and
//  3. creates, patches or deletes CombinedStatuses, if there is a difference that means something.
//
// What is not known yet changes nothing: the pair waits until the policies were evaluated and the inventories and collectors were
// read. Of CombinedStatuses a hash of the results is kept, not the results. After quiet a change is written at once; then
// changes of one pair gather for half a second.
package combined
