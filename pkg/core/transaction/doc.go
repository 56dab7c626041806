// Package transaction decides what happens to a Transaction of packages: its name, who holds the
// Lock, its number, its conditions, when it ends, which old ones are collected, and who owns what
// it writes.
//
// A transaction goes through these phases. Everything before the last is without changes, and each
// can be repeated:
//
//   - It acquires the Lock (Acquire), gets its number, and records it.
//   - It resolves the packages (package resolve) and records them in
//     status.proposedLockPackages.
//   - It validates them (package crdcheck).
//   - It installs the difference (Diff) in the order of dependencies, writes the packages to the
//     Lock, and releases it (Release) with the same write.
//
// A failed try before the installation releases the Lock. One during the installation keeps it,
// until a later try succeeds or was the last.
//
// No object has Transactions as its only owners, because the history of transactions is bounded,
// and the garbage collector deletes objects whose owners are all gone.
package transaction
