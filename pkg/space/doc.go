// Package space runs real spaces on one machine: an etcd, a kube-apiserver and a
// kube-controller-manager for each space, Open Cluster Management between them, and our own
// controllers. No container engine takes part.
//
// A fleet lives in one directory. What it consists of stands in fleet.json and is changed by the
// command line only, under a lock; the processes belong to a supervisor, a process of its own
// that restarts them and takes them along when it ends. Callers speak with the supervisor over a
// Unix socket.
//
// The package links neither Kubernetes' servers nor etcd nor OCM: it starts them as processes
// (hidden subcommands of cmd/starling) and speaks with them through their APIs.
package space
