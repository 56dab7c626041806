package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// binary returns the path of one of Starling's programs: in $STARLING_BIN_DIR, or in bin/.
func binary(name string) string {
	dir := os.Getenv("STARLING_BIN_DIR")
	if dir == "" {
		dir = "bin"
	}
	return filepath.Join(dir, name)
}

// ownFleet starts a fleet with these flags of `starling up`. It returns its directory, and a
// function that removes it. The fleet stops when this process ends, also if it is killed.
func ownFleet(ctx context.Context, flags ...string) (dir string, remove func() error, err error) {
	dir, err = os.MkdirTemp("", "starling-perf-")
	if err != nil {
		return "", nil, err
	}
	watched, alive, err := os.Pipe()
	if err != nil {
		return "", nil, err
	}
	run := func(ctx context.Context, args ...string) error {
		cmd := exec.CommandContext(ctx, binary("starling"), append(args, "--dir", dir)...)
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		cmd.ExtraFiles = []*os.File{watched}
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s: %w", cmd, err)
		}
		return nil
	}
	remove = func() error {
		defer alive.Close()
		defer watched.Close()
		return run(context.WithoutCancel(ctx), "down", "--delete")
	}
	if err := run(ctx, append([]string{"up", "--die-with-fd", "3"}, flags...)...); err != nil {
		return "", nil, errors.Join(err, remove())
	}
	return dir, remove, nil
}

func contextConfig(kubeconfig, name string) (*rest.Config, error) {
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig},
		&clientcmd.ConfigOverrides{CurrentContext: name},
	).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("context %s: %w", name, err)
	}
	config.QPS, config.Burst = 500, 1000
	config.UserAgent = "starling-perf"
	return config, nil
}
