// Package health judges from the status of an object in a cluster whether the object does there what it is for. It is pure.
//
// Common kinds have a row in a table. All others are judged by the conditions that have become custom: Ready, Available and the
// like. A kind without any of them is well as soon as it is there. What is judged is the status alone, which is all that is
// reported: so numbers are compared with those that the status itself tells, not with the spec.
package health
