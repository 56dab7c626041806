// Package golden compares texts with golden files. `go test -update` rewrites the files.
package golden

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// Text is a text for users with its heading: where it appears, or what causes it.
type Text struct{ Heading, Text string }

// Texts compares texts for users with testdata/texts.golden, which has a paragraph for each.
func Texts(t *testing.T, texts ...Text) {
	t.Helper()
	var b strings.Builder
	for _, text := range texts {
		b.WriteString("## " + text.Heading + "\n" + strings.TrimRight(text.Text, "\n") + "\n\n")
	}
	Compare(t, "texts", strings.TrimRight(b.String(), "\n")+"\n")
}

// Compare compares got with testdata/<name>.golden.
func Compare(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got), rewrite it with -update:\n%s", file, diff)
	}
}
