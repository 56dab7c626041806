package plugin

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestColors: signs at the beginnings of lines are colored, and nothing else. What is written to a
// file, or to a test, has no colors.
func TestColors(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	w := EscapingWriter{Writer: &coloringWriter{out: &out, begins: true}}
	fmt.Fprint(w, "[x] good\n├── [!] bad [x]\n    └── [?] x\n")
	fmt.Fprintf(w, "  %s %s", "+", "configmaps a")
	fmt.Fprint(w, " - b")
	fmt.Fprintln(w)
	fmt.Fprint(w, "text [x]\n- \x1b[31mred\n-5\n")
	want := "\x1b[32m[x]\x1b[0m good\n├── \x1b[31m[!]\x1b[0m bad [x]\n    └── \x1b[35m[?]\x1b[0m x\n" +
		"  \x1b[32m+ \x1b[0mconfigmaps a - b\n" +
		"text [x]\n\x1b[31m- \x1b[0m^[[31mred\n-5\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("colored text (-want +got):\n%s", diff)
	}
	out.Reset()
	fmt.Fprint(Output(&out), "[x] good\n")
	if out.String() != "[x] good\n" {
		t.Errorf("without a terminal: %q", out.String())
	}
}
