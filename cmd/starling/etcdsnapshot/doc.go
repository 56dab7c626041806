// Package etcdsnapshot takes snapshots of the etcd of a space, and makes the data directory of a
// member of etcd from one.
package etcdsnapshot
