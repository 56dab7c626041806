package bundle

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/starlinghq/starling/pkg/core/redact"
)

const (
	// maxFile is how large a file of the archive can be, in bytes.
	maxFile = 8 << 20
	// maxArchive is how large all files can be together. Most texts shrink to a tenth of it.
	maxArchive = 128 << 20
)

// archive is a compressed tar archive. All its methods redact what they add.
type archive struct {
	gzip    *gzip.Writer
	tar     *tar.Writer
	dir     string
	now     time.Time
	objects redact.Options
	// maxFile is how large a list can be, and left is how many bytes may still be added.
	maxFile, left int
	err           error
}

func newArchive(w io.Writer, dir string, now time.Time, objects redact.Options) *archive {
	a := &archive{gzip: gzip.NewWriter(w), dir: dir, now: now, objects: objects, maxFile: maxFile, left: maxArchive}
	a.tar = tar.NewWriter(a.gzip)
	return a
}

// errFull means that a file is left out.
var errFull = errors.New("the bundle is full")

// log adds a log.
func (a *archive) log(name string, text []byte) error { return a.add(name, redact.Log(string(text))) }

// list is a file with objects.
type list struct {
	archive *archive
	name    string
	text    []byte
	// objects is the number of objects in the file.
	objects int
}

func (a *archive) newList(name string) *list { return &list{archive: a, name: name} }

// append adds an object to the list. It returns false if the list is full.
func (l *list) append(obj map[string]any) (bool, error) {
	text, err := yaml.Marshal(redact.Object(obj, l.archive.objects))
	if err != nil {
		return false, err
	}
	if len(l.text)+len(text) > l.archive.maxFile {
		return false, nil
	}
	l.text = append(append(l.text, "---\n"...), text...)
	l.objects++
	return true, nil
}

// close adds the list to the archive, if it is not empty.
func (l *list) close() error {
	if l.objects == 0 {
		return nil
	}
	return l.archive.add(l.name, string(l.text))
}

// add adds a file whose text was redacted.
func (a *archive) add(name, text string) error {
	if len(text) > a.left {
		return errFull
	}
	a.left -= len(text)
	header := &tar.Header{Name: path.Join(a.dir, name), Mode: 0o600, Size: int64(len(text)), ModTime: a.now, Typeflag: tar.TypeReg}
	if err := a.tar.WriteHeader(header); err != nil {
		a.err = errors.Join(a.err, err)
		return err
	}
	_, err := io.WriteString(a.tar, text)
	a.err = errors.Join(a.err, err)
	return err
}

// close completes the archive. It returns an error if it could not be written.
func (a *archive) close() error {
	if err := errors.Join(a.err, a.tar.Close(), a.gzip.Close()); err != nil {
		return fmt.Errorf("write the bundle: %w", err)
	}
	return nil
}
