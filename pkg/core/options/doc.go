// Package options decides how clusters deal with an object, beside its content: whether they update it, by which kind of write,
// which fields they leave alone, and whether they keep it when it is no longer delivered. It is pure.
//
// Users say it by annotations on the object, or on the Binding for all its objects; a clause of a policy says createOnly; and for
// some kinds it follows from what clusters fill in by themselves. Where several Bindings deliver one object to one cluster, Merge
// says what comes of it.
package options
