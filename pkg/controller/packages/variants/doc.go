// Package variants reconciles PackageVariants: it creates and updates their drafts, and reports
// their state. It owns the status and the finalizer of PackageVariants. It writes PackageRevisions
// through the API that users use, with its own rights.
//
// A sync, in order:
//
//  1. Gather, from informers, what package core/variant plans from; wait for informers that do not
//     show yet what was written.
//  2. Carry out the actions of the plan. Their results cause another plan.
//  3. If there are none, read files: those of drafts are mutated and written; if mutations change a
//     published revision, a draft is created from it. That causes another plan, too.
//  4. If none of that changed anything, write the status, if it changed.
//
// The process may end after each write: the next plan follows from the current state.
package variants
