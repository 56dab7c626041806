// Package customize fits objects to the cluster they go to: strings in them are templates that are expanded with the
// properties of the cluster. It is pure.
//
// An object asks for it by the annotation control.kubestellar.io/expand-templates: "true". Then every string in it, but not the
// keys of maps, that contains "{{" is a template of Go's text/template, with the properties as data. An object is compiled once
// and expanded for each cluster. What cannot be expanded is an error that names the field; the caller keeps what was there.
//
// Templates come from users and run in a controller, so they are bounded: by the size of what they write, and by how often they
// can loop. Both show before anything grows.
package customize
