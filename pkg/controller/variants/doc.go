// Package variants keeps PackageVariants: it makes their drafts, brings them up to date, and says how they are. It owns the status and the
// finalizer of PackageVariants; what it writes of PackageRevisions, it writes through the API that everybody uses, with its own rights.
//
// A sync, in order:
//
//  1. Gather, from informers, what package core/variant plans from; wait for informers that do not show yet what was written.
//  2. Carry out the actions of the plan. What came of them brings another plan.
//  3. If there are none, look at files: those of drafts are mutated and written, a new draft is made of what is published if mutations change
//     it. That, too, brings another plan.
//  4. If nothing of that changed anything, write the status, if it says something new.
//
// Each write is one step after which the process may end: the next plan follows from what is there.
package variants
