// Package plugin has what the commands of kubectl starling share: errors with exit codes, progress,
// output formats, completion, and output that cannot steer a terminal.
package plugin
