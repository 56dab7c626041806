package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
)

// newRelease returns a release of one small program, which has the names of all programs.
func newRelease(t *testing.T, platforms ...string) *release {
	t.Helper()
	source := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	from := t.TempDir()
	for _, platform := range platforms {
		goos, goarch, _ := strings.Cut(platform, "-")
		first := filepath.Join(from, platform, bundles[0].programs[0])
		cmd := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-trimpath", "-o", first, source)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		for _, program := range bundles[0].programs[1:] {
			if err := os.Link(first, filepath.Join(from, platform, program)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return &release{root: "../..", from: from, to: t.TempDir(), version: "v1.2.3", created: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
}

// contentOf returns the headers and the contents of an archive, by the names of the files.
func contentOf(t *testing.T, file string) (headers map[string]string, contents map[string][]byte) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zipped, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	if !zipped.ModTime.IsZero() || zipped.Name != "" {
		t.Errorf("%s has the time %s and the name %q", file, zipped.ModTime, zipped.Name)
	}
	headers, contents = map[string]string{}, map[string][]byte{}
	for archive := tar.NewReader(zipped); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return headers, contents
		}
		if err != nil {
			t.Fatal(err)
		}
		headers[h.Name] = fmt.Sprintf("%s %d:%d %s%s %s", h.FileInfo().Mode(), h.Uid, h.Gid, h.Uname, h.Gname, h.ModTime.UTC().Format(time.DateTime))
		if contents[h.Name], err = io.ReadAll(archive); err != nil {
			t.Fatal(err)
		}
	}
}

