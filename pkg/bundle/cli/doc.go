// Package cli has the command that collects what a bug report needs.
package cli
