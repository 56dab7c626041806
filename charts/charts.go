// Package charts holds Starling's Helm charts: one for each kind of space.
package charts

import "embed"

// FS holds the charts, each in a directory: "wds" and "its".
//
//go:embed all:wds all:its
var FS embed.FS
