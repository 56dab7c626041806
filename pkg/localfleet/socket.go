package localfleet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"
)

// maxSocketPath is the longest path of a Unix socket that works on Linux and macOS.
const maxSocketPath = 100

// withSocketPath calls do with a path of the socket that is short enough. A longer one is replaced
// by a path through a temporary symbolic link to its directory.
func withSocketPath(socket string, do func(path string) error) error {
	if len(socket) <= maxSocketPath {
		return do(socket)
	}
	tmp, err := os.MkdirTemp("", "starling-")
	if err != nil {
		return fmt.Errorf("create a short path of socket %q: %w", socket, err)
	}
	defer os.RemoveAll(tmp) // the link, not what it refers to
	link := filepath.Join(tmp, "d")
	if err := os.Symlink(filepath.Dir(socket), link); err != nil {
		return fmt.Errorf("create a short path of socket %q: %w", socket, err)
	}
	return do(filepath.Join(link, filepath.Base(socket)))
}

// listenSocket listens on a Unix socket that only the user can access. It replaces the socket of a
// killed supervisor: the caller has the lock, so no other one runs.
func listenSocket(ctx context.Context, socket string) (listener net.Listener, err error) {
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	err = withSocketPath(socket, func(path string) error {
		if listener, err = (&net.ListenConfig{}).Listen(ctx, "unix", path); err != nil {
			return err
		}
		return os.Chmod(path, 0o600)
	})
	if err != nil {
		if listener != nil {
			listener.Close()
		}
		return nil, fmt.Errorf("listen on socket %q: %w", socket, err)
	}
	return listener, nil
}

// dialSocket connects to a Unix socket.
func dialSocket(ctx context.Context, socket string) (conn net.Conn, err error) {
	const timeout = 2 * time.Second
	err = withSocketPath(socket, func(path string) (err error) {
		conn, err = (&net.Dialer{Timeout: timeout}).DialContext(ctx, "unix", path)
		return err
	})
	return conn, err
}
