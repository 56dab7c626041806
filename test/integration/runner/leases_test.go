package runner

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/starlinghq/starling/pkg/runner"
	"github.com/starlinghq/starling/test/testenv"
)

// roster counts who runs each controller.
type roster struct {
	mu      sync.Mutex
	running map[string][]string // processes, for each controller
	twice   []string
}

// work returns a program that runs controllers, with one Lease for each, in a process.
func (r *roster) work(process string, lease func(string) string, controllers ...string) runner.Program {
	p := runner.Program{Name: process, Ready: func() error { return nil }, Run: runner.WhenLeading(func(ctx context.Context) error {
		r.change(process, controllers, func(now []string) []string { return append(now, process) })
		<-ctx.Done()
		r.change(process, controllers, func(now []string) []string {
			return slices.DeleteFunc(now, func(other string) bool { return other == process })
		})
		return nil
	})}
	for _, controller := range controllers {
		p.Leases = append(p.Leases, lease(controller))
	}
	return p
}

func (r *roster) change(process string, controllers []string, change func([]string) []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, controller := range controllers {
		r.running[controller] = change(slices.Clone(r.running[controller]))
		if len(r.running[controller]) > 1 {
			r.twice = append(r.twice, fmt.Sprintf("%s in %v when %s started", controller, r.running[controller], process))
		}
	}
}

// who returns the processes that run each controller, as text.
func (r *roster) who() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := ""
	for _, controller := range slices.Sorted(maps.Keys(r.running)) {
		if len(r.running[controller]) == 0 {
			continue
		}
		text += fmt.Sprintf("%s=%v ", controller, r.running[controller])
	}
	return text
}

// TestOverlappingSets: processes that run different sets of controllers never run one of them at
// the same time. A process that has some of its Leases and waits for another says so at /readyz.
// What has Leases of its own does not wait for the rest of its process.
func TestOverlappingSets(t *testing.T) {
	config := testenv.Shared(t).Config(t, "wds1")
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	createNamespace(t, client)
	r := &roster{running: map[string][]string{}}
	lease := func(controller string) string { return "overlap-" + controller }
	start := func(programs ...runner.Program) (readyz func() string, stop func()) {
		o := runner.NewOptions()
		o.HealthAddress = testenv.Address(t)
		for i := range programs {
			programs[i].LeaseSpace = config
		}
		stop = testenv.Run(t, func(ctx context.Context) error { return runner.Run(ctx, o, programs[0], programs[1:]...) })
		return func() string { return read(t, "http://"+o.HealthAddress+"/readyz") }, stop
	}
	eventually := func(what string, check func() bool) {
		t.Helper()
		testenv.Eventually(t, time.Minute, func() (bool, string) { return check(), what + ": " + r.who() })
	}

	_, stopStatus := start(r.work("status", lease, "status"))
	eventually("the first process runs status", func() bool { return r.who() == "status=[status] " })
	// All controllers: binding and status together, packages on its own.
	readyz, stopAll := start(r.work("all", lease, "binding", "status"), r.work("all", lease, "packages"))
	eventually("packages do not wait for the rest", func() bool { return r.who() == "packages=[all] status=[status] " })
	const waits = "not ready: waiting for Lease starling-system/overlap-status, which another process holds, while this process holds overlap-binding; " +
		"let all processes run the same controllers, or no controller in two of them\n"
	testenv.Eventually(t, time.Minute, func() (bool, string) { got := readyz(); return got == waits, got })
	readyzOfReplica, _ := start(r.work("replica", lease, "binding", "status"), r.work("replica", lease, "packages"))
	testenv.Eventually(t, time.Minute, func() (bool, string) { got := readyzOfReplica(); return got == "ok\n", got }) // it holds nothing

	stopStatus()
	eventually("the second process runs everything", func() bool { return r.who() == "binding=[all] packages=[all] status=[all] " })
	testenv.Eventually(t, time.Minute, func() (bool, string) { got := readyz(); return got == "ok\n", got })
	stopAll()
	eventually("the replica runs everything", func() bool { return r.who() == "binding=[replica] packages=[replica] status=[replica] " })
	if len(r.twice) > 0 {
		t.Errorf("run twice at the same time: %v", r.twice)
	}
}

// read returns what a URL answers, or why it does not.
func read(t *testing.T, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err.Error()
	}
	return string(body)
}
