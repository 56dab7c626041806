// Package ocm returns the objects that Open Cluster Management needs in a hub and in a managed
// cluster. It is pure: OCM's manifests are an input, so that only cmd/starling links OCM.
package ocm
