package localfleet_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/starlinghq/starling/test/golden"
	"github.com/starlinghq/starling/test/testenv"
)

// TestTexts compares what the commands print with testdata/texts.golden. It runs the binary; see
// TestHelp.
func TestTexts(t *testing.T) {
	bin, err := testenv.Binary()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "fleet")
	var texts []golden.Text
	run := func(dir string, args ...string) string {
		cmd := exec.CommandContext(t.Context(), bin, args...)
		cmd.Env = append(os.Environ(), "STARLING_DIR="+dir)
		out, err := cmd.CombinedOutput()
		text := strings.ReplaceAll(string(out), dir, "/home/me/.starling")
		if err != nil {
			text += err.Error() // the exit code
		}
		return text
	}
	for _, command := range []string{
		"status", "down", "kubeconfig", "kubectl -- get pods", "logs etcd", "wec add edge1", "wec remove edge1", // without a fleet
		"other", "up now", "up --wecs many", "up --wecs 101", "up -o yaml", "logs", "wec add", "wec add edge1 --labels site",
	} {
		texts = append(texts, golden.Text{Heading: command, Text: run(dir, strings.Fields(command)...)})
	}
	f := testenv.Shared(t)
	running := run(f.Dir, "status")
	for pattern, with := range map[string]string{
		`127\.0\.0\.1:\d+`: "127.0.0.1:PORT", `\d+ MiB`: "N MiB", `  \d+  `: "  N  ", `(?m) +$`: "",
	} {
		running = regexp.MustCompile(pattern).ReplaceAllString(running, with)
	}
	running = regexp.MustCompile(` {2,}`).ReplaceAllString(running, "  ") // the width of columns depends on the numbers
	golden.Texts(t, append(texts, golden.Text{Heading: "status of a running fleet", Text: running})...)
}
