// Package directory is the transport plugin for clusters without a network: a mailbox is a
// directory, a work is a file of YAML in it, and a person carries the files to the cluster and
// applies them there, with kubectl for example.
//
// A directory stands for an ITS if it contains a file with the name of Marker. Without that file
// nothing is concluded from its content: a disk that is not mounted looks like an empty directory.
// Each subdirectory is the mailbox of the cluster of that name. To create it is to accept the
// cluster.
//
// Files are replaced as a whole: written under another name, flushed to the disk and renamed, so
// that a copy of the directory at any moment has complete works. The names of files sort by wave,
// so that Namespaces and CustomResourceDefinitions are applied first.
//
// Such a cluster reports nothing. Its objects stay plan.Silent.
package directory
