package functionrunner

import (
	"testing"

	"github.com/starlinghq/starling/test/golden"
)

// TestTexts has the errors of killed functions.
func TestTexts(t *testing.T) {
	golden.Texts(t,
		golden.Text{Heading: "a function runs", Text: (&KilledError{"starlark:v0.5", "it took longer than 10s"}).Error()},
		golden.Text{Heading: "none runs yet", Text: (&KilledError{"", "it used more than 512 MiB of memory"}).Error()},
		golden.Text{Heading: "the process crashes", Text: (&KilledError{"starlark:v0.5", "its process exited: " + (&process{stderr: &outputHead{}}).exitReason()}).Error()},
	)
}
