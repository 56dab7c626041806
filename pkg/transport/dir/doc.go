// Package dir is the transport plugin for clusters that nobody can reach over a network: a mailbox is a directory, a work is a
// file of YAML in it, and somebody carries the files to the cluster and applies them there, with kubectl for example.
//
// A directory is a space if it holds a file with the name of Marker. Without it nothing is concluded from what is there: a disk
// that is not mounted looks like an empty directory. Each subdirectory is the mailbox of the cluster of that name; whoever
// makes it lets the cluster in.
//
// Files are replaced as a whole: written under another name, flushed to the disk and renamed, so that whoever copies the
// directory at any moment copies complete works. The names of files sort by wave, so that Namespaces and
// CustomResourceDefinitions are applied first.
//
// Nothing comes back from such a cluster. Its objects stay plan.Silent.
package dir
