package etcdsnapshot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.etcd.io/etcd/pkg/v3/traceutil"
	"go.etcd.io/etcd/server/v3/lease"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.uber.org/zap"
	"k8s.io/klog/v2"

	"github.com/starlinghq/starling/pkg/hostedspace/backup"
)

// revisionBump is added to the revision of a snapshot. Clients have seen later revisions than that
// of the snapshot, and must not take new ones for those. A space does not write this often between
// two backups.
const revisionBump = 1_000_000_000

// doneFile in a data directory says from what it was restored.
const doneFile = "restored.json"

// done is the content of doneFile.
type done struct {
	ID   string `json:"id"`
	From string `json:"from"`
}

// Restoration makes the data directory of one member of etcd.
type Restoration struct {
	// ID is that of the restoration. A data directory is never restored twice with one ID.
	ID string
	// Dir is the directory of the backups. From is the name of the file of one, or backup.Latest.
	Dir, From string
	// Spaces are the types of the spaces that the snapshot has, by name. The first space is that
	// whose backup it is.
	Spaces []Space
	// DataDir is the data directory of the member.
	DataDir string
	// Replace: a data directory that has data already is kept aside, as DataDir-before-ID.
	// Otherwise it is an error.
	Replace bool
	// Member and URLs are the name of the member and its URL for other members; Cluster is all
	// members, as NAME=URL,...
	Member, Cluster string
	URLs            []string
}

// Space is a space in an etcd.
type Space struct{ Name, Type string }

// Run makes the data directory, unless this ID has made it before. It may be killed and called
// again at any time: the directory appears as a whole, and what was in its place is never deleted.
func (r *Restoration) Run(ctx context.Context) error {
	logger := klog.FromContext(ctx).WithValues("id", r.ID, "dataDir", r.DataDir)
	before, err := readDone(r.DataDir)
	if err != nil {
		return err
	}
	if before != nil && before.ID == r.ID {
		logger.Info("This restoration was made before; the data directory is not changed", "file", before.From)
		return nil
	}
	used, err := hasFiles(r.DataDir)
	if err != nil {
		return err
	}
	aside := r.DataDir + "-before-" + r.ID
	if used {
		if !r.Replace {
			return fmt.Errorf("the data directory %q has data; it is not replaced without --replace", r.DataDir)
		}
		if _, err := os.Lstat(aside); err == nil {
			return fmt.Errorf("%q exists already: choose another ID", aside)
		}
	}
	info, path, err := r.backup()
	if err != nil {
		return err
	}
	work := r.DataDir + "-restoring-" + r.ID
	if err := os.RemoveAll(work); err != nil { // of an attempt that was interrupted
		return err
	}
	counts, err := r.build(ctx, info, path, work)
	if err != nil {
		return fmt.Errorf("restore backup %q: %w", path, err)
	}
	if used {
		err = os.Rename(r.DataDir, aside)
		logger.Info("Kept the data directory aside", "dir", aside)
	} else {
		err = ignoreMissing(os.Remove(r.DataDir)) // it is empty
	}
	if err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(work, "data"), r.DataDir); err != nil {
		return err
	}
	if err := errors.Join(syncDir(filepath.Dir(r.DataDir)), os.RemoveAll(work)); err != nil {
		return err
	}
	logger.Info("Restored backup", "file", path, "time", info.Time.Format(time.RFC3339), "revision", info.Revision, "keys", info.Keys,
		"heldBindings", counts.Bindings, "inertWorks", counts.Works, "deletedWorks", counts.Deleted)
	return nil
}

// backup returns the backup that is restored, when it has passed its check.
func (r *Restoration) backup() (*backup.Info, string, error) {
	files, err := list(r.Dir)
	if err != nil {
		return nil, "", err
	}
	space := r.Spaces[0]
	file, err := backup.Choose(files, space.Name, r.From)
	if err != nil {
		return nil, "", fmt.Errorf("find a backup in %q: %w", r.Dir, err)
	}
	path := filepath.Join(r.Dir, file)
	text, err := os.ReadFile(filepath.Join(r.Dir, backup.InfoFile(file)))
	if err != nil {
		return nil, "", err
	}
	info := &backup.Info{}
	if err := json.Unmarshal(text, info); err != nil {
		return nil, "", fmt.Errorf("read what is known of backup %q: %w", path, err)
	}
	if err := info.CheckInfo(space.Name, space.Type); err != nil {
		return nil, "", fmt.Errorf("use backup %q: %w", path, err)
	}
	if _, sum, err := hash(path); err != nil {
		return nil, "", fmt.Errorf("check backup %q: %w", path, err)
	} else if sum != info.SHA256 {
		return nil, "", fmt.Errorf("check backup %q: its hash is not the one in %s", path, backup.InfoFile(file))
	}
	return info, path, nil
}

