package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
)

// charts are directories of charts.
var charts = []string{"its", "space", "starling", "wds"}

// writeChart writes the archive of a chart with the version of the release, and returns its name.
// What is a symbolic link in the repository is a copy there.
func (r *release) writeChart(name string) (string, error) {
	loaded, err := loader.LoadDir(filepath.Join(r.root, "charts", name))
	if err != nil {
		return "", err
	}
	setVersion(loaded, strings.TrimPrefix(r.version, "v"))
	entries, err := chartEntries(loaded)
	if err != nil {
		return "", err
	}
	file := loaded.Name() + "-" + loaded.Metadata.Version + ".tgz"
	return file, r.writeArchive(file, func(w *tar.Writer) error {
		for _, e := range entries {
			if err := r.writeEntry(w, "", e); err != nil {
				return err
			}
		}
		return nil
	})
}

// setVersion sets the version of a chart, of the images that it uses, and of the charts in it.
func setVersion(c *chart.Chart, version string) {
	c.Metadata.Version, c.Metadata.AppVersion = version, version
	for _, dependency := range c.Metadata.Dependencies {
		dependency.Version = version
	}
	for _, part := range c.Dependencies() {
		setVersion(part, version)
	}
}

// chartEntries returns what Helm packages, sorted by name. Helm itself would give each file the
// current time.
func chartEntries(c *chart.Chart) ([]entry, error) {
	dir, err := os.MkdirTemp("", "starling-chart-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file, err := chartutil.Save(c, dir)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	zipped, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	var out []entry
	for archive := tar.NewReader(zipped); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			sortEntries(out)
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		data, err := io.ReadAll(archive)
		if err != nil {
			return nil, err
		}
		out = append(out, entry{name: header.Name, mode: 0o644, data: data})
	}
}
