// Package oci reads packages from OCI registries, and writes revisions to them.
//
// A package lies at <registry>/<package>, each revision as an image under a tag: vN is revision N, any other tag but latest one without a
// number. The image has one layer, a tar of the package's files with a Kptfile at its top. Its manifest says by the annotation
// starling.io/workspace of which workspace it is, by starling.io/task how it came about, and by org.opencontainers.image.created and .authors
// when it was published, and by whom; all may be missing. What is written is the same bytes for the same revision, so that its digest is, too.
package oci
