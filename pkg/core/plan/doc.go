// Package plan decides which writes bring the mailbox of one destination from what it holds to what it should hold.
//
// It compares a Desired, made once for all destinations of a Binding, with the works of one destination, and returns Actions:
// as few writes as the change needs, none if there is nothing to do. Carrying out a plan and planning again gives no Action.
//
//   - What cannot be read now is held as it is; content leaves only when it is no longer listed (invariant 1).
//   - An object stays in its work. If it must move, it leaves the old work only after the new one reports it Applied at its
//     generation, so a cluster that is offline holds both (invariant 4).
//   - An object waits for its Namespace and its CustomResourceDefinition, if they are delivered by the same Binding, until the
//     destination reports them Applied.
//   - Content that somebody else wrote into a work is put right.
//   - What is held (Hold) stays exactly as it is, whatever else happens to its work.
//   - An object that another WDS delivers with other content is only claimed (contest), and one that leaves while others want it
//     is let go first, so that it stays in the cluster for them (HandOver).
package plan
