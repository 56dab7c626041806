package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"

	core "github.com/starlinghq/starling/pkg/core/xpkg"
	"github.com/starlinghq/starling/pkg/xpkg"
)

// TestRun: the packages of the demonstration are valid, and the registry has all that they require.
func TestRun(t *testing.T) {
	reader, writer := io.Pipe()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		err := run(ctx, os.DirFS("../../../docs/examples/transactions/registry"), writer)
		writer.CloseWithError(err)
		done <- err
	}()
	lines := bufio.NewScanner(reader)
	if !lines.Scan() {
		t.Fatal("no address: ", lines.Err())
	}
	host := lines.Text()
	fetcher, err := xpkg.New(xpkg.Options{Cache: t.TempDir(), CacheBytes: 1 << 20, Limits: xpkg.DefaultLimits(), Clock: clock.RealClock{}})
	if err != nil {
		t.Fatal(err)
	}
	defer fetcher.Close()

	requirements := map[string]string{}
	for next := []string{host + "/org/platform"}; len(next) > 0; next = next[1:] {
		tags, err := fetcher.Tags(ctx, next[0], xpkg.Access{})
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(tags)
		digest, err := fetcher.Resolve(ctx, core.Reference{Source: next[0], Tag: tags[0]}, xpkg.Access{})
		if err != nil {
			t.Fatal(err)
		}
		pkg, err := fetcher.Get(ctx, next[0], digest, xpkg.Access{})
		if err != nil {
			t.Fatal(err)
		}
		for _, dependency := range pkg.Dependencies {
			requirements[pkg.Name] = dependency.Source
			next = append(next, dependency.Source)
		}
	}
	want := map[string]string{"platform": host + "/org/provider-bucket", "provider-bucket": host + "/org/provider-family"}
	if diff := cmp.Diff(want, requirements); diff != "" {
		t.Error(diff)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
