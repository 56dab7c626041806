// Package informers watches the objects of a WDS that the controllers of packages share. It has one
// informer for each kind, and indexes that map a change to exactly the objects that it concerns. A
// lookup costs as much as its result.
//
// Returned objects are shared: copy before you change one.
package informers
