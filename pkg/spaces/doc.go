// Package spaces connects to other API servers: it reads kubeconfigs, probes, learns the identity
// of a space, and waits for what a controller needs to be served there.
//
// The UID of its namespace kube-system identifies a space. Its name does not: names are used
// repeatedly, and a space that was rebuilt with its old name is another space.
package spaces
