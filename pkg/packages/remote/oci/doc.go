// Package oci reads packages from OCI registries, and writes revisions to them.
//
// A package is a repository <registry>/<package>. Each revision is an image with a tag: vN is
// revision N, and any other tag except latest is a revision without a number. The image has one
// layer, a tar of the package's files with a Kptfile at its root. Annotations of the manifest are
// optional: starling.io/workspace is the workspace, starling.io/task the task that created the
// revision, and org.opencontainers.image.created and .authors the time and the publisher. The same
// revision always gives the same bytes, and therefore the same digest.
package oci
