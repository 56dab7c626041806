// Command starling runs a fleet of real spaces on one machine.
package main

import (
	"fmt"
	"os"
)

func main() {
	if err := newRootCommand().Execute(); err != nil {
		if text := err.Error(); text != "" {
			fmt.Fprintln(os.Stderr, "error:", text)
		}
		os.Exit(exitCode(err))
	}
}
