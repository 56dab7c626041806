package clusternames

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	fcache "k8s.io/client-go/tools/cache/testing"
	"k8s.io/utils/clock"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/pkg/writer"
	"github.com/starlinghq/starling/test/golden"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// its is an ITS that stores the conditions that are applied.
type its struct {
	*fcache.FakeControllerSource
	name   string
	writes int
	mark   []metav1.Condition
}

func newITS(name string) *its {
	return &its{FakeControllerSource: fcache.NewFakeControllerSource(), name: name}
}

func (s *its) connect() clusters.ITS {
	return clusters.ITS{Name: s.name, Connect: func(context.Context) (clusters.Source, error) {
		return clusters.Source{Informer: cache.NewSharedIndexInformer(s, &clusterv1.ManagedCluster{}, 0, nil)}, nil
	}}
}

func (s *its) cluster(since int64) *clusterv1.ManagedCluster {
	c := &clusterv1.ManagedCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "c", UID: types.UID(s.name), CreationTimestamp: metav1.Unix(since, 0)},
		Spec:       clusterv1.ManagedClusterSpec{HubAcceptsClient: true},
	}
	c.Status.Conditions = s.mark
	return c
}

// Patch implements Writer.
func (s *its) Patch(_ context.Context, _ writer.Target, _ types.PatchType, patch []byte, _ string) (*metav1.PartialObjectMetadata, error) {
	var applied clusterv1.ManagedCluster
	if err := json.Unmarshal(patch, &applied); err != nil {
		return nil, err
	}
	s.writes++
	s.mark = applied.Status.Conditions
	return &metav1.PartialObjectMetadata{}, nil
}

// TestNameTakenCondition: of two clusters of one name, the later one is marked, once; its mark goes
// with the other one.
func TestNameTakenCondition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := newITS("its1"), newITS("its2")
		first.Add(first.cluster(1))
		second.Add(second.cluster(2))
		reader := clusters.New(first.connect(), second.connect())
		c, err := New(Config{Clusters: reader, Writers: map[string]Writer{"its1": first, "its2": second}, Clock: clock.RealClock{}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 2)
		go func() { ended <- reader.Run(ctx) }()
		go func() { ended <- c.Run(ctx) }()
		expect := func(when string, marked bool, writes int) {
			t.Helper()
			time.Sleep(time.Second) // of the bubble
			synctest.Wait()
			if len(second.mark) > 0 != marked || second.writes != writes || first.writes != 0 {
				t.Errorf("%s: conditions %v after %d writes, and %d to its1", when, second.mark, second.writes, first.writes)
			}
		}
		expect("both are accepted", true, 1)
		second.Modify(second.cluster(2)) // with the mark
		expect("the mark is seen", true, 1)
		first.Delete(first.cluster(1))
		expect("the other one is gone", false, 2)
		second.Modify(second.cluster(2))
		expect("the end of the mark is seen", false, 2)
		cancel()
		for range cap(ended) {
			<-ended
		}
		first.Shutdown()
		second.Shutdown()
	})
}

// TestTexts lists the message of the condition.
func TestTexts(t *testing.T) {
	c := nameTaken("edge-1", "its1", time.Unix(0, 0))
	golden.Texts(t, golden.Text{Heading: c.Type + " " + string(c.Status) + " " + c.Reason, Text: c.Message})
}
