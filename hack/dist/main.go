// Command dist writes what a release offers for download: archives of the programs for each
// platform, charts, and the checksums of all of them.
//
//	go run ./hack/dist --from bin/programs --to bin/dist --version v1.2.3 --created 1700000000
//
// It reads the programs in FROM/OS-ARCH, and all else in the working directory, which must be the
// root of the repository. The same programs and files give the same bytes.
package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := newCommand().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(1)
	}
}

// release is what is written, from where and to where.
type release struct {
	// root is the root of the repository, from the directory of the programs.
	root, from, to string
	// version begins with v.
	version string
	// created is the time of all files.
	created time.Time
}

func newCommand() *cobra.Command {
	r := release{root: "."}
	var created int64
	cmd := &cobra.Command{
		Use:   "dist",
		Short: "Write the archives, the charts and the checksums of a release",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			r.created = time.Unix(created, 0).UTC()
			return r.write()
		},
		SilenceUsage: true, SilenceErrors: true,
	}
	f := cmd.Flags()
	f.StringVar(&r.from, "from", "bin/programs", "Directory of the programs: OS-ARCH/PROGRAM.")
	f.StringVar(&r.to, "to", "bin/dist", "Directory to write to.")
	f.StringVar(&r.version, "version", "", "Version of the release, such as v1.2.3.")
	f.Int64Var(&created, "created", 0, "Time of the commit in seconds since 1970.")
	return cmd
}

// Helm requires a semantic version.
var semantic = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`)

// write writes everything.
func (r *release) write() error {
	if !semantic.MatchString(r.version) {
		return fmt.Errorf("invalid version %q: must be like v1.2.3 or v1.2.3-rc.1, because charts have it", r.version)
	}
	platforms, err := r.platforms()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(r.to, 0o750); err != nil {
		return err
	}
	var files []string
	for _, platform := range platforms {
		for _, b := range bundles {
			file, err := r.writeBundle(b, platform)
			if err != nil {
				return fmt.Errorf("write the archive of %s for %s: %w", b.name, platform, err)
			}
			files = append(files, file)
		}
	}
	for _, chart := range charts {
		file, err := r.writeChart(chart)
		if err != nil {
			return fmt.Errorf("package chart %q: %w", chart, err)
		}
		files = append(files, file)
	}
	return r.writeSums(files)
}

// platforms returns the names OS-ARCH of the directories with programs, sorted.
func (r *release) platforms() ([]string, error) {
	entries, err := os.ReadDir(r.from)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var out []string
	for _, entry := range entries {
		if entry.IsDir() {
			out = append(out, entry.Name())
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no programs in %s/OS-ARCH: run `make dist`", r.from)
	}
	return out, nil
}

// writeSums writes a file for `sha256sum --check`.
func (r *release) writeSums(files []string) error {
	var text strings.Builder
	for _, file := range slices.Sorted(slices.Values(files)) {
		sum, err := sumOf(filepath.Join(r.to, file))
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%x  %s\n", sum, file)
	}
	return os.WriteFile(filepath.Join(r.to, "SHA256SUMS"), []byte(text.String()), 0o644) //nolint:gosec // it is published
}

func sumOf(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return nil, err
	}
	return hash.Sum(nil), nil
}
