package localfleet_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/starlinghq/starling/test/golden"
	"github.com/starlinghq/starling/test/testenv"
)

// TestHelp compares the help of all commands with testdata/help.golden. It runs the binary, because
// a test that linked the commands would link Kubernetes.
func TestHelp(t *testing.T) {
	bin, err := testenv.Binary()
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	var walk func(command ...string)
	walk = func(command ...string) {
		cmd := exec.CommandContext(t.Context(), bin, append(command, "--help")...)
		cmd.Env = append(os.Environ(), "STARLING_DIR=")
		help, err := cmd.Output()
		if err != nil {
			t.Fatalf("starling %s --help: %v", strings.Join(command, " "), err)
		}
		all.WriteString("# " + strings.Join(append([]string{"starling"}, command...), " ") + "\n\n" + string(help) + "\n")
		_, list, _ := strings.Cut(string(help), "\nAvailable Commands:\n")
		list, _, _ = strings.Cut(list, "\n\n")
		for line := range strings.Lines(list) {
			if name := strings.Fields(line)[0]; name != "help" && name != "completion" { // these are cobra's
				walk(append(slices.Clip(command), name)...)
			}
		}
	}
	walk()
	golden.Compare(t, "help", all.String())
}
