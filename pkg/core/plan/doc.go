// Package plan decides which writes bring the mailbox of one destination from what it holds to what
// it should hold.
//
// It compares a Desired, made once for all destinations of a Binding, with the works of one
// destination, and returns Actions: as few writes as the change needs, none if nothing changed.
// Planning again after a plan was carried out returns no Action.
//
//   - What cannot be read now stays as it is; content leaves only when it is no longer listed
//     (invariant 1).
//   - An object stays in its work. If it must move, it leaves the old work only after the new one
//     reports it Applied at its generation, so a cluster that is offline holds both (invariant 4).
//   - An object waits for its Namespace and its CustomResourceDefinition, if they are delivered by
//     the same Binding, until the destination reports them Applied.
//   - A CustomResourceDefinition stays while the destination has, or is to have, objects of its
//     kind, also those of others: they would be deleted with it (dependents.go).
//   - Content that another writer wrote into a work is corrected.
//   - What is held (Hold) stays exactly as it is, whatever else happens to its work.
//   - An object that another owner delivers with different content is only claimed (contest). One
//     that leaves while other owners want it stays until they have it, or is released first, so
//     that it stays in the cluster for them (departing).
package plan
