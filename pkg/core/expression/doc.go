// Package expression compiles and evaluates CEL expressions of users. They have the environment of
// Kubernetes and a cost limit, and are deterministic. It is pure.
package expression
