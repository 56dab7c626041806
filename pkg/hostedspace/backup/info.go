package backup

import (
	"fmt"
	"strings"
	"time"
)

// Info is what is known of a backup. It is in a file of JSON beside the snapshot.
type Info struct {
	// Space and Type are the name and the type, wds or its, of the space.
	Space string `json:"space"`
	Type  string `json:"type"`
	// UID identifies the space: it is the UID of its Namespace kube-system.
	UID string `json:"uid"`
	// Restored is the ID with which the space had been restored before; empty if it was not.
	Restored string `json:"restored,omitempty"`
	// Time is when the backup began.
	Time time.Time `json:"time"`
	// Revision is that of etcd, Keys the number of its keys.
	Revision int64 `json:"revision"`
	Keys     int   `json:"keys"`
	// Bytes and SHA256 are those of the snapshot.
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
	// Etcd and Starling are the versions of the programs that wrote it.
	Etcd     string `json:"etcd"`
	Starling string `json:"starling"`
}

// File returns the name of the file of the snapshot.
func (i *Info) File() string { return FileName(i.Space, i.Time) }

// Names of files: SPACE-TIME and one of these. A file that is not complete has a further suffix.
const (
	SnapshotSuffix = ".db"
	InfoSuffix     = ".json"

	timeFormat = "20060102T150405Z"
)

// FileName returns the name of the file of a snapshot.
func FileName(space string, at time.Time) string {
	return space + "-" + at.UTC().Format(timeFormat) + SnapshotSuffix
}

// InfoFile returns the name of the file with the Info of a snapshot.
func InfoFile(snapshot string) string {
	return strings.TrimSuffix(snapshot, SnapshotSuffix) + InfoSuffix
}

// CheckInfo returns an error if a backup is not of this space.
func (i *Info) CheckInfo(space, kind string) error {
	if i.Space != space || i.Type != kind {
		return fmt.Errorf("it is of the space %q of type %q, not of %q of type %q", i.Space, i.Type, space, kind)
	}
	return nil
}