// TestArchives: each platform has its archives, with all that `starling up --nodes` starts. The
// same programs give the same bytes, and the checksums are right.
func TestArchives(t *testing.T) {
	r := newRelease(t, "darwin-arm64", "linux-amd64")
	if err := r.write(); err != nil {
		t.Fatal(err)
	}
	const program, file = "-rwxr-xr-x 0:0  2026-01-02 03:04:05", "-rw-r--r-- 0:0  2026-01-02 03:04:05"
	for archive, want := range map[string]map[string]string{
		"starling-v1.2.3-linux-amd64": {
			"LICENSE": file, "docs/examples/nginx/policy.yaml": file, "docs/examples/nginx/status-back.yaml": file,
			"docs/examples/nginx/status-of-all.yaml": file, "docs/examples/nginx/workload.yaml": file, "kubectl_complete-starling": program,
			"binding-controller": program, "modules/binding-controller.spdx.json": file,
			"kubectl-starling": program, "modules/kubectl-starling.spdx.json": file,
			"kwok": program, "modules/kwok.spdx.json": file,
			"package-server": program, "modules/package-server.spdx.json": file,
			"starling": program, "modules/starling.spdx.json": file,
			"status-agent": program, "modules/status-agent.spdx.json": file,
			"transport-controller": program, "modules/transport-controller.spdx.json": file,
		},
		"kubectl-starling-v1.2.3-darwin-arm64": {
			"LICENSE": file, "kubectl_complete-starling": program, "kubectl-starling": program, "modules/kubectl-starling.spdx.json": file,
		},
	} {
		headers, contents := contentOf(t, filepath.Join(r.to, archive+".tar.gz"))
		named := map[string]string{}
		for name, header := range want {
			named[archive+"/"+name] = header
		}
		if diff := cmp.Diff(named, headers); diff != "" {
			t.Errorf("%s (-want +got):\n%s", archive, diff)
		}
		platform := strings.Join(strings.Split(archive, "-")[len(strings.Split(archive, "-"))-2:], "-")
		built, err := os.ReadFile(filepath.Join(r.from, platform, "kubectl-starling"))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(built, contents[archive+"/kubectl-starling"]) {
			t.Errorf("kubectl-starling in %s is not what was built", archive)
		}
	}

	again := *r
	again.to = t.TempDir()
	if err := again.write(); err != nil {
		t.Fatal(err)
	}
	sums := filesOf(t, r.to)
	if diff := cmp.Diff(sums, filesOf(t, again.to)); diff != "" {
		t.Errorf("written again (-before +after):\n%s", diff)
	}
	published, err := os.ReadFile(filepath.Join(r.to, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	delete(sums, "SHA256SUMS")
	listed := map[string]string{}
	for line := range strings.Lines(string(published)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		listed[name] = sum
	}
	if diff := cmp.Diff(sums, listed); diff != "" {
		t.Errorf("SHA256SUMS (-want +got):\n%s", diff)
	}
	if len(listed) != 2*len(bundles)+len(charts) {
		t.Errorf("SHA256SUMS has %d files", len(listed))
	}
}

// filesOf returns the checksums of the files in a directory.
func filesOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, entry := range entries {
		sum, err := sumOf(filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		out[entry.Name()] = hex.EncodeToString(sum)
	}
	return out
}

const namespace = "starling-system" // the charts of spaces refuse another one

// TestCharts: a packaged chart is complete, has the version of the release everywhere, and renders
// what the directory does.
func TestCharts(t *testing.T) {
	r := newRelease(t)
	values := map[string]map[string]any{
		"its": nil, "wds": nil, "space": {"name": "its1", "kind": "its"},
		"starling": {
			"ITSes": []any{map[string]any{"name": "its1", "type": "hosted"}},
			"WDSes": []any{map[string]any{"name": "wds1", "type": "hosted"}},
		},
	}
	for _, name := range charts {
		t.Run(name, func(t *testing.T) {
			file, err := r.writeChart(name)
			if err != nil {
				t.Fatal(err)
			}
			file = filepath.Join(r.to, file)
			packaged, err := loader.Load(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range append(packaged.Dependencies(), packaged) {
				if c.Metadata.Version != "1.2.3" || c.Metadata.AppVersion != "1.2.3" {
					t.Errorf("chart %q has version %s and appVersion %s", c.Name(), c.Metadata.Version, c.Metadata.AppVersion)
				}
			}
			linter := action.NewLint()
			linter.Strict, linter.Namespace = true, namespace
			for _, err := range linter.Run([]string{file}, values[name]).Errors {
				t.Errorf("helm lint --strict: %v", err)
			}
			directory, err := loader.LoadDir(filepath.Join("../../charts", name))
			if err != nil {
				t.Fatal(err)
			}
			// The directory has the version of the next release.
			want := strings.ReplaceAll(render(t, directory, values[name]), ":v"+directory.Metadata.AppVersion, ":v1.2.3")
			if diff := cmp.Diff(want, render(t, packaged, values[name])); diff != "" {
				t.Errorf("manifests (-directory +packaged):\n%s", diff)
			}
		})
	}
}

// render returns what helm would install.
func render(t *testing.T, c *chart.Chart, values map[string]any) string {
	t.Helper()
	client := action.NewInstall(&action.Configuration{Log: func(string, ...any) {}})
	client.DryRun, client.ClientOnly, client.Replace = true, true, true
	client.ReleaseName, client.Namespace = "fleet", namespace
	client.KubeVersion = &chartutil.KubeVersion{Version: "v1.34.0", Major: "1", Minor: "34"}
	release, err := client.RunWithContext(t.Context(), c, values)
	if err != nil {
		t.Fatal(err)
	}
	if release.Manifest == "" {
		t.Fatal("the chart renders nothing")
	}
	return release.Manifest
}

func TestErrors(t *testing.T) {
	whole := newRelease(t, "linux-amd64").from
	for name, tc := range map[string]struct {
		change func(*testing.T, *release)
		want   string
	}{
		"NoVersion":     {func(_ *testing.T, r *release) { r.version = "" }, `invalid version ""`},
		"NoTag":         {func(_ *testing.T, r *release) { r.version = "962a351-dirty" }, `invalid version "962a351-dirty"`},
		"NothingBuilt":  {func(t *testing.T, r *release) { t.Helper(); r.from = t.TempDir() }, "no programs in "},
		"NoDirectory":   {func(_ *testing.T, r *release) { r.from = "missing" }, "no programs in missing/OS-ARCH: run `make dist`"},
		"NotRepository": {func(t *testing.T, r *release) { t.Helper(); r.root = t.TempDir() }, "no file LICENSE"},
		"OtherPlatform": {func(t *testing.T, r *release) {
			t.Helper()
			r.from = t.TempDir()
			if err := os.CopyFS(filepath.Join(r.from, "linux-arm64"), os.DirFS(filepath.Join(whole, "linux-amd64"))); err != nil {
				t.Fatal(err)
			}
		}, "is for linux-amd64"},
		"ProgramMissing": {func(t *testing.T, r *release) {
			t.Helper()
			r.from = t.TempDir()
			if err := os.Mkdir(filepath.Join(r.from, "linux-amd64"), 0o755); err != nil {
				t.Fatal(err)
			}
		}, "write the archive of starling for linux-amd64: read program: "},
	} {
		t.Run(name, func(t *testing.T) {
			r := &release{root: "../..", from: whole, to: t.TempDir(), version: "v1.2.3"}
			tc.change(t, r)
			if err := r.write(); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}
