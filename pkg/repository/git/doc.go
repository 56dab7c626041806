// Package git reads packages from git repositories, and writes revisions to them.
//
// The layout is Porch's: a directory with a Kptfile is a package; a tag <path>/vN is revision N of the package at that path, and any other
// tag <path>/<name> one without a number; the branch holds what is to become a revision, and gets a commit for each that is exported. The
// message of such a commit ends in a line kpt:{…} that says which revision it is.
//
// No clone is kept. What a server has is told by its references alone, so that looking at a repository in which nothing changed is one
// request. What changed is fetched without history (and without large files, where the server can leave them out) into a temporary
// directory that goes when it was read. Packs are looked through before they are unpacked: a pack may be small, and what it unpacks to not.
package git
