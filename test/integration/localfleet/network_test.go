package localfleet_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/starlinghq/starling/test/testenv"
)

// TestNothingListensBeyondLoopback checks the sockets of every process of the fleet.
func TestNothingListensBeyondLoopback(t *testing.T) {
	f := testenv.Shared(t)
	listeners := map[string]string{} // by inode
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6", "/proc/net/udp", "/proc/net/udp6"} {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Skip("needs /proc/net")
		}
		for _, line := range strings.Split(string(data), "\n")[1:] {
			const local, state, inode = 1, 3, 9
			fields := strings.Fields(line)
			// A TCP listener is in state 0A; an unconnected UDP socket in 07.
			if len(fields) > inode && (fields[state] == "0A" || fields[state] == "07") {
				listeners[fields[inode]] = fields[local]
			}
		}
	}
	const loopback = "0100007F:" // 127.0.0.1, as the kernel prints it
	for _, c := range f.Status(t).Components {
		fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", c.PID))
		if err != nil {
			t.Fatal(err)
		}
		listening := false
		for _, fd := range fds {
			target, err := os.Readlink(fd)
			if err != nil {
				continue // closed since it was listed
			}
			inode, isSocket := strings.CutPrefix(target, "socket:[")
			address, listens := listeners[strings.TrimSuffix(inode, "]")]
			if !isSocket || !listens {
				continue
			}
			listening = true
			if !strings.HasPrefix(address, loopback) {
				t.Errorf("%s listens at %s", c.Name, address)
			}
		}
		if c.Address != "" && !listening {
			t.Errorf("%s listens nowhere: this test does not see its sockets", c.Name)
		}
	}
}

func TestFilesAreTheUsersAlone(t *testing.T) {
	f := testenv.Shared(t)
	const secret = 0o077
	for _, name := range []string{"kubeconfig", "spaces/its1/pki/ca.key", "spaces/cluster1/klusterlet.kubeconfig", "spaces/cluster1/bootstrap.kubeconfig"} {
		info, err := os.Stat(filepath.Join(f.Dir, name))
		if err != nil {
			t.Error(err)
			continue
		}
		if info.Mode().Perm()&secret != 0 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
	}
}
