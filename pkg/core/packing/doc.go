// Package packing distributes the objects for one destination over works of bounded size.
//
// It is a sticky first fit. An object stays in the work that holds it for as long as it fits there;
// a new object goes to the first work with room, and to a new work if there is none. So a change
// moves only what must move: an object that moves between works is at risk in the cluster, and
// costs two writes.
//
// A new object comes only to a work that is smaller than a target, far below the limits of a work:
// an edit of one object costs as much as its work is large. Objects stay in works that are larger,
// unless Repack is set.
//
// A work has a wave and never mixes them: wave 0 holds Namespaces and CustomResourceDefinitions,
// wave 1 what may need them. Inside a work objects are in Order, since clusters apply them one
// after the other.
package packing
