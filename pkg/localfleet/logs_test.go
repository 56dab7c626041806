package localfleet

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWithLog(t *testing.T) {
	f, err := New(Config{Dir: t.TempDir(), Executable: "/bin/true"})
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct{ log, want, wantNot string }{
		"the end":       {log: "first\n" + strings.Repeat("line\n", 20) + "last\n", want: "\n  last", wantNot: "first"},
		"a panic":       {log: "before\npanic: the cause\n" + strings.Repeat("frame\n", 30), want: "panic: the cause", wantNot: "before"},
		"a full disk":   {log: "write: no space left on device\n", want: "is full. Delete files"},
		"a port in use": {log: "listen: address already in use\n", want: "uses the port of this component"},
		"nothing":       {want: "Log: "},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			component := "wds1/" + strings.ReplaceAll(name, " ", "-")
			path := f.layout.Log(component)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(c.log), 0o600); err != nil {
				t.Fatal(err)
			}
			got := f.withLog(errors.New("it failed"), component).Error()
			if !strings.HasPrefix(got, "it failed") || !strings.Contains(got, path) || !strings.Contains(got, c.want) {
				t.Errorf("want %q in:\n%s", c.want, got)
			}
			if c.wantNot != "" && strings.Contains(got, c.wantNot) {
				t.Errorf("do not want %q in:\n%s", c.wantNot, got)
			}
		})
	}
}

func TestRotateLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "some.log")
	if err := os.WriteFile(path, make([]byte, maxLog), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := rotateLog(path); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]int64{path: 0, path + ".1": maxLog} {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() != want {
			t.Errorf("%s has %d bytes, want %d", file, info.Size(), want)
		}
	}
}
