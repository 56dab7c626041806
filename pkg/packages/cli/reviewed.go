package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// reviews remembers which content of revisions diff showed to the user, so that approve publishes
// no other content. Each revision has a file with a digest, named by the UID of the revision, in
// the cache directory of kubectl.
type reviews struct {
	dir string // "" remembers nothing
}

func (o *Options) reviews() reviews {
	if o.config.CacheDir == nil || *o.config.CacheDir == "" {
		return reviews{}
	}
	return reviews{filepath.Join(*o.config.CacheDir, "starling", "reviewed")}
}

// file returns the path of a revision's file, "" if there is none.
func (r reviews) file(uid types.UID) string {
	name := string(uid)
	if r.dir == "" || name == "" || strings.ContainsAny(name, `/\`) || !filepath.IsLocal(name) {
		return ""
	}
	return filepath.Join(r.dir, name)
}

// record remembers that the user has seen this content of a revision.
func (r reviews) record(uid types.UID, digest string) error {
	file := r.file(uid)
	if file == "" {
		return nil
	}
	err := os.MkdirAll(r.dir, 0o700)
	if err == nil {
		err = os.WriteFile(file, []byte(digest), 0o600)
	}
	if err != nil {
		return fmt.Errorf("remember the reviewed content: %w", err)
	}
	return nil
}

// of returns the digest of the content that the user has seen last; "" if there is none.
func (r reviews) of(uid types.UID) (string, error) {
	file := r.file(uid)
	if file == "" {
		return "", nil
	}
	digest, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read the reviewed content: %w", err)
	}
	return string(digest), nil
}

// forget removes what record wrote. It is not needed any more, so errors do not matter.
func (r reviews) forget(uid types.UID) {
	if file := r.file(uid); file != "" {
		_ = os.Remove(file)
	}
}

// beginPush remembers that a push of a revision has begun. Until endPush, the revision may have
// other content than the user's folder.
func (r reviews) beginPush(uid types.UID) error {
	if file := r.file(uid); file != "" {
		if err := errors.Join(os.MkdirAll(r.dir, 0o700), os.WriteFile(file+".push", nil, 0o600)); err != nil {
			return fmt.Errorf("remember the push: %w", err)
		}
	}
	return nil
}

// endPush forgets a push: it was successful, or the user has taken the content of the revision.
func (r reviews) endPush(uid types.UID) {
	if file := r.file(uid); file != "" {
		_ = os.Remove(file + ".push") // then the next push or pull removes it
	}
}

// checkPushed returns an error if the last push of a revision failed: what follows in a script
// would publish the content before.
func (r reviews) checkPushed(name string, uid types.UID) error {
	file := r.file(uid)
	if file == "" {
		return nil
	}
	if _, err := os.Stat(file + ".push"); err != nil {
		return nil //nolint:nilerr // there was none, or it is not known
	}
	return fmt.Errorf("your last push of it failed, so it may have other content than your folder. Push again, or take its content with: %s package pull %s FOLDER",
		pluginName, name)
}

// checkReviewed returns an error if an approval would publish other content than was reviewed: the
// content with the digest of the flag or, without the flag, what diff showed last.
func checkReviewed(name, current, flag, seen string) error {
	switch {
	case flag != "" && flag != current:
		return fmt.Errorf("its content has digest %s, not %s", current, flag)
	case flag == "" && seen != "" && current != "" && seen != current:
		return fmt.Errorf("its content has changed since you reviewed it: review it again with: %s package diff %s", pluginName, name)
	}
	return nil
}
