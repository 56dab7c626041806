package testenv

import (
	"os"
	"path/filepath"
	"testing"
)

func TestPanicked(t *testing.T) {
	for name, c := range map[string]struct {
		log  string
		want bool
	}{
		"Nothing":    {log: ""},
		"Error":      {log: "E0101 00:00:00.000000       1 a.go:1] \"Failed\" err=\"panic: no\"\n"},
		"Recovered":  {log: "I0101\nE0101 00:00:00.000000       1 runtime.go:142] \"Observed a panic\" panic=\"nil\"\n", want: true},
		"Structured": {log: `{"level":"error","msg":"Observed a panic"}` + "\n", want: true},
		"Ended":      {log: "I0101\npanic: nil\n\ngoroutine 1 [running]:\n", want: true},
		"Race":       {log: "==================\nWARNING: DATA RACE\n", want: true},
		"Served":     {log: "2026/01/01 00:00:00 http: panic serving 127.0.0.1:1: nil\n", want: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := Fleet{Dir: t.TempDir()}
			if err := os.Mkdir(filepath.Join(f.Dir, "logs"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(f.Dir, "logs", "a.log"), []byte(c.log), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := f.panicked(); (err != nil) != c.want {
				t.Errorf("got %v, want an error: %t", err, c.want)
			}
		})
	}
}
