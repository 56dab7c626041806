// Package manager is the hub's side of the status add-on: it installs the agent in the clusters of
// an ITS and gives it the rights to its own mailbox.
//
// OCM's add-on framework does half of it: it writes the ManifestWork with the agent's manifests,
// and configures the registration through which the agent obtains its certificate. This package
// makes the decisions in which a mistake would let one cluster act as another: which requests are
// approved (identities are compared as a whole, never by prefix), and which group gets the rights
// to a mailbox (the one of that cluster's agent). The framework's own helpers for both,
// DefaultCSRApprover and BindKubeClientRole, grant more than that.
package manager
