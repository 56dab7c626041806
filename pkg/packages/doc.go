// Package packages carries out what porch.kpt.dev promises: revisions of packages are created, edited, proposed, approved and deleted.
// It knows nothing of how requests arrive; pkg/packageserver serves it.
//
// What is kept are PackageRevisions of store.starling.io, each with its files beside it by their digest (pkg/content). A Store has no
// state of its own: any number of them work on one space. What is decided, is decided by what that space said last, and written with
// the resourceVersion it was decided on.
//
// Order of writes. Content comes first, then the revision that names it; so a crash in between leaves content that nothing names, which
// Collect removes, and never a revision without its content. All that changes in a revision, changes in one write: its lifecycle,
// number, label and who approved it. What follows from it in other objects, the label kpt.dev/latest-revision of the revision before,
// comes after, and is done again by whoever finds it undone (see Relabel).
package packages
