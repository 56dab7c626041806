// Package delivery makes mailboxes hold what Placements ask of them.
//
//	placement.Placement ───────────────┐
//	works, clusters, reports of an ITS ┴─▶ delivery queue of the ITS ──▶ deliver ──▶ plan ──▶ Plugin.Do
//	                                                                        └──▶ Outcome ──▶ queue of statuses
//
// There is one deliverer for each ITS, with a queue of its own. Its key is one Binding at one
// destination. A Placement enqueues its destinations (controller.go); what the Plugin of the ITS
// reports enqueues whom it concerns (handler.go). A delivery (deliver.go) compares
// three things, by package plan: what the Placement asks of the destination (desired.go), what is
// in the mailbox, and which other owners are to have the same objects (owners.go). It writes the
// difference (deliverer.go), and nudges works that failed for a reason that passes (retry.go).
//
// The finalizer of a Binding that is being deleted is removed when its works are gone
// (removals.go). Works whose Binding does not exist are counted (orphans.go). Progress
// (progress.go) is what package feedback reads.
//
// # State
//
// Nothing is stored beside the works themselves. Each ITS has a store of what its Plugin reported,
// and what this process must remember of its own writes until they are reported: expectations,
// creations, writings, retries, fights, and the deliveries under way. Each is a struct with a lock
// of its own. None calls another one, or the Index of placement, while it holds the lock, except
// outcomes, which reads the Index. Code that holds the lock of the Index may call them: the lock of
// the Index comes first, and only that of outcomes before it.
package delivery
