// Package manager is the hub's side of the status add-on: it installs the agent in the clusters of an ITS and gives it the
// rights to its own mailbox.
//
// OCM's add-on framework does half of it: it writes the ManifestWork with the agent's manifests and configures the
// registration through which the agent obtains its certificate. What is ours are the decisions in which a mistake would let
// one cluster act as another: whose request is approved (compared whole, never by prefix), and to whom the rights to a mailbox
// are bound (to the one group of that cluster's agent). The framework's own helpers for both, DefaultCSRApprover and
// BindKubeClientRole, are wider than that.
package manager
