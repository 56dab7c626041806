package etcdsnapshot

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"
	"k8s.io/klog/v2"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/hostedspace/backup"
	"github.com/starlinghq/starling/pkg/version"
)

// hashSize is the size of the hash that etcd appends to a snapshot.
const hashSize = sha256.Size

// Source is the etcd of a space.
type Source struct {
	// Space and Type are the name and the type, wds or its, of the space.
	Space, Type string
	// Endpoints are the URLs of the members.
	Endpoints []string
	TLS       *tls.Config
}

// Save writes a snapshot and its Info to a directory, and then deletes all but the newest backups
// that are to be kept. What is written is complete or has the suffix ".part", however the process
// ends. A snapshot that does not pass its check is deleted.
func (s *Source) Save(ctx context.Context, dir string, keep int, now time.Time) (*backup.Info, error) {
	info := &backup.Info{Space: s.Space, Type: s.Type, Time: now.UTC().Truncate(time.Second), Starling: version.Get()}
	path := filepath.Join(dir, info.File())
	if err := s.fetch(ctx, info, path); err != nil {
		return nil, err
	}
	if err := check(info, path); err != nil {
		return nil, errors.Join(fmt.Errorf("check snapshot %q: %w", path, err), os.Remove(path))
	}
	text, err := json.MarshalIndent(info, "", "  ")
	if err != nil {
		return nil, err
	}
	if err := writeFile(filepath.Join(dir, backup.InfoFile(info.File())), append(text, '\n')); err != nil {
		return nil, err
	}
	klog.FromContext(ctx).Info("Wrote backup", "file", path, "revision", info.Revision, "keys", info.Keys, "bytes", info.Bytes)
	return info, expire(ctx, dir, s.Space, keep)
}

// fetch gets the snapshot from the first member that responds, and what is known of the space.
func (s *Source) fetch(ctx context.Context, info *backup.Info, path string) error {
	var failures []error
	for _, endpoint := range s.Endpoints {
		err := s.fetchFrom(ctx, endpoint, info, path)
		if err == nil {
			return nil
		}
		failures = append(failures, fmt.Errorf("take a snapshot of %s: %w", endpoint, err))
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(failures...)
}

func (s *Source) fetchFrom(ctx context.Context, endpoint string, info *backup.Info, path string) error {
	config := clientv3.Config{Endpoints: []string{endpoint}, TLS: s.TLS, Logger: zap.NewNop(), DialTimeout: 10 * time.Second}
	client, err := clientv3.New(config)
	if err != nil {
		return err
	}
	defer client.Close()
	// It is a linearizable read: a member that has lost its cluster is no source of a backup.
	readCtx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	system, err := client.Get(readCtx, backup.SystemKey(s.Space))
	if err != nil {
		return err
	}
	if len(system.Kvs) == 0 {
		return fmt.Errorf("it has no space %q: the key %s does not exist", s.Space, backup.SystemKey(s.Space))
	}
	namespace, err := backup.Namespace(system.Kvs[0].Value)
	if err != nil {
		return err
	}
	info.UID, info.Restored = string(namespace.UID), namespace.Annotations[controlv1alpha1.AnnotationRestored]
	info.Etcd, err = snapshot.NewV3(zap.NewNop()).Save(ctx, config, path)
	return err
}

// check verifies the snapshot and completes what is known of it.
func check(info *backup.Info, path string) error {
	// It reads all pages and keys.
	status, err := snapshot.NewV3(zap.NewNop()).Status(path)
	if err != nil {
		return err
	}
	if status.Revision == 0 || status.TotalKey == 0 {
		return errors.New("it has no keys")
	}
	info.Revision, info.Keys = status.Revision, status.TotalKey
	info.Bytes, info.SHA256, err = hash(path)
	return err
}

// hash returns the size and the hash of a snapshot. It is an error if the hash that etcd has
// appended is another one.
func hash(path string) (size int64, sum string, err error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, "", err
	}
	defer file.Close()
	stat, err := file.Stat()
	if err != nil {
		return 0, "", err
	}
	content := stat.Size() - hashSize
	if content <= 0 {
		return 0, "", errors.New("it is too short")
	}
	h, whole := sha256.New(), sha256.New()
	if _, err := io.CopyN(io.MultiWriter(h, whole), file, content); err != nil {
		return 0, "", err
	}
	appended, err := io.ReadAll(file)
	if err != nil {
		return 0, "", err
	}
	if got := h.Sum(nil); hex.EncodeToString(got) != hex.EncodeToString(appended) {
		return 0, "", errors.New("its content does not have the hash that etcd has appended")
	}
	whole.Write(appended)
	return stat.Size(), hex.EncodeToString(whole.Sum(nil)), nil
}

// expire deletes the backups that are not kept.
func expire(ctx context.Context, dir, space string, keep int) error {
	files, err := list(dir)
	if err != nil {
		return err
	}
	for _, file := range backup.Expired(files, space, keep) {
		if err := os.Remove(filepath.Join(dir, file)); err != nil {
			return fmt.Errorf("delete an old backup: %w", err)
		}
		klog.FromContext(ctx).Info("Deleted old backup", "file", file)
	}
	return nil
}

// list returns the names of the files in a directory.
func list(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	files := make([]string, 0, len(entries))
	for _, entry := range entries {
		if entry.Type().IsRegular() {
			files = append(files, entry.Name())
		}
	}
	return files, nil
}

// writeFile writes a file as a whole or not at all.
func writeFile(path string, data []byte) error {
	part := path + ".part"
	file, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Rename(part, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes the names in a directory durable.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
