package status

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var deployments = schema.GroupResource{Group: "apps", Resource: "deployments"}

func want(clusters ...string) Want { return Want{Requested: true, Clusters: clusters} }

func TestDecide(t *testing.T) {
	status := map[string]any{"replicas": int64(3)}
	reported := map[string]*Report{"c1": {Status: status}, "bare": {}}
	for name, tc := range map[string]struct {
		resource schema.GroupResource
		request  Request
		unknown  bool
		unread   bool
		want     Decision
	}{
		"NotRequested": {
			want: Decision{Action: Clear, Reason: "not requested"},
		},
		"NotEvaluated": {
			request: Request{Singleton: want("c1")}, unknown: true,
			want: Decision{Action: Keep, Reason: "not evaluated yet"},
		},
		"SingletonOneCluster": {
			request: Request{Singleton: want("c1")},
			want:    Decision{Action: Copy, Cluster: "c1", Status: status, Reason: "reported"},
		},
		"SingletonSameClusterTwice": {
			request: Request{Singleton: want("c1", "c1")},
			want:    Decision{Action: Copy, Cluster: "c1", Status: status, Reason: "reported"},
		},
		"SingletonNoCluster": {
			request: Request{Singleton: want()},
			want:    Decision{Action: Clear, Reason: "no cluster"},
		},
		"SingletonSeveralClusters": {
			request: Request{Singleton: want("c1", "c2")},
			want:    Decision{Action: Clear, Reason: "several clusters"},
		},
		"SingletonNotReported": {
			request: Request{Singleton: want("c2")},
			want:    Decision{Action: Clear, Cluster: "c2", Reason: "not reported"},
		},
		"SingletonNotReportedYet": {
			request: Request{Singleton: want("c2")}, unread: true,
			want: Decision{Action: Keep, Cluster: "c2", Reason: "reports not known"},
		},
		"SingletonReportedWhileOthersAreUnread": {
			request: Request{Singleton: want("c1")}, unread: true,
			want: Decision{Action: Copy, Cluster: "c1", Status: status, Reason: "reported"},
		},
		"SingletonReportedWithoutStatus": {
			request: Request{Singleton: want("bare")},
			want:    Decision{Action: Keep, Cluster: "bare", Reason: "reported without a status"},
		},
		"MultiOneClusterIsSingleton": {
			request: Request{MultiWEC: want("c1")},
			want:    Decision{Action: Copy, Cluster: "c1", Status: status, Reason: "reported"},
		},
		"MultiSeveralClusters": {
			request: Request{MultiWEC: want("c1", "c2")},
			want:    Decision{Action: Keep, Reason: "several clusters: multi-cluster status is not served"},
		},
		"MultiNoCluster": {
			request: Request{MultiWEC: want()},
			want:    Decision{Action: Clear, Reason: "no cluster"},
		},
		"BothOneClusterInUnion": {
			request: Request{Singleton: want("c1"), MultiWEC: want("c1")},
			want:    Decision{Action: Copy, Cluster: "c1", Status: status, Reason: "reported"},
		},
		"BothOneClusterInOne": {
			request: Request{Singleton: want(), MultiWEC: want("c1")},
			want:    Decision{Action: Copy, Cluster: "c1", Status: status, Reason: "reported"},
		},
		"BothOneClusterEach": {
			request: Request{Singleton: want("c1"), MultiWEC: want("c2")},
			want:    Decision{Action: Keep, Reason: "several clusters: multi-cluster status is not served"},
		},
		"BothSeveralSingletonNoMulti": {
			request: Request{Singleton: want("c1", "c2"), MultiWEC: want()},
			want:    Decision{Action: Keep, Reason: "several clusters: multi-cluster status is not served"},
		},
		"BothNoCluster": {
			request: Request{Singleton: want(), MultiWEC: want()},
			want:    Decision{Action: Clear, Reason: "no cluster"},
		},
		"ClustersWithoutRequestDoNotCount": {
			request: Request{Singleton: Want{Clusters: []string{"c1"}}},
			want:    Decision{Action: Clear, Reason: "not requested"},
		},
		"Namespace": {
			resource: schema.GroupResource{Resource: "namespaces"}, request: Request{Singleton: want("c1")},
			want: Decision{Action: Keep, Reason: "status of this kind is never returned"},
		},
		"CustomResourceDefinition": {
			resource: schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"},
			request:  Request{Singleton: want("c1")},
			want:     Decision{Action: Keep, Reason: "status of this kind is never returned"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			resource := tc.resource
			if resource.Empty() {
				resource = deployments
			}
			got := Decide(resource, Evidence{
				Request: tc.request, RequestKnown: !tc.unknown,
				Report: func(cluster string) (*Report, bool) { return reported[cluster], !tc.unread },
			})
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Decide (-want +got):\n%s", diff)
			}
		})
	}
}
