// Package cli has the commands of kubectl starling that look ahead: what a change would do.
package cli
