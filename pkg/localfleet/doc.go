// Package localfleet runs a fleet of real spaces on one machine: an etcd, a kube-apiserver and a
// kube-controller-manager for each space, Open Cluster Management, and Starling's controllers. It
// uses no container engine.
//
// All files of a fleet are in one directory. Its file fleet.json records what the fleet consists
// of. Only commands change it, and they hold a lock. A supervisor, which is a process too, runs the
// components: it restarts them when they end, and they end when it ends. Commands use the
// supervisor's API on a Unix socket.
//
// The package links neither Kubernetes' servers nor etcd nor OCM. It starts them as processes,
// which are hidden subcommands of cmd/starling, and uses their APIs.
package localfleet
