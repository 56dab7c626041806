package foresight

import (
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"
	addonfake "open-cluster-management.io/api/client/addon/clientset/versioned/fake"
	clusterfake "open-cluster-management.io/api/client/cluster/clientset/versioned/fake"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"github.com/starlinghq/starling/pkg/core/foresight"
	"github.com/starlinghq/starling/pkg/core/foresight/explain"
)

// its returns an ITS with clusters, or one that does not answer.
func its(name string, answers bool, clusters ...runtime.Object) *ITS {
	found := clusterfake.NewSimpleClientset(clusters...)
	if !answers {
		found.PrependReactor("*", "managedclusters", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, errors.New("connection refused")
		})
	}
	return &ITS{
		Name: name, Clusters: found.ClusterV1().ManagedClusters(), AddOns: addonfake.NewSimpleClientset().AddonV1alpha1(), Core: fake.NewClientset(),
	}
}

func managed(name string, accepted bool) *clusterv1.ManagedCluster {
	c := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: accepted}}
	c.Status.Conditions = []metav1.Condition{{Type: clusterv1.ManagedClusterConditionHubAccepted, Status: metav1.ConditionTrue}}
	return c
}

// TestUnreadITS: a cluster that the ITSes which answer do not accept may be accepted in one that
// does not answer.
func TestUnreadITS(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		cluster string
		answers bool
		link    string
		state   foresight.State
		want    string
	}{
		"not accepted": {"c1", true, foresight.LinkAccepted, foresight.Broken, "does not accept it"},
		"not accepted, and an ITS does not answer": {"c1", false, explain.LinkExists, foresight.Unknown, "connection refused"},
		"accepted, and an ITS does not answer":     {"c2", false, foresight.LinkJoined, foresight.Broken, "has not joined"},
		"nowhere, and an ITS does not answer":      {"c3", false, explain.LinkExists, foresight.Unknown, "connection refused"},
		"nowhere":                                  {"c3", true, explain.LinkExists, foresight.Broken, "no ITS that is read has a cluster c3"},
	} {
		r := &Reader{
			config: Config{Clock: clocktesting.NewFakePassiveClock(time.Unix(1, 0))},
			itses:  []*ITS{its("its1", true, managed("c1", false), managed("c2", true)), its("its2", tc.answers)},
		}
		e := (&explain.Cluster{Fleet: r.fleet(t.Context(), tc.cluster)}).Explain()
		if e.Broken == nil || e.Broken.Name != tc.link || e.Broken.State != tc.state || !strings.Contains(e.Answer, tc.want) {
			t.Errorf("%s: %s, %+v; want %s %s: %q", name, e.Answer, e.Broken, tc.link, tc.state, tc.want)
		}
	}
}
