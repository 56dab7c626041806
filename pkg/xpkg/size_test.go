package xpkg

import (
	"bytes"
	"compress/gzip"
	"testing"
)

// TestUnpackedSize: what bounds the memory of parsing is the size that the cached content has.
func TestUnpackedSize(t *testing.T) {
	for _, size := range []int{0, 1, 100_000} {
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		if _, err := w.Write(make([]byte, size)); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if got := unpackedSize(packed.Bytes()); got != int64(size) {
			t.Errorf("size %d, want %d", got, size)
		}
	}
	if got := unpackedSize([]byte("x")); got != 0 {
		t.Errorf("size %d of what is no gzip stream", got)
	}
}
