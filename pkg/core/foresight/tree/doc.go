// Package tree shows what a policy delivers: its Bindings, their clusters, the works in the
// mailboxes, and the objects in them with their state. What is equal is shown once. It is pure.
package tree
