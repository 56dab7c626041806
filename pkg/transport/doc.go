// Package transport carries out Bindings: it delivers the objects that a Binding lists to the
// mailboxes of the destinations that it lists, through a Plugin for each inventory and transport
// space (ITS).
//
// # Flow
//
//	Binding, its objects ──▶ placement ──Placement──▶ delivery ──actions──▶ plugin ──▶ mailboxes
//	                                                  │      ▲                            │
//	                                                  │      └──works, clusters, reports──┘
//	                                                  └──Progress──▶ feedback ──▶ Binding.status
//
// Three packages do the work, each with its own state and locks. In package delivery, each
// destination has its own key, back-off and error, and each ITS its own workers: nothing slow or
// broken delays the rest.
//
// Imports go one way: plugin <- placement <- delivery <- feedback <- transport. Package plugin has
// the interface that packages ocm and directory implement. Those know nothing of the others. This
// package only wires: two queues, of the Bindings to gather and of the statuses to write, are how a
// package notifies one that it does not import.
//
// # Where state is
//
// Nothing is stored beside the works themselves. Which work holds which object, and with which
// content, is read from the mailboxes at the start; the content of objects is read from the WDS. So
// a restart writes nothing if nothing has changed.
//
// # What is unknown
//
// Content leaves a mailbox only because a Binding that was observed does not list it, or does not
// list the destination. A work whose Binding does not exist is left alone, and counted
// (delivery/orphans.go): a Binding has its works deleted first, by its finalizer. What is held
// stays as it is.
//
// # Other owners
//
// Works of other WDSes are read and never written. Package plan decides which of several owners
// delivers an object; delivery/owners.go gathers them, and delivery/conflicts.go explains the
// result to the user.
package transport
