// Package logging has the keys of structured log lines: one thing has the same key in the logs of
// all components.
package logging

// Keys of log lines. Their values are names and counts, never the content of objects.
const (
	Controller    = "controller"
	Key           = "key"
	Resource      = "resource"
	Object        = "object"
	BindingPolicy = "bindingPolicy"
	Binding       = "binding"
	Cluster       = "cluster"
	Space         = "space"
	Reason        = "reason"
)
