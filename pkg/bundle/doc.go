// Package bundle collects what a bug report needs from spaces, from the cluster that hosts them,
// and from a local fleet, into an archive. It reads with the rights of its caller, and writes
// nothing to them. What it cannot read is a line in the archive.
//
// The archive redacts everything that is added to it (pkg/core/redact). Secrets are read as
// metadata only.
package bundle
