// Package schema validates objects against the OpenAPI schemas of their kinds: those of Kubernetes
// itself, which are built in, and those of CustomResourceDefinitions. It also reports which
// built-in kinds are namespaced. It is pure.
package schema
