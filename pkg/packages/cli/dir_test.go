package cli

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/folder"
)

func openDir(t *testing.T) (*Dir, string) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "web")
	d, err := CreateDir(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d, name
}

func write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestInvalidFiles(t *testing.T) {
	tests := map[string]struct {
		prepare func(t *testing.T, dir string) error
		want    string
	}{
		"a link to a file": {
			func(_ *testing.T, dir string) error { return os.Symlink("Kptfile", filepath.Join(dir, "link.yaml")) },
			"link.yaml\": it is a symbolic link. A package may have regular files only",
		},
		"a link out of it": {
			func(_ *testing.T, dir string) error {
				return os.Symlink("/etc/passwd", filepath.Join(dir, "link.yaml"))
			},
			"link.yaml\": it is a symbolic link",
		},
		"a link to a directory": {
			func(_ *testing.T, dir string) error { return os.Symlink("..", filepath.Join(dir, "sub")) },
			"sub\": it is a symbolic link",
		},
		"binary": {
			func(t *testing.T, dir string) error {
				write(t, filepath.Join(dir, "logo.png"), "\x89PNG\xff")
				return nil
			},
			"logo.png: is not UTF-8 text; binary files are not supported",
		},
		"a zero byte": {
			func(t *testing.T, dir string) error { write(t, filepath.Join(dir, "zero"), "a\x00b"); return nil },
			"zero: holds a zero byte",
		},
		"a git directory below": {
			func(t *testing.T, dir string) error { write(t, filepath.Join(dir, "sub/.git/config"), ""); return nil },
			`path "sub/.git/config" is in a git directory`,
		},
		"a backslash": {
			func(t *testing.T, dir string) error { write(t, filepath.Join(dir, `a\b`), ""); return nil },
			"has a control character or a backslash",
		},
		"a large file": {
			func(t *testing.T, dir string) error {
				write(t, filepath.Join(dir, "large"), "")
				return os.Truncate(filepath.Join(dir, "large"), 50<<20)
			},
			"large\": it has more than 6291456 bytes",
		},
		"many large files": {
			func(t *testing.T, dir string) error {
				for _, name := range []string{"a", "b", "c"} {
					write(t, filepath.Join(dir, name), strings.Repeat("x", 3<<20))
				}
				return nil
			},
			"has more than 6291456 bytes",
		},
		"many files": {
			func(t *testing.T, dir string) error {
				for i := range kpt.MaxFiles {
					write(t, filepath.Join(dir, "sub", strings.Repeat("x", i/100)+string(rune('a'+i%100/10))+string(rune('a'+i%10))), "")
				}
				write(t, filepath.Join(dir, "one-more"), "")
				return nil
			},
			"has more than 5000 files",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			d, dir := openDir(t)
			write(t, filepath.Join(dir, "Kptfile"), "")
			if err := test.prepare(t, dir); err != nil {
				t.Fatal(err)
			}
			if files, err := d.Files(); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%d files, error %v, want %q", len(files), err, test.want)
			}
		})
	}
}

// Files that are not part of a package are not read.
func TestIgnoredFiles(t *testing.T) {
	d, dir := openDir(t)
	write(t, filepath.Join(dir, ".git/HEAD"), "\xff")
	write(t, filepath.Join(dir, folder.MetadataName), "x")
	write(t, filepath.Join(dir, "sub/Kptfile"), "y")
	got, err := d.Files()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(kpt.Files{"sub/Kptfile": "y"}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestWritesStayInFolder(t *testing.T) {
	d, dir := openDir(t)
	outside := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(dir, "sub")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(outside, "target"), filepath.Join(dir, "file")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(outside, "target"), "as it was")
	for _, name := range []string{"sub/new", "file", "../beside", "/tmp/starling-absolute", "sub/../../x"} {
		if err := d.Write(name, "changed"); err == nil {
			t.Errorf("%s was written", name)
		}
	}
	if err := d.Remove("sub/target"); err == nil {
		t.Error("sub/target was removed")
	}
	entries, err := os.ReadDir(outside)
	if err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
	if content, err := os.ReadFile(filepath.Join(outside, "target")); err != nil || string(content) != "as it was" {
		t.Errorf("%q, %v", content, err)
	}
	if entries, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(entries) != 1 {
		t.Errorf("beside the folder: %v, %v", entries, err)
	}
}

// An existing file keeps its mode, and files that are not written do not change.
func TestWriteKeepsModes(t *testing.T) {
	d, dir := openDir(t)
	script := filepath.Join(dir, "run.sh")
	write(t, script, "old")
	for _, mode := range []fs.FileMode{0o755, 0o400, 0o600} {
		if err := os.Chmod(script, mode); err != nil {
			t.Fatal(err)
		}
		if err := d.Write("run.sh", "new"); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(script)
		if err != nil || info.Mode() != mode {
			t.Errorf("%v, %v, want %v", info.Mode(), err, mode)
		}
	}
	if err := d.Write("sub/dir/new", "x"); err != nil {
		t.Fatal(err)
	}
	if err := d.Remove("sub/dir/new"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "sub")); !os.IsNotExist(err) {
		t.Errorf("an empty directory is left: %v", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("left in the folder: %v, %v", entries, err)
	}
}

// A pulled package is read back byte for byte, and so is its metadata.
func FuzzRoundTrip(f *testing.F) {
	f.Add("Kptfile", "apiVersion: kpt.dev/v1\n", "sub/a.yaml", "a: b\r\n")
	f.Add("true", "", "1e3", "---\n\n\t")
	f.Add("~", "\ufeffx", "- a: {b", "\u2028")
	f.Fuzz(func(t *testing.T, nameA, contentA, nameB, contentB string) {
		files := kpt.Files{nameA: contentA, nameB: contentB}
		if files.Check() != nil || nameA == folder.MetadataName || nameB == folder.MetadataName {
			t.Skip()
		}
		for name := range files {
			for part := range strings.SplitSeq(name, "/") {
				if len(part) > 255 {
					t.Skip() // longer than a file name may be
				}
			}
		}
		d, err := OpenDir(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		m := folder.Metadata{Namespace: "default", Name: "edge.web.v1", ResourceVersion: "1", Files: folder.Digests(files)}
		if err := applyPlan(d, folder.NewPlan(folder.Metadata{}, nil, files), files); err != nil {
			t.Fatal(err)
		}
		if err := d.SetMetadata(m); err != nil {
			t.Fatal(err)
		}
		got, err := d.Files()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(files, got); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		back, found, err := d.Metadata()
		if err != nil || !found {
			t.Fatal(found, err)
		}
		if diff := cmp.Diff(m, back); diff != "" || !back.Pulled(got) {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}
