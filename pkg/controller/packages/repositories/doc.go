// Package repositories synchronizes Repositories of config.porch.kpt.dev with their git
// repositories or registries: it imports revisions that exist only there, and exports revisions
// that were published in the WDS. It owns the status of Repositories, imported PackageRevisions of
// store.starling.io, and of all of these the field external and the finalizer Finalizer.
//
// A pass over a repository, in order:
//
//  1. List its refs. Mostly that alone shows that nothing changed: the revisions in the WDS name
//     their commit or digest.
//  2. Load what is new, content first and then the revision that names it. A problem with one
//     package is reported and does not stop the others. An imported revision never changes, except
//     a placeholder: it follows its branch as long as the branch only grows.
//  3. Remove placeholders whose package the branch no longer has, unless revisions were created
//     from them.
//  4. Export published revisions that the repository does not have.
//  5. Delete the tags of revisions that are being deleted, then remove the finalizer.
//
// Whatever step fails, the WDS keeps what it has; the pass is retried, less and less often. A tag
// that disappears deletes no revision: a server that lost or hides its tags is more likely than an
// owner who wants revisions deleted that others were created from. That owner can delete the
// revision.
package repositories
