// Package agent reports the state of the objects that Starling delivered to one WEC.
//
// It owns the WorkStatuses in the mailbox of its cluster: one for each object that a work of Starling has applied, with a
// copy of the object's .status. Its queue holds names of WorkStatuses, which follow from the identities of the objects; for
// one it
//
//  1. gathers which works hold the object (AppliedManifestWorks of the WEC, labels of the ManifestWorks of the mailbox), the
//     object as far as it matters here, and the WorkStatus that is there,
//  2. decides, in a pure function, what the WorkStatus must become, and
//  3. writes that: at once after a quiet second, at most once a second otherwise.
//
// It keeps in memory the status of delivered objects only, of all others of the same kinds their names; of WorkStatuses a
// hash of their status. Of the WEC it needs to read; of the hub, its own mailbox.
//
// Nothing is deleted on ignorance: a WorkStatus goes when its object was seen to be gone, or when no work, or only works
// that are known not to be Starling's, hold it. A hub that is away is waited for; what changed meanwhile is written, in its
// last state, when it is back.
package agent
