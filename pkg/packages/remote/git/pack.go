package git

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/storage/filesystem"

	"github.com/starlinghq/starling/pkg/packages/remote"
)

const (
	// objectCache is the size of the object cache, in bytes.
	objectCache = 8 * cache.MiByte
	// maxObjects bounds the memory of the index of objects.
	maxObjects = 2_000_000
	// maxDeltas bounds chains of deltas. Git makes chains of 50, and of at most 4095.
	maxDeltas = 4095
	// maxLooseDeltas bounds the number of deltas whose base is given by hash, because the length of
	// their chain is not known.
	maxLooseDeltas = 100_000
)

// unpack stores the objects of a pack in a directory after checking the pack. Reading an unchecked
// pack needs as much memory as its sender wants.
func unpack(pack io.Reader, dir string, limits remote.Limits) (*filesystem.Storage, error) {
	file, err := os.Create(filepath.Join(dir, "pack"))
	if err != nil {
		return nil, err
	}
	defer os.Remove(file.Name())
	defer file.Close()
	if _, err := io.Copy(file, (&transfer{limit: limits.Bytes}).bound(io.NopCloser(pack))); err != nil {
		return nil, fmt.Errorf("receive pack: %w", err)
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	if err := checkPack(file, limits); err != nil {
		return nil, err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	storage := filesystem.NewStorageWithOptions(osfs.New(filepath.Join(dir, "objects")), cache.NewObjectLRU(objectCache),
		filesystem.Options{ExclusiveAccess: true, KeepDescriptors: true})
	err = packfile.WritePackfileToObjectStorage(storage, file)
	if errors.Is(err, packfile.ErrEmptyPackfile) {
		return storage, nil
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("unpack: %w", err), storage.Close())
	}
	return storage, nil
}

// checkPack reads a pack without storing anything of it.
func checkPack(pack io.ReadSeeker, limits remote.Limits) error {
	scanner := packfile.NewScanner(pack)
	_, count, err := scanner.Header()
	if errors.Is(err, packfile.ErrEmptyPackfile) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read pack: %w", err)
	}
	if count > maxObjects {
		return remote.Errorf(remote.TooLarge, "the server sends %d objects, but the limit is %d", count, maxObjects)
	}
	depths := map[int64]uint16{}
	var unpacked int64
	loose := 0
	for range count {
		header, err := scanner.NextObjectHeader()
		if err != nil {
			return fmt.Errorf("read pack: %w", err)
		}
		if header.Length < 0 || header.Length > limits.Object {
			return remote.Errorf(remote.TooLarge, "the repository has a file of %d MiB, but the limit is %d MiB", header.Length>>20, limits.Object>>20)
		}
		content := &objectMeter{limit: header.Length}
		if _, _, err := scanner.NextObject(content); err != nil {
			return fmt.Errorf("read pack: %w", err)
		}
		size := header.Length
		switch header.Type {
		case plumbing.OFSDeltaObject:
			depth := depths[header.OffsetReference] + 1
			if depth > maxDeltas {
				return remote.Errorf(remote.TooLarge, "the server sends chains of more than %d deltas", maxDeltas)
			}
			depths[header.Offset] = depth
			size, err = content.deltaTarget()
		case plumbing.REFDeltaObject:
			loose++
			if loose > maxLooseDeltas {
				return remote.Errorf(remote.TooLarge, "the server sends more than %d deltas whose base is given by hash", maxLooseDeltas)
			}
			size, err = content.deltaTarget()
		default: // the header has the size of other objects
		}
		if err != nil {
			return fmt.Errorf("read pack: %w", err)
		}
		if size > limits.Object {
			return remote.Errorf(remote.TooLarge, "the repository has a file of %d MiB, but the limit is %d MiB", size>>20, limits.Object>>20)
		}
		if unpacked += size; unpacked > limits.Unpacked {
			return remote.Errorf(remote.TooLarge, "the pack of the server is larger than %d MiB when unpacked", limits.Unpacked>>20)
		}
	}
	return nil
}

// objectMeter counts the unpacked bytes of an object, which must not exceed its header, and stores
// the first of them.
type objectMeter struct {
	limit, size int64
	first       [32]byte
	n           int
}

func (m *objectMeter) Write(p []byte) (int, error) {
	m.n += copy(m.first[m.n:], p)
	if m.size += int64(len(p)); m.size > m.limit {
		return 0, errors.New("an object is larger than its header states")
	}
	return len(p), nil
}

// deltaTarget returns the size of the result of a delta: the second of two numbers at its
// beginning.
func (m *objectMeter) deltaTarget() (int64, error) {
	first := m.first[:m.n]
	_, n := binary.Uvarint(first)
	size, read := binary.Uvarint(first[max(n, 0):])
	if n <= 0 || read <= 0 || size > math.MaxInt64 {
		return 0, errors.New("a delta has no size")
	}
	return int64(size), nil
}
