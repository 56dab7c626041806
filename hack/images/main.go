// Command images builds the container images of Starling's programs, without a container engine,
// and pushes them to a registry.
//
//	go run ./hack/images build --from bin/images --version v1.2.3 --created 1700000000
//	go run ./hack/images push --from bin/images registry.example.com/starling
//
// build reads the programs in DIR/linux-ARCH. For each program it writes an OCI layout with the
// images of all architectures in DIR/PROGRAM, and a list of the modules in each program in
// DIR/PROGRAM-ARCH.spdx.json. It writes an archive for `docker load` of all programs in
// DIR/starling-ARCH.tar. The same programs give the same bytes.
//
// archive writes an image of the files in a directory, for tests.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/spf13/cobra"

	"github.com/starlinghq/starling/hack/spdx"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := newCommand().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

// programs are those that have an image.
var programs = []string{"binding-controller", "package-server", "starling", "status-agent", "transport-controller"}

func newCommand() *cobra.Command {
	root := &cobra.Command{Use: "images", Short: "Build and push the container images of Starling", SilenceUsage: true, SilenceErrors: true}
	var from string
	root.PersistentFlags().StringVar(&from, "from", "bin/images", "Directory of the programs and the images.")
	root.AddCommand(newBuildCommand(&from), newPushCommand(&from), newArchiveCommand())
	return root
}

func newBuildCommand(from *string) *cobra.Command {
	var version, revision, source string
	var created int64
	cmd := &cobra.Command{
		Use:   "build",
		Short: "Build an image of each program",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return build(*from, about{version: version, revision: revision, source: source, created: time.Unix(created, 0).UTC()})
		},
	}
	f := cmd.Flags()
	f.StringVar(&version, "version", "", "Version of the programs, and the tag of the images.")
	f.StringVar(&revision, "revision", "", "Commit that the programs are built from.")
	f.StringVar(&source, "source", "", "URL of the repository.")
	f.Int64Var(&created, "created", 0, "Time of the commit in seconds since 1970.")
	return cmd
}

func newPushCommand(from *string) *cobra.Command {
	var insecure bool
	var tag string
	cmd := &cobra.Command{
		Use:   "push REGISTRY",
		Short: "Push the images, with the list of modules of each",
		Example: `  # Push to a registry, with the credentials of docker or podman
  go run ./hack/images push --tag v1.2.3 registry.example.com/starling`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if tag == "" {
				return errors.New("a tag is required: --tag")
			}
			return push(*from, strings.TrimSuffix(args[0], "/"), tag, insecure,
				remote.WithAuthFromKeychain(authn.DefaultKeychain), remote.WithContext(cmd.Context()))
		},
	}
	cmd.Flags().StringVar(&tag, "tag", "", "Tag of the images.")
	cmd.Flags().BoolVar(&insecure, "insecure", false, "Use HTTP without TLS.")
	return cmd
}

// build builds the images of all programs, of all architectures for which there are programs.
func build(dir string, a about) error {
	architectures, err := architecturesIn(dir)
	if err != nil {
		return err
	}
	archives := map[string]archive{}
	for _, program := range programs {
		var all []platformImage
		for _, arch := range architectures {
			file := filepath.Join(dir, "linux-"+arch, program)
			image, err := newImage(program, arch, file, a)
			if err != nil {
				return fmt.Errorf("image of %s: %w", file, err)
			}
			all = append(all, platformImage{arch, image})
			if archives[arch] == nil {
				archives[arch] = archive{}
			}
			archives[arch][program] = image
			modules, err := spdx.Of(file, spdx.Release{Version: a.version, Created: a.created})
			if err != nil {
				return fmt.Errorf("modules of %s: %w", file, err)
			}
			if err := os.WriteFile(filepath.Join(dir, program+"-"+arch+".spdx.json"), modules, 0o600); err != nil {
				return err
			}
		}
		to := filepath.Join(dir, program)
		if err := os.RemoveAll(to); err != nil {
			return err
		}
		if _, err := layout.Write(to, newIndex(all)); err != nil {
			return fmt.Errorf("write %s: %w", to, err)
		}
	}
	for arch, images := range archives {
		if err := images.write(filepath.Join(dir, "starling-"+arch+".tar"), a.version); err != nil {
			return err
		}
	}
	return nil
}

// architecturesIn returns the architectures ARCH of the directories linux-ARCH, sorted.
func architecturesIn(dir string) ([]string, error) {
	found, err := filepath.Glob(filepath.Join(dir, "linux-*"))
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no programs in %s/linux-*: run `make images`", dir)
	}
	for i := range found {
		found[i] = strings.TrimPrefix(filepath.Base(found[i]), "linux-")
	}
	slices.Sort(found)
	return found, nil
}
