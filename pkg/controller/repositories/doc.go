// Package repositories brings together what Repositories of config.porch.kpt.dev have outside, in git or in a registry, and what is here:
// revisions that appear outside are imported, revisions that are published here are exported. It owns the status of Repositories, imported
// PackageRevisions of store.starling.io, and of all of them the field external and the finalizer Finalizer.
//
// A look at a repository, in order:
//
//  1. List what it has. That alone tells, most times, that nothing changed: the revisions here say which commit or digest they are of.
//  2. Load what is new, content first and the revision that names it after. What is wrong with one package is reported, and the rest goes
//     on. A revision that is here never changes but for a placeholder, which follows its branch as long as the branch only grows.
//  3. Remove placeholders whose package the branch has no more, unless something was made of them.
//  4. Export what was published here and is not there.
//  5. Delete the tags of revisions that are being deleted, and let these go.
//
// Whatever step fails, what is here stays; the look is repeated, later and later. A tag that is gone takes no revision with it: a server
// that lost its tags, or hides them, is more likely than one whose owner wants revisions removed that others were made from, and who
// wants that can delete the revision.
package repositories
