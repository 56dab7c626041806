package main

import "github.com/spf13/pflag"

// Packages of Kubernetes register flags of the whole program when they are initialized. These flags
// are for the components and for kubectl, not for Starling's own commands.
var foreignFlags = pflag.CommandLine

// hideForeignFlags must be called before Starling's own commands are built.
func hideForeignFlags() { pflag.CommandLine = pflag.NewFlagSet("starling", pflag.ContinueOnError) }

// showForeignFlags must be called before a command of another project is built.
func showForeignFlags() { pflag.CommandLine = foreignFlags }
