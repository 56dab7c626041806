// Package feedback writes what has become of a Placement into the status of its Binding.
//
//	delivery (Outcomes, works, reports) ─┐
//	placement (what is wrong) ───────────┴─▶ queue of statuses ──▶ Reporter.Sync ──▶ Binding.status
//
// Whatever changes in a mailbox or in a Placement enqueues the Binding. Reporter.Sync (reporter.go)
// collects the situation of the Binding (situation.go), evaluates it (evaluate.go, health.go,
// hold.go), which is pure, and writes the status if its meaning changed: at once after a quiet
// time, at most once a second under load. A status that says that something is under way is held
// back for a moment, because mostly it is done by then.
//
// For each Binding the Reporter remembers what it wrote last, since when a status is held back, and
// since when which reports are missing. After a restart, the status of a Binding stays as it is
// until all its mailboxes have been read.
package feedback
