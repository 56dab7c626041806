package content

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
)

// ChunkSize is the maximum size of one chunk in bytes. etcd accepts 1.5 MiB at once, and base64
// makes four bytes of three.
const ChunkSize = 900 << 10

// maxEncoded bounds the size of files as JSON, if every byte of them is escaped.
const maxEncoded = 7 * kpt.MaxBytes

// ErrCorrupt is returned if stored content does not match its digest.
var ErrCorrupt = errors.New("content does not match its digest")

// Encoder packs files. It reuses its gzip.Writers: each has a megabyte of tables, which is more
// than most packages. It is safe for concurrent use; the zero value is ready to use.
type Encoder struct{ writers sync.Pool }

// Encode returns the files as chunks, in order. The same files always give the same chunks.
func (e *Encoder) Encode(files kpt.Files) ([][]byte, error) {
	plain, err := json.Marshal(files) // sorted by name
	if err != nil {
		return nil, err
	}
	var packed bytes.Buffer
	w, ok := e.writers.Get().(*gzip.Writer)
	if !ok {
		if w, err = gzip.NewWriterLevel(nil, gzip.BestSpeed); err != nil {
			return nil, err
		}
	}
	defer e.writers.Put(w)
	w.Reset(&packed)
	if _, err := w.Write(plain); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	var chunks [][]byte
	for packed.Len() > 0 {
		chunks = append(chunks, bytes.Clone(packed.Next(ChunkSize)))
	}
	return chunks, nil
}

// Decode returns the files that Encode was given, if they have this digest. Chunks that unpack to
// more than a package may have are refused before they are unpacked completely.
func Decode(chunks [][]byte, digest string) (kpt.Files, error) {
	r, err := gzip.NewReader(bytes.NewReader(slices.Concat(chunks...)))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	plain, err := io.ReadAll(io.LimitReader(r, maxEncoded+1))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if len(plain) > maxEncoded {
		return nil, fmt.Errorf("%w: it is larger than the maximum of a package", ErrCorrupt)
	}
	files := kpt.Files{}
	if err := json.Unmarshal(plain, &files); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if got := files.Digest(); got != digest {
		return nil, fmt.Errorf("%w: the digest is %s", ErrCorrupt, got)
	}
	return files, nil
}
