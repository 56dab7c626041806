// Package customtransform evaluates CustomTransforms: which fields they remove from the objects of
// each GroupResource, and which errors and warnings belong into their statuses.
package customtransform
