package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"debug/buildinfo"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/starlinghq/starling/hack/spdx"
	"github.com/starlinghq/starling/hack/tarfile"
)

// bundle is an archive of programs.
type bundle struct {
	name     string
	programs []string
	// files are patterns of further files in the repository. They have the same names in the
	// archive.
	files []string
}

// bundles are the archives of each platform. Beside `starling` are the programs that `starling up
// --nodes` starts.
var bundles = []bundle{
	{
		name: "starling",
		programs: []string{
			"binding-controller", "kubectl-starling", "kwok", "package-server", "starling", "status-agent", "transport-controller",
		},
		files: []string{"LICENSE", "docs/examples/nginx/*.yaml"},
	},
	{name: "kubectl-starling", programs: []string{"kubectl-starling"}, files: []string{"LICENSE"}},
}

// completion is a script that kubectl finds beside kubectl-starling.
const completion = "hack/kubectl_complete-starling"

// entry is a file of an archive.
type entry struct {
	name string
	mode int64
	// The content is that of the file from, or data.
	from string
	data []byte
}

// writeBundle writes the archive of a platform, and returns its name. All files are in one
// directory, which has the name of the archive.
func (r *release) writeBundle(b bundle, platform string) (string, error) {
	entries, err := r.entries(b, platform)
	if err != nil {
		return "", err
	}
	name := fmt.Sprintf("%s-%s-%s", b.name, r.version, platform)
	file := name + ".tar.gz"
	return file, r.writeArchive(file, func(w *tar.Writer) error {
		for _, e := range entries {
			if err := r.writeEntry(w, name, e); err != nil {
				return err
			}
		}
		return nil
	})
}

func (r *release) writeEntry(w *tar.Writer, dir string, e entry) error {
	name := path.Join(dir, e.name)
	if e.from != "" {
		return tarfile.Copy(w, e.from, name, e.mode, r.created)
	}
	return tarfile.Write(w, name, e.mode, int64(len(e.data)), bytes.NewReader(e.data), r.created)
}

// entries returns the files of an archive, sorted by name.
func (r *release) entries(b bundle, platform string) ([]entry, error) {
	out := []entry{{name: filepath.Base(completion), mode: 0o755, from: filepath.Join(r.root, completion)}}
	for _, program := range b.programs {
		file := filepath.Join(r.from, platform, program)
		if err := checkPlatform(file, platform); err != nil {
			return nil, err
		}
		modules, err := spdx.Of(file, spdx.Release{Version: r.version, Created: r.created})
		if err != nil {
			return nil, err
		}
		out = append(out, entry{name: program, mode: 0o755, from: file},
			entry{name: "modules/" + program + ".spdx.json", mode: 0o644, data: modules})
	}
	for _, pattern := range b.files {
		found, err := filepath.Glob(filepath.Join(r.root, pattern))
		if err != nil || len(found) == 0 {
			return nil, fmt.Errorf("no file %s: %w", pattern, err)
		}
		for _, file := range found {
			name, err := filepath.Rel(r.root, file)
			if err != nil {
				return nil, err
			}
			out = append(out, entry{name: filepath.ToSlash(name), mode: 0o644, from: file})
		}
	}
	sortEntries(out)
	return out, nil
}

func sortEntries(entries []entry) {
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.name, b.name) })
}

// checkPlatform returns an error if a program is for another platform than OS-ARCH.
func checkPlatform(file, platform string) error {
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read program: %w", err)
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if is := settings["GOOS"] + "-" + settings["GOARCH"]; is != platform {
		return fmt.Errorf("program %q is for %s", file, is)
	}
	return nil
}

// writeArchive writes a tar.gz file of the release.
func (r *release) writeArchive(file string, write func(*tar.Writer) error) (err error) {
	f, err := os.Create(filepath.Join(r.to, file))
	if err != nil {
		return err
	}
	zipped := gzip.NewWriter(f)
	archive := tar.NewWriter(zipped)
	err = write(archive)
	for _, c := range []io.Closer{archive, zipped, f} {
		if closing := c.Close(); err == nil {
			err = closing
		}
	}
	return err
}
