// Package match relates BindingPolicies, objects, Namespaces and clusters.
//
// Compile understands one BindingPolicy, once. An Index holds what is known of a workload
// definition space and of the inventory, and keeps up to date which policy selects which objects
// and which clusters. It receives one change at a time and looks only at what that change can
// reach:
//
//   - an object: the clauses that its name, namespace, labels or resource lead to;
//   - a policy: the objects that its clauses lead to, and those that it selected before;
//   - a Namespace: its objects, for the clauses with namespace selectors;
//   - a cluster: the policies whose cluster selectors mention a label that changed.
//
// So the cost of an event follows the size of what changes, not objects times policies. The package
// is pure: it reads no API, starts no goroutine and knows no time.
package match
