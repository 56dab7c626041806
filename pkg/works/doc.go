// Package works defines how objects are in a ManifestWork of Open Cluster Management: what its spec
// has beside the manifests, its hash, and what is read of each object. The transport writes works;
// several programs read them.
package works
