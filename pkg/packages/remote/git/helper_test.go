package git_test

import (
	"os"
	"path/filepath"
)

// linkGit makes a directory look like a worktree of a repository.
func linkGit(dir, worktree string) error {
	return os.CopyFS(filepath.Join(worktree, ".git"), os.DirFS(dir))
}
