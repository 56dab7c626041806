// Package binding turns BindingPolicies into Bindings.
//
// It owns the Bindings that belong to a policy, and the finalizer and the whole status of BindingPolicies. Everything that
// happens in the WDS and in the inventories is told to an index (package core/match), which answers with the policies whose
// result changed by it. Those are the keys of the one queue. For a policy the controller
//
//  1. gathers the policy, its Binding, what the index selects, and what could not be read,
//  2. plans the finalizer and the write, if any, of the Binding,
//  3. carries out the plan, and
//  4. says in the status of the policy what came of it, if that changed.
//
// The first change of a Binding after quiet is written at once; then changes gather for 100 ms, and for a second if only
// versions of objects changed. What was not read since the start stays in the Binding as it is, whatever the index says.
package binding
