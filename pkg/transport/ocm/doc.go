// Package ocm is the transport plugin for Open Cluster Management: a mailbox is the namespace of a ManagedCluster on the hub, a
// work is a ManifestWork in it, and the inventory is the ManagedClusters.
//
// Of each ManifestWork only identities and hashes are kept, taken on the way into the informer, so that a hundred thousand
// placed objects fit into little memory. The hash of the spec is that of the manifests as the API server holds them; it is
// recorded in an annotation with every write, and a spec that hashes otherwise was edited by somebody else.
package ocm
