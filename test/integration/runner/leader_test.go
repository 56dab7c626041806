// Package runner tests leader election against a real API server.
package runner

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/starlinghq/starling/pkg/runner"
	"github.com/starlinghq/starling/test/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m, testenv.Options{Spaces: []string{"wds1"}}) }

// TestOneLeads runs two replicas. One acts. The other one begins when the work of the first has
// ended, not already when the context of the first is cancelled.
func TestOneLeads(t *testing.T) {
	config := testenv.Shared(t).Config(t, "wds1")
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	createNamespace(t, client)

	var working, together atomic.Int32
	var running sync.WaitGroup
	defer running.Wait()
	// A replica works until finish is closed, whatever its context says.
	replica := func(ctx context.Context, started chan<- struct{}, finish <-chan struct{}) {
		running.Go(func() {
			err := runner.Run(ctx, runner.NewOptions(), runner.Program{
				Name:       "leader-test",
				LeaseSpace: config,
				Ready:      func() error { return nil },
				Run: runner.WhenLeading(func(ctx context.Context) error {
					if working.Add(1) > 1 {
						together.Store(1)
					}
					defer working.Add(-1)
					close(started)
					<-ctx.Done()
					<-finish
					return nil
				}),
			})
			if err != nil {
				t.Errorf("Run: %v", err)
			}
		})
	}

	firstCtx, stopFirst := context.WithCancel(t.Context())
	defer stopFirst()
	firstStarted, firstFinish := make(chan struct{}), make(chan struct{})
	replica(firstCtx, firstStarted, firstFinish)
	<-firstStarted

	secondCtx, stopSecond := context.WithCancel(t.Context())
	defer stopSecond()
	secondStarted, secondFinish := make(chan struct{}), make(chan struct{})
	close(secondFinish)
	replica(secondCtx, secondStarted, secondFinish)

	stopFirst()
	stopped := time.Now()
	// While the first winds up it goes on renewing its lease, which the second would have taken by
	// now otherwise.
	testenv.Eventually(t, time.Minute, func() (bool, string) {
		renewed := leaseRenewed(t, client)
		return renewed.After(stopped.Add(time.Second)), fmt.Sprintf("lease was last renewed at %s", renewed)
	})
	select {
	case <-secondStarted:
		t.Error("the second replica leads while the first still works")
	default:
	}
	close(firstFinish)
	<-secondStarted
	stopSecond()
	if together.Load() != 0 {
		t.Error("two replicas worked at the same time")
	}
}

// TestStandby: a replica runs while another one leads, and leads only after the work of that one
// has ended. When it is stopped before, it has not led. One that leads at its start never stands
// by.
func TestStandby(t *testing.T) {
	config := testenv.Shared(t).Config(t, "wds1")
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	createNamespace(t, client)
	var working atomic.Bool
	type replica struct {
		runs, leads chan struct{}
		stoodBy     bool // set before runs is closed
		stop        func()
	}
	start := func() *replica {
		r := &replica{runs: make(chan struct{}), leads: make(chan struct{})}
		r.stop = testenv.Run(t, func(ctx context.Context) error {
			return runner.Run(ctx, runner.NewOptions(), runner.Program{
				Name: "standby-test", LeaseSpace: config, Ready: func() error { return nil },
				Run: func(ctx context.Context, leading <-chan struct{}) error {
					r.stoodBy = !isClosed(leading)
					close(r.runs)
					select {
					case <-leading:
					case <-ctx.Done():
						return nil
					}
					if !working.CompareAndSwap(false, true) {
						t.Error("two replicas lead")
					}
					close(r.leads)
					<-ctx.Done()
					working.Store(false)
					return nil
				},
			})
		})
		return r
	}
	led := func(r *replica) bool { return isClosed(r.leads) }
	first := start()
	<-first.leads
	second, third := start(), start()
	<-second.runs
	<-third.runs
	if first.stoodBy || !second.stoodBy || !third.stoodBy {
		t.Errorf("stood by: %v, %v, %v", first.stoodBy, second.stoodBy, third.stoodBy)
	}
	third.stop()
	if led(second) || led(third) {
		t.Error("two replicas lead")
	}
	first.stop()
	<-second.leads
	second.stop()
	if led(third) {
		t.Error("a replica led after its end")
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// createNamespace creates the namespace of Leases.
func createNamespace(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: runner.Namespace}}
	if _, err := client.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

func leaseRenewed(t *testing.T, client kubernetes.Interface) time.Time {
	t.Helper()
	lease, err := client.CoordinationV1().Leases(runner.Namespace).Get(t.Context(), "leader-test", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return lease.Spec.RenewTime.Time
}
