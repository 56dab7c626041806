// Starling runs a whole fleet of real spaces on one machine.
package main

import (
	"fmt"
	"os"
)

func main() {
	if err := newRootCommand().Execute(); err != nil {
		if text := err.Error(); text != "" {
			fmt.Fprintln(os.Stderr, "Error:", text)
		}
		os.Exit(exitCode(err))
	}
}
