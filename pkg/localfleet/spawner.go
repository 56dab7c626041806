package localfleet

import (
	"os"
	"os/exec"
	"runtime"
)

// spawner starts all children from one thread that exists as long as the process. Linux sends a
// child its parent-death signal when the thread that started it ends, and Go ends threads.
type spawner struct {
	requests chan spawnRequest
}

type spawnRequest struct {
	cmd  *exec.Cmd
	done chan error
}

func newSpawner() *spawner {
	s := &spawner{requests: make(chan spawnRequest)}
	go func() {
		runtime.LockOSThread() // never unlocked
		for r := range s.requests {
			r.done <- r.cmd.Start()
		}
	}()
	return s
}

// start starts the process of a component. Its output goes to log.
func (s *spawner) start(c *Component, log *os.File) (*exec.Cmd, error) {
	cmd := exec.Command(c.Path, c.Args...) //nolint:noctx // the supervisor ends it gracefully
	cmd.Env = c.Env
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = childAttr()
	r := spawnRequest{cmd: cmd, done: make(chan error, 1)}
	s.requests <- r
	return cmd, <-r.done
}
