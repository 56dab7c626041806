// Package binding turns BindingPolicies into Bindings.
//
// It owns the Bindings that belong to a policy, and the finalizer and the whole status of
// BindingPolicies. An index (package core/match) receives everything that happens in the WDS and to
// clusters, and returns the policies whose result changed by it. Those are the keys of the one
// queue. For a policy the controller
//
//  1. gathers its State (gather.go): the policy, its Bindings, what it selects, and what has not
//     synced. It reads only caches,
//  2. decides (package core/binding): the writes of Bindings, what stays for other policies, and
//     when to sync again,
//  3. writes the Bindings (write.go), and
//  4. writes the status of the policy, computed from the State, the Decision and the Result of the
//     writes.
//
// Each step knows those before it and none of those after it. What one sync leaves for later ones
// is in memory.go.
//
// The first change of a Binding after a quiet time is written at once. Further changes are
// debounced: 100 ms, and one second if only versions of objects changed. What has not synced since
// startup stays in the Binding as it is, whatever the index has.
package binding
