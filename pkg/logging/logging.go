// Package logging holds the keys of structured log lines, so that one thing has one name in the logs of all components.
package logging

// Keys of log lines. Values are identities and counts, never bodies of objects.
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
