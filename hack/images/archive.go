package main

import (
	"archive/tar"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/spf13/cobra"

	"github.com/starlinghq/starling/hack/tarfile"
)

func newArchiveCommand() *cobra.Command {
	var image, root, to string
	cmd := &cobra.Command{
		Use:   "archive [ENTRYPOINT...]",
		Short: "Write an archive for `docker load` of one image with the files of a directory",
		RunE: func(_ *cobra.Command, entrypoint []string) error {
			return writeArchive(image, root, to, entrypoint)
		},
	}
	f := cmd.Flags()
	f.SetInterspersed(false) // the entry point has flags of its own
	f.StringVar(&image, "name", "", "Name and tag of the image.")
	f.StringVar(&root, "root", "", "Directory that is the file system of the image.")
	f.StringVar(&to, "to", "", "File to write.")
	return cmd
}

// writeArchive writes an image that has the files of a directory, which belong to root. It runs on
// this machine's architecture. The same files give the same bytes.
func writeArchive(image, root, to string, entrypoint []string) error {
	tag, err := name.NewTag(image)
	if err != nil {
		return err
	}
	layer, err := layerOf(func(w *tar.Writer) error { return writeTree(w, root) })
	if err != nil {
		return fmt.Errorf("read %s: %w", root, err)
	}
	all, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return err
	}
	config, err := all.ConfigFile()
	if err != nil {
		return err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Config = v1.Config{
		Entrypoint: entrypoint,
		Env:        []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
	}
	if all, err = mutate.ConfigFile(all, config); err != nil {
		return err
	}
	return tarball.WriteToFile(to, tag, all)
}

// writeTree writes the directories, files and symbolic links below a directory.
func writeTree(w *tar.Writer, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == "." {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		switch mode := int64(info.Mode().Perm()); {
		case entry.IsDir():
			return w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: path + "/", Mode: mode, ModTime: time.Unix(0, 0)})
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := root.Readlink(path)
			if err != nil {
				return err
			}
			return w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: path, Linkname: target, Mode: mode, ModTime: time.Unix(0, 0)})
		case info.Mode().IsRegular():
			file, err := root.Open(path)
			if err != nil {
				return err
			}
			defer file.Close()
			return tarfile.Write(w, path, mode, info.Size(), file, time.Unix(0, 0))
		default:
			return fmt.Errorf("%s is neither a file nor a directory or a link", path)
		}
	})
}
