// Package transport carries out Bindings: it delivers the objects that a Binding lists to the mailboxes of the destinations
// that it lists, through a Plugin that knows what a mailbox is.
//
// # Flow
//
//	Binding, metadata of its objects ──▶ bindings queue ──▶ placement (what each destination should hold)
//	                                                            │ one key for each destination
//	works of the mailboxes ──────────────────────────────▶ delivery queue of the space ──▶ Plugin.Do
//	                                                            │ outcome
//	                                                       status queue ──▶ Binding.status
//
// The bindings queue (binding.go) reads the objects whose version changed, transforms each once, and publishes an immutable
// placement. A delivery queue for each inventory and transport space (deliver.go) compares the placement with the works of one
// destination, by package plan, and writes the difference; each destination has its own key, back-off and error, and each
// space its own workers, so nothing slow or broken delays anything else. The status queue (status.go) writes what came of it
// into Binding.status, at most once a second for each Binding after the first time.
//
// What CustomTransforms remove comes to the bindings queue from a cache (customtransform.go), which names the Bindings that have
// to be gathered again when one changes; a queue of their own writes their statuses.
//
// An edit of an object does not wait for the Binding: its metadata event puts the Bindings that list it into the bindings
// queue at once.
//
// # What is kept where
//
// Nothing is stored beside the works themselves. Which work holds which object, and with which content, is read from the
// mailboxes at the start; the content of objects is read from the WDS. So a restart against unchanged spaces writes nothing.
//
// # Ignorance
//
// Content leaves a mailbox only because a Binding that was observed does not list it, or does not list the destination. A work
// whose Binding is not there is left alone, and counted (orphans.go): a Binding takes its works along by its finalizer. What is
// held stays as it is (annotations.go).
//
// # Others
//
// Works of other WDSes are known as stakes in objects (foreign.go) and never written. Package plan decides who of several
// delivers an object; conflict.go says so to the user.
package transport
