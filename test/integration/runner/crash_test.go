package runner

import (
	"context"
	"fmt"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/starlinghq/starling/pkg/runner"
	"github.com/starlinghq/starling/test/testenv"
)

// TestLeaderIsKilled: a standby waits until all Leases of a leader that was killed have expired,
// and not once for each of them.
func TestLeaderIsKilled(t *testing.T) {
	config := testenv.Shared(t).Config(t, "wds1")
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	createNamespace(t, client)
	names := []string{"killed-1", "killed-2", "killed-3"}
	holder, duration, now := "killed", int32(10), metav1.NowMicro()
	for _, name := range names {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, LeaseDurationSeconds: &duration, AcquireTime: &now, RenewTime: &now,
		}}
		_, err := client.CoordinationV1().Leases(runner.Namespace).Create(t.Context(), lease, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	begin := time.Now()
	leads := make(chan time.Duration, 1)
	testenv.Run(t, func(ctx context.Context) error {
		return runner.Run(ctx, runner.NewOptions(), runner.Program{
			Name: "killed-test", Leases: names, LeaseSpace: config, Ready: func() error { return nil },
			Run: runner.WhenLeading(func(ctx context.Context) error {
				leads <- time.Since(begin)
				<-ctx.Done()
				return nil
			}),
		})
	})
	testenv.Eventually(t, time.Minute, func() (bool, string) {
		return len(leads) > 0, fmt.Sprintf("does not lead after %s", time.Since(begin))
	})
	after, each := <-leads, time.Duration(duration)*time.Second
	t.Logf("the standby leads after %s", after)
	if after < each || after >= time.Duration(len(names))*each {
		t.Errorf("the standby leads after %s, want one duration of the Leases, %s, and not one for each", after, each)
	}
}
