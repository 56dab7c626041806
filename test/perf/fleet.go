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

// ownFleet starts a fleet with one cluster and returns its kubeconfig and a function that removes it.
func ownFleet(ctx context.Context) (kubeconfig string, remove func() error, err error) {
	binDir := os.Getenv("STARLING_BIN_DIR")
	if binDir == "" {
		binDir = "bin"
	}
	starling := filepath.Join(binDir, "starling")
	dir, err := os.MkdirTemp("", "starling-perf-")
	if err != nil {
		return "", nil, err
	}
	run := func(ctx context.Context, args ...string) error {
		cmd := exec.CommandContext(ctx, starling, append(args, "--dir", dir)...)
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s: %w", cmd, err)
		}
		return nil
	}
	remove = func() error { return run(context.WithoutCancel(ctx), "down", "--delete") }
	if err := run(ctx, "up", "--wecs", "1"); err != nil {
		return "", nil, errors.Join(err, remove())
	}
	return filepath.Join(dir, "kubeconfig"), remove, nil
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
