// Package cli has the commands of kubectl starling that look ahead, and that explain: what a change
// would do, and why an object is not in a cluster.
package cli
