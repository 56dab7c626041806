// Package clusters connects to other API servers: it reads kubeconfigs, probes, learns the identity of a space, and waits
// for what a controller needs to be served there.
//
// A space's identity is the UID of its kube-system namespace, never the name that it was given: names are repeated, and a
// space that was rebuilt under its old name is another space.
package clusters
