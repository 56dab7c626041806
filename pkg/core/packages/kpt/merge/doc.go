// Package merge merges a new version of an upstream package into a package that was created from an
// older version of it: three-way merges of files, with the strategies of kpt. It is pure and
// deterministic.
//
// Files and documents that need no merge stay equal byte for byte. A merged document is encoded
// again, with its comments, the order of its fields and its style of lists. Its aliases are
// expanded, and blank lines may be lost.
package merge
