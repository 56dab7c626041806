// Package expression compiles and evaluates CEL expressions that users write, in the environment that they know from Kubernetes, within
// a cost limit, and so that the same input always yields the same. It is pure.
package expression
