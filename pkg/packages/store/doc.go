// Package store implements what porch.kpt.dev promises: it creates, edits, proposes, approves and
// deletes revisions of packages. It is independent of HTTP; pkg/packages/apiserver serves it.
//
// Revisions are stored as PackageRevisions of store.starling.io, their files as content with a
// digest (pkg/packages/content). A Store keeps no state but caches: any number of replicas work on
// one space. Each decision is based on what that space last returned, and is written with the
// resourceVersion that it is based on.
//
// Order of writes: content first, then the revision that refers to it. A crash in between leaves
// content without a reference, which is collected, and never a revision without content. All
// changes to one revision are made in one write: lifecycle, number, label and publisher. Changes to
// other objects follow, such as removing the label kpt.dev/latest-revision from the previous
// revision. If a crash prevents them, the Housekeeper makes them (see LabelLatest).
//
// In these files, "stored" is the object of store.starling.io and "served" the one of
// porch.kpt.dev.
package store
