package xpkg

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// Bounds of package.yaml.
const (
	// MaxBytes bounds its size.
	MaxBytes = 200 << 20
	// MaxDocument bounds the size of one of its documents. No API server accepts a larger request.
	MaxDocument = 3 << 20
	// MaxDocuments bounds their number.
	MaxDocuments = 20_000
)

// documents reads a YAML stream document by document.
type documents struct {
	reader *bufio.Reader
	read   int64
	number int // of the last document
	buffer bytes.Buffer
	rest   []byte // of the line of a separator
	inside bool   // the reader is inside a line
	ended  bool
}

func newDocuments(r io.Reader) *documents { return &documents{reader: bufio.NewReaderSize(r, 64<<10)} }

// next returns the next document, which is valid until the following call, or io.EOF. Its other
// errors are those of the reader, or InvalidPackageErrors.
func (d *documents) next() ([]byte, error) {
	if d.ended {
		return nil, io.EOF
	}
	d.number++
	if d.number > MaxDocuments {
		return nil, Invalidf("package.yaml has more than %d documents", MaxDocuments)
	}
	d.buffer.Reset()
	d.buffer.Write(d.rest)
	d.rest = d.rest[:0]
	for {
		part, err := d.reader.ReadSlice('\n')
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
		if d.read += int64(len(part)); d.read > MaxBytes {
			return nil, Invalidf("package.yaml has more than %d MiB", MaxBytes>>20)
		}
		separates := !d.inside && isSeparator(part)
		d.inside, d.ended = errors.Is(err, bufio.ErrBufferFull), errors.Is(err, io.EOF)
		if separates {
			d.rest = append(d.rest, part[3:]...) // "--- content" begins a document
			if d.ended && len(bytes.TrimSpace(d.rest)) > 0 {
				d.ended = false // the next call returns it
			}
			return d.buffer.Bytes(), nil
		}
		d.buffer.Write(part)
		if d.buffer.Len() > MaxDocument {
			return nil, Invalidf("package.yaml: document %d has more than %d MiB", d.number, MaxDocument>>20)
		}
		if d.ended {
			return d.buffer.Bytes(), nil
		}
	}
}

// isSeparator reports whether a line begins or ends a document.
func isSeparator(line []byte) bool {
	if !bytes.HasPrefix(line, []byte("---")) && !bytes.HasPrefix(line, []byte("...")) {
		return false
	}
	return len(line) == 3 || bytes.IndexByte([]byte(" \t\r\n"), line[3]) >= 0
}
