// Package kindtest runs clusters of kind, for tests of what runs in pods. Each is one container
// with a whole Kubernetes: a control plane, a kubelet, kube-proxy and CoreDNS.
//
// `make e2e-kind` runs the tests. They need an engine that runs privileged containers, and the
// environment variable STARLING_KIND_IMAGE with the name of an image of nodes; Create skips tests
// without it. hack/kind makes both.
//
// A cluster is Ready in half a minute and takes 0.5 GiB. It has one node, a default StorageClass
// and no way to pull images: Create loads them from archives. Nodes of several clusters reach each
// other by their names.
package kindtest
