// Package agent reports the state of the objects that Starling delivered to one WEC.
//
// It owns the WorkStatuses in the mailbox of its cluster: one for each object that a work of
// Starling has applied, with a copy of the object's .status. Its queue holds names of WorkStatuses,
// which follow from the identities of the objects; for one it
//
//  1. gathers which works deliver the object (AppliedManifestWorks of the WEC, labels and claims of
//     the ManifestWorks of the mailbox), the object as far as it matters here, and the current
//     WorkStatus,
//  2. decides, in a pure function, what the WorkStatus must become, and
//  3. writes that: at once, or in its turn if its status changed often, or those of all objects
//     together.
//
// It keeps in memory the status of delivered objects only, of all others of the same kinds their
// names, and of WorkStatuses a hash of their status. It needs rights to read the WEC, and rights to
// its own mailbox on the hub.
//
// Ignorance deletes nothing: a WorkStatus is deleted when its object was observed to be deleted, or
// when no work holds it, or only works that are known not to be Starling's. If the hub is
// unreachable, the agent waits, and then writes the last state of what changed meanwhile.
package agent
