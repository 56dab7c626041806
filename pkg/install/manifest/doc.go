// Package manifest returns objects that are to be installed: from parts, and from templates in
// files. It is pure.
package manifest
