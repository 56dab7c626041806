// Package customtransform knows what CustomTransforms ask for: what is to be removed from the objects of each GroupResource, and
// what is to be said to the users who wrote them.
package customtransform
