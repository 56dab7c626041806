package cli

import (
	"bytes"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// TestConfirm: nothing is done without a yes, of the user or of the flag.
func TestConfirm(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		yes, asks bool
		answer    string
		want      string
	}{
		"Flag":       {yes: true},
		"NoTerminal": {want: "nothing was changed: without a terminal, confirm with --yes", answer: "y\n"},
		"Yes":        {asks: true, answer: "Y\n"},
		"YesInFull":  {asks: true, answer: " yes \n"},
		"No":         {asks: true, answer: "n\n", want: "nothing was changed"},
		"Enter":      {asks: true, answer: "\n", want: "nothing was changed"},
		"End":        {asks: true, want: "nothing was changed"},
	} {
		var out bytes.Buffer
		a := newDrain(&options{asks: tc.asks, IOStreams: genericiooptions.IOStreams{In: strings.NewReader(tc.answer), Out: &out, ErrOut: &out}})
		a.yes = tc.yes
		got := ""
		if err := a.confirm(2); err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
		if asked := out.String() == "Drain 2 clusters? [y/N] "; asked != (tc.asks && !tc.yes) {
			t.Errorf("%s: printed %q", name, out.String())
		}
	}
}
