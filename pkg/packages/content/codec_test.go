package content_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/packages/content"
)

// noise returns files that do not compress.
func noise(bytes int) kpt.Files {
	rnd := rand.New(rand.NewPCG(1, 2))
	files := kpt.Files{"Kptfile": "x"}
	for i := 0; i < bytes; i += 1 << 16 {
		raw := make([]byte, 3<<14)
		for j := 0; j < len(raw); j += 8 {
			binary.NativeEndian.PutUint64(raw[j:], rnd.Uint64())
		}
		files[fmt.Sprint(i)] = base64.StdEncoding.EncodeToString(raw)
	}
	return files
}

func TestRoundTrip(t *testing.T) {
	for name, files := range map[string]kpt.Files{
		"Empty": {}, "Small": {"Kptfile": "a: b\n", "empty": "", "ümlaut/ß.yaml": "\u2028<&>\t"}, "Large": noise(3 << 20),
	} {
		chunks, err := (&content.Encoder{}).Encode(files)
		if err != nil {
			t.Fatal(err)
		}
		for i, chunk := range chunks {
			if len(chunk) > content.ChunkSize || len(chunk) == 0 {
				t.Errorf("%s: chunk %d has %d bytes", name, i, len(chunk))
			}
		}
		got, err := content.Decode(chunks, files.Digest())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !maps.Equal(files, got) {
			t.Errorf("%s: other files came back", name)
		}
		again, err := (&content.Encoder{}).Encode(got)
		if err != nil || !slices.EqualFunc(chunks, again, bytes.Equal) {
			t.Errorf("%s: the same files give other chunks (%v)", name, err)
		}
	}
}

func TestCorruptContentIsRefused(t *testing.T) {
	files := noise(2 << 20)
	chunks, err := (&content.Encoder{}).Encode(files)
	if err != nil {
		t.Fatal(err)
	}
	var bomb bytes.Buffer
	w := gzip.NewWriter(&bomb)
	if _, err := w.Write(bytes.Repeat([]byte{' '}, 8*kpt.MaxBytes)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for name, parts := range map[string][][]byte{
		"Nothing": nil, "PartMissing": chunks[:len(chunks)-1], "Swapped": {chunks[1], chunks[0]}, "NoGzip": {[]byte("x")}, "Bomb": {bomb.Bytes()},
	} {
		if _, err := content.Decode(parts, files.Digest()); !errors.Is(err, content.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := content.Decode(chunks, (kpt.Files{}).Digest()); !errors.Is(err, content.ErrCorrupt) {
		t.Errorf("another digest: %v", err)
	}
}
