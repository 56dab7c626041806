// Package schema validates objects against the OpenAPI schemas of their kinds: those of Kubernetes itself, which are built in, and
// those of CustomResourceDefinitions. It also knows which of Kubernetes' kinds live in namespaces. It is pure.
package schema
