// Package cli has the commands `kubectl starling tx`.
package cli
