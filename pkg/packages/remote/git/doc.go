// Package git reads packages from git repositories, and writes revisions to them.
//
// The layout is Porch's. A directory with a Kptfile is a package. A tag <path>/vN is revision N of
// the package at that path; a tag <path>/<name> is a revision without a number. The branch has
// content that is not a numbered revision yet, and gets a commit for each exported revision. The
// message of such a commit ends with a line kpt:{…} that identifies the revision.
//
// No clone is stored. The references of a server are enough to detect a change, so polling an
// unchanged repository costs one request. Changes are fetched without history, and without large
// files if the server supports that, into a temporary directory. Packs are checked before they are
// unpacked: a small pack may unpack to a huge size.
package git
