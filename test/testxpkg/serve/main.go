// Command serve serves packages of Crossplane's format on loopback, for demonstrations. The files
// DIRECTORY/REPOSITORY/TAG/package.yaml are pushed to a registry that keeps everything in memory;
// $REGISTRY in them stands for its address. Then the command prints the address, and serves until
// it is interrupted.
package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path"
	"syscall"

	"github.com/starlinghq/starling/pkg/xpkg"
	"github.com/starlinghq/starling/test/testxpkg"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: serve DIRECTORY")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.DirFS(os.Args[1]), os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// run serves packages until the context ends. It writes the address of the registry.
func run(ctx context.Context, packages fs.FS, out io.Writer) error {
	registry, err := testxpkg.NewRegistry()
	if err != nil {
		return err
	}
	defer registry.Close()
	files, err := find(packages)
	if err != nil {
		return err
	}
	for _, file := range files {
		content, err := fs.ReadFile(packages, file)
		if err != nil {
			return err
		}
		image, err := xpkg.Build(bytes.ReplaceAll(content, []byte("$REGISTRY"), []byte(registry.Host())))
		if err != nil {
			return fmt.Errorf("build %s: %w", file, err)
		}
		repository, tag := path.Split(path.Dir(file))
		if _, err := registry.Push(ctx, path.Clean(repository), tag, image); err != nil {
			return fmt.Errorf("push %s: %w", file, err)
		}
	}
	if _, err := fmt.Fprintln(out, registry.Host()); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// find returns the paths of all package.yaml.
func find(packages fs.FS) ([]string, error) {
	var files []string
	err := fs.WalkDir(packages, ".", func(file string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Name() == "package.yaml" {
			files = append(files, file)
		}
		return err
	})
	return files, err
}
