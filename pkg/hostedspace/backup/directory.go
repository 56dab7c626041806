package backup

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Latest is the name that stands for the newest backup of a space.
const Latest = "latest"

// Snapshots returns which files of a directory are complete snapshots of a space, the newest first.
// A snapshot is complete when its Info is there, which is written last.
func Snapshots(files []string, space string) []string {
	var found []string
	for _, file := range files {
		stamp, ok := strings.CutPrefix(file, space+"-")
		if !ok || !strings.HasSuffix(stamp, SnapshotSuffix) {
			continue
		}
		// Another space may be called SPACE-something.
		if _, err := time.Parse(timeFormat, strings.TrimSuffix(stamp, SnapshotSuffix)); err == nil && slices.Contains(files, InfoFile(file)) {
			found = append(found, file)
		}
	}
	slices.Sort(found)
	slices.Reverse(found)
	return found
}

// Choose returns the file that a name stands for: Latest, or the name of a snapshot.
func Choose(files []string, space, name string) (string, error) {
	found := Snapshots(files, space)
	if name == Latest {
		if len(found) == 0 {
			return "", fmt.Errorf("there is no complete backup of space %q", space)
		}
		return found[0], nil
	}
	if !slices.Contains(found, name) {
		return "", fmt.Errorf("there is no complete backup %q of space %q; there are: %s", name, space, strings.Join(found, ", "))
	}
	return name, nil
}

// Expired returns the files that are deleted when the newest backups of a space are kept: first the
// Info of each older one, then its snapshot. Incomplete ones that are older than the newest
// complete one are expired too.
func Expired(files []string, space string, keep int) []string {
	complete := Snapshots(files, space)
	var expired []string
	for i, snapshot := range complete {
		if i >= keep {
			expired = append(expired, InfoFile(snapshot), snapshot)
		}
	}
	for _, file := range files {
		base, _, _ := strings.Cut(file, SnapshotSuffix)
		stamp, ok := strings.CutPrefix(base, space+"-")
		if _, err := time.Parse(timeFormat, stamp); !ok || err != nil || !strings.Contains(file, SnapshotSuffix) {
			continue
		}
		if len(complete) > 0 && base+SnapshotSuffix < complete[0] && !slices.Contains(complete, file) {
			expired = append(expired, file)
		}
	}
	return expired
}
