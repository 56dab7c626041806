package foresight

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/pkg/core/foresight/forecast"
)

// TestSetProperties: the data of a ConfigMap replaces that of the labels and annotations, and a
// note says why it has no effect.
func TestSetProperties(t *testing.T) {
	t.Parallel()
	labels, annotations := map[string]string{"site": "edge"}, map[string]string{"country": "de"}
	known := func(data map[string]string) *forecast.Cluster {
		return &forecast.Cluster{
			ITS: "its1", Labels: labels, Sources: &forecast.Sources{Annotations: annotations, Data: data},
			Properties: clusters.Properties("c1", labels, annotations, data),
		}
	}
	cases := map[string]struct {
		cluster, want *forecast.Cluster
		unread        bool
		data          map[string]string
		note          string
	}{
		"Set":     {cluster: known(nil), data: map[string]string{"site": "attic"}, want: known(map[string]string{"site": "attic"})},
		"Edited":  {cluster: known(map[string]string{"site": "attic"}), data: map[string]string{}, want: known(map[string]string{})},
		"Removed": {cluster: known(map[string]string{"site": "attic"}), want: known(nil)},
		"NoCluster": {
			note: "configmaps customization-properties/c1 changes nothing: no ITS has a cluster of this name",
		},
		"NoClusterOfTheITSesThatWereRead": {
			unread: true, note: "configmaps customization-properties/c1 changes nothing: no ITS that could be read has a cluster of this name",
		},
		"NoDestination": {
			cluster: &forecast.Cluster{Refused: "is being deleted"}, want: &forecast.Cluster{Refused: "is being deleted"},
			note: "configmaps customization-properties/c1 changes nothing: cluster c1 is being deleted",
		},
		"PropertiesUnread": {
			cluster: &forecast.Cluster{ITS: "its1"}, want: &forecast.Cluster{ITS: "its1"},
			note: "what configmaps customization-properties/c1 changes is unknown: the properties of cluster c1 could not be read",
		},
	}
	for name, tc := range cases {
		w := &forecast.World{Clusters: map[string]*forecast.Cluster{}, ClustersUnread: tc.unread}
		if tc.cluster != nil {
			w.Clusters["c1"] = tc.cluster
		}
		if note := SetProperties(w, "c1", tc.data); note != tc.note {
			t.Errorf("%s: note %q, want %q", name, note, tc.note)
		}
		if diff := cmp.Diff(tc.want, w.Clusters["c1"]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
