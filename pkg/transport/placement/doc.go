// Package placement turns a Binding into a Placement: the objects that the Binding lists, read and
// transformed, and the destinations that should hold them.
//
//	Binding ──────────────────────┐
//	metadata of objects ──────────┼─▶ queue of Bindings ──▶ Gatherer.Sync ──▶ Index ──▶ Consumer
//	CustomTransforms ──▶ a cache ─┘
//
// A Gatherer watches the Bindings, the metadata of the objects that they list, and the
// CustomTransforms. Each of them enqueues the Bindings that it concerns (gatherer.go).
// Gatherer.Sync (sync.go) reads the objects whose version changed, transforms each once, resolves
// the options of all of them together, publishes the Placement in the Index (index.go), which
// delivery and feedback read, and notifies the Consumer. An edit of an object does not wait for the
// Binding: the metadata event of the object enqueues the Bindings that list it.
//
// An object that cannot be read is in the Placement, but not Known: what its destinations hold of
// it stays. A Placement is Provisional while the content of a package is unknown and some mailboxes
// have not been read yet: nothing is written for it.
package placement
