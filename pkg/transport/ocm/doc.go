// Package ocm is the transport plugin for Open Cluster Management: a mailbox is the namespace of a
// ManagedCluster on the hub, a work is a ManifestWork in it, and the inventory is the
// ManagedClusters.
//
// Of each ManifestWork the informer stores only identities and hashes, so that a hundred thousand
// delivered objects fit into little memory. The hash of the spec is that of the manifests as the
// API server stores them. It is recorded in an annotation with every write, and a spec with another
// hash was edited by somebody else.
package ocm
