package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestChangeFile: the capability and the limits are gone, and everything else is as before.
func TestChangeFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "process.json")
	const before = `{"args":["sh"],"capabilities":{"bounding":["CAP_CHOWN","CAP_SYS_RESOURCE"]},"number":18446744073709551615,"rlimits":[{}]}`
	if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := changeFile(file, reduce); err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"args":["sh"],"capabilities":{"bounding":["CAP_CHOWN"]},"number":18446744073709551615}`
	if diff := cmp.Diff(want, string(after)); diff != "" {
		t.Errorf("file (-want +got):\n%s", diff)
	}
}

func TestValueOf(t *testing.T) {
	args := []string{"--root", "/run", "create", "--bundle", "/bundle", "--pid-file"}
	for flag, want := range map[string]string{"--bundle": "/bundle", "--process": "", "--pid-file": ""} {
		if got := valueOf(args, flag); got != want {
			t.Errorf("%s is %q, want %q", flag, got, want)
		}
	}
}
