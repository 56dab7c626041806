// Package customize expands the templates in objects with the properties of the cluster that they
// are delivered to. It is pure.
//
// The annotation control.kubestellar.io/expand-templates: "true" on an object requests this. Then
// every string in the object that contains "{{", except keys of maps, is a template of Go's
// text/template, with the properties as data. An object is compiled once and expanded for each
// cluster. An error names the field that cannot be expanded; the caller keeps the current content
// then.
//
// Users write templates and a controller runs them, so two things are limited: the size of the
// output, and how often a template can loop. Both limits are checked before memory or time is
// spent.
package customize
