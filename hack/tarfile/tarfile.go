// Package tarfile writes tar archives in which nothing depends on the machine: all files belong to
// root and have the same time.
package tarfile

import (
	"archive/tar"
	"io"
	"os"
	"time"
)

// Write writes a file with content of a known size.
func Write(w *tar.Writer, name string, mode, size int64, content io.Reader, modified time.Time) error {
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: size, ModTime: modified}); err != nil {
		return err
	}
	_, err := io.Copy(w, content)
	return err
}

// Copy writes a file of this machine.
func Copy(w *tar.Writer, from, name string, mode int64, modified time.Time) error {
	file, err := os.Open(from)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	return Write(w, name, mode, info.Size(), file, modified)
}
