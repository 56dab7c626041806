package content

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/starlinghq/starling/pkg/core/kptpkg"
)

// ChunkSize is the most that one chunk holds: etcd takes 1.5 MiB at once, and JSON makes four bytes of three.
const ChunkSize = 900 << 10

// maxEncoded bounds what files come to as JSON, with every byte of them escaped.
const maxEncoded = 7 * kptpkg.MaxBytes

// ErrCorrupt says that what is kept is not what its digest says.
var ErrCorrupt = errors.New("the content is not what its digest says")

// packers are gzip.Writers: each has a megabyte of tables, more than most packages.
var packers sync.Pool

// Encode returns the files as chunks, in order. The same files always give the same chunks.
func Encode(files kptpkg.Files) ([][]byte, error) {
	plain, err := json.Marshal(files) // sorted
	if err != nil {
		return nil, err
	}
	var packed bytes.Buffer
	w, ok := packers.Get().(*gzip.Writer)
	if !ok {
		if w, err = gzip.NewWriterLevel(nil, gzip.BestSpeed); err != nil {
			return nil, err
		}
	}
	defer packers.Put(w)
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

// Decode returns what Encode was given, if it has that digest. What unpacks to more than files may have is an error before it is
// unpacked.
func Decode(chunks [][]byte, digest string) (kptpkg.Files, error) {
	readers := make([]io.Reader, len(chunks))
	for i, chunk := range chunks {
		readers[i] = bytes.NewReader(chunk)
	}
	r, err := gzip.NewReader(io.MultiReader(readers...))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	plain, err := io.ReadAll(io.LimitReader(r, maxEncoded+1))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if len(plain) > maxEncoded {
		return nil, fmt.Errorf("%w: it is larger than a package may be", ErrCorrupt)
	}
	files := kptpkg.Files{}
	if err := json.Unmarshal(plain, &files); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if got := files.Digest(); got != digest {
		return nil, fmt.Errorf("%w: it has %s", ErrCorrupt, got)
	}
	return files, nil
}
