package inventory

// State says what is known of a cluster.
type State int

// States.
const (
	// Unknown: it could be in an ITS that was not read.
	Unknown State = iota
	// Absent: no ITS has, or accepts, a cluster of that name.
	Absent
	// Leaving: it is being deleted. Its hub waits until nothing is delivered to it any more.
	Leaving
	// Accepted: it is one that things may be delivered to.
	Accepted
)
