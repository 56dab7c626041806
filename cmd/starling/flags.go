package main

import "github.com/spf13/pflag"

// Packages of Kubernetes register flags for the whole program when they are linked. They belong to
// the components and to kubectl, not to our own commands.
var foreignFlags = pflag.CommandLine

// hideForeignFlags is called before our commands are made.
func hideForeignFlags() { pflag.CommandLine = pflag.NewFlagSet("starling", pflag.ContinueOnError) }

// showForeignFlags is called before a command of another project is made.
func showForeignFlags() { pflag.CommandLine = foreignFlags }
