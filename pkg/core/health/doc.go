// Package health evaluates from the status of an object in a cluster whether the object works
// there. It is pure.
//
// Common kinds have rules of their own. All other kinds are evaluated by common conditions, such as
// Ready and Available. An object of a kind without such conditions is healthy as soon as it exists.
// Only the status is evaluated, since only the status is reported: numbers are compared with
// numbers in the status, not in the spec.
package health