// build makes work/data.
func (r *Restoration) build(ctx context.Context, info *backup.Info, path, work string) (backup.Counts, error) {
	if err := os.MkdirAll(work, 0o700); err != nil {
		return backup.Counts{}, err
	}
	marked := filepath.Join(work, "marked.db")
	if err := copyContent(path, marked); err != nil {
		return backup.Counts{}, err
	}
	counts, err := r.mark(ctx, info, marked)
	if err != nil {
		return counts, err
	}
	data := filepath.Join(work, "data")
	err = snapshot.NewV3(zap.NewNop()).Restore(snapshot.RestoreConfig{
		SnapshotPath: marked, OutputDataDir: data, SkipHashCheck: true, // it was checked before it was marked
		Name: r.Member, PeerURLs: r.URLs, InitialCluster: r.Cluster, InitialClusterToken: "starling-" + r.ID,
		RevisionBump: revisionBump, MarkCompacted: true,
	})
	if err != nil {
		return counts, err
	}
	if err := os.Remove(marked); err != nil {
		return counts, err
	}
	text, err := json.Marshal(done{ID: r.ID, From: filepath.Base(path)})
	if err != nil {
		return counts, err
	}
	return counts, errors.Join(writeFile(filepath.Join(data, doneFile), text), syncTree(data))
}

// mark writes the marks into the database. Each member writes the same in the same order.
func (r *Restoration) mark(ctx context.Context, info *backup.Info, path string) (counts backup.Counts, err error) {
	b := backend.NewDefaultBackend(zap.NewNop(), path)
	store := mvcc.NewStore(zap.NewNop(), b, &lease.FakeLessor{}, mvcc.StoreConfig{})
	defer func() {
		store.Commit()
		err = errors.Join(err, store.Close(), b.Close())
	}()
	txn := store.Write(traceutil.TODO())
	defer txn.End()
	for _, space := range r.Spaces {
		marks := backup.Marks{Space: space.Name, ID: r.ID, Time: info.Time}
		found, err := txn.Range(ctx, []byte(backup.SystemKey(space.Name)), nil, mvcc.RangeOptions{})
		if err != nil {
			return counts, err
		}
		if len(found.KVs) == 0 {
			return counts, fmt.Errorf("it has no space %q", space.Name)
		}
		for _, prefix := range marks.Prefixes() {
			found, err := txn.Range(ctx, []byte(prefix), []byte(clientv3.GetPrefixRangeEnd(prefix)), mvcc.RangeOptions{})
			if err != nil {
				return counts, err
			}
			for _, kv := range found.KVs {
				value, err := marks.Mark(string(kv.Key), kv.Value, &counts)
				switch {
				case err != nil:
					return counts, err
				case value == nil:
					txn.DeleteRange(kv.Key, nil)
				default:
					txn.Put(kv.Key, value, lease.LeaseID(kv.Lease))
				}
			}
		}
	}
	return counts, nil
}

// copyContent copies a snapshot without the hash at its end.
func copyContent(from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	stat, err := source.Stat()
	if err != nil {
		return err
	}
	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.CopyN(target, source, stat.Size()-hashSize)
	return errors.Join(err, target.Close())
}

// readDone returns by what restoration a data directory was made, nil if by none.
func readDone(dir string) (*done, error) {
	text, err := os.ReadFile(filepath.Join(dir, doneFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // documented
	}
	if err != nil {
		return nil, err
	}
	d := &done{}
	if err := json.Unmarshal(text, d); err != nil {
		return nil, fmt.Errorf("read %q: %w", filepath.Join(dir, doneFile), err)
	}
	return d, nil
}

// hasFiles reports whether a directory exists and has any file.
func hasFiles(dir string) (bool, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return len(entries) > 0, err
}

// syncTree makes all files and directories of a tree durable.
func syncTree(root string) error {
	return filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return syncDir(path) // which is the same for a file
	})
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
