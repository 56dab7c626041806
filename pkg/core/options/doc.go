// Package options decides how clusters apply an object: whether they update it, by which kind of
// write, which fields they ignore, and whether they keep the object when it is no longer delivered.
// It is pure.
//
// Options come from annotations on the object, or on the Binding for all its objects; from
// createOnly in a clause of a policy; and, for some kinds, from the fields that clusters set by
// themselves. If several Bindings deliver one object to one cluster, Merge combines their options.
package options
