package git

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/storage/filesystem"

	"github.com/starlinghq/starling/pkg/repository"
)

const (
	// objectCache is how much of a repository is held in memory while it is read.
	objectCache = 8 * cache.MiByte
	// maxObjects bounds what an index of them takes in memory.
	maxObjects = 2_000_000
	// maxDeltas bounds how many objects may be made of one another in a row. Git itself makes 50, and at most 4095.
	maxDeltas = 4095
	// maxLooseDeltas bounds deltas whose base is named by its hash, since of these the row is not known.
	maxLooseDeltas = 100_000
)

// unpack keeps the objects of a pack in a directory, after it was looked through: reading a pack that nobody looked at needs as much memory as
// its sender likes.
func unpack(pack io.Reader, dir string, limits repository.Limits) (*filesystem.Storage, error) {
	file, err := os.Create(filepath.Join(dir, "pack"))
	if err != nil {
		return nil, err
	}
	defer os.Remove(file.Name())
	defer file.Close()
	if _, err := io.Copy(file, &bounded{io.NopCloser(pack), limits.Bytes, limits.Bytes}); err != nil {
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

// checkPack reads a pack without keeping anything of it.
func checkPack(pack io.ReadSeeker, limits repository.Limits) error {
	scanner := packfile.NewScanner(pack)
	_, count, err := scanner.Header()
	if errors.Is(err, packfile.ErrEmptyPackfile) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read pack: %w", err)
	}
	if count > maxObjects {
		return repository.Errorf(repository.TooLarge, "the server sends %d objects; at most %d are read", count, maxObjects)
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
			return repository.Errorf(repository.TooLarge, "the repository has a file of %d MiB; at most %d MiB are read", header.Length>>20, limits.Object>>20)
		}
		content := &measured{limit: header.Length}
		if _, _, err := scanner.NextObject(content); err != nil {
			return fmt.Errorf("read pack: %w", err)
		}
		size := header.Length
		switch header.Type {
		case plumbing.OFSDeltaObject:
			depth := depths[header.OffsetReference] + 1
			if depth > maxDeltas {
				return repository.Errorf(repository.TooLarge, "the server sends objects that are made of more than %d others in a row", maxDeltas)
			}
			depths[header.Offset] = depth
			size, err = content.target()
		case plumbing.REFDeltaObject:
			loose++
			if loose > maxLooseDeltas {
				return repository.Errorf(repository.TooLarge, "the server sends more than %d objects that name what they are made of by hash", maxLooseDeltas)
			}
			size, err = content.target()
		default: // whole objects are what their header says
		}
		if err != nil {
			return fmt.Errorf("read pack: %w", err)
		}
		if size > limits.Object {
			return repository.Errorf(repository.TooLarge, "the repository has a file of %d MiB; at most %d MiB are read", size>>20, limits.Object>>20)
		}
		if unpacked += size; unpacked > limits.Unpacked {
			return repository.Errorf(repository.TooLarge, "what the server sends is more than %d MiB unpacked", limits.Unpacked>>20)
		}
	}
	return nil
}

// measured takes what an object unpacks to: no more than its header says, and of that the beginning.
type measured struct {
	limit, size int64
	first       [32]byte
	n           int
}

// Write counts.
func (m *measured) Write(p []byte) (int, error) {
	m.n += copy(m.first[m.n:], p)
	if m.size += int64(len(p)); m.size > m.limit {
		return 0, errors.New("an object is larger than its header says")
	}
	return len(p), nil
}

// target returns how large a delta makes what it is applied to: the second of two numbers at its beginning.
func (m *measured) target() (int64, error) {
	rest := m.first[:m.n]
	var size int64
	for range 2 {
		size = 0
		done := false
		for shift := 0; shift < 56 && len(rest) > 0 && !done; shift += 7 {
			size |= int64(rest[0]&0x7f) << shift
			done = rest[0]&0x80 == 0
			rest = rest[1:]
		}
		if !done {
			return 0, errors.New("a delta has no size")
		}
	}
	return size, nil
}
