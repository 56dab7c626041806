package foresight

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/pkg/core/foresight/forecast"
	"github.com/starlinghq/starling/pkg/core/inventory"
)

// TestSetProperties: the data of a ConfigMap replaces that of the labels and annotations, and a
// note says why it has no effect.
func TestSetProperties(t *testing.T) {
	t.Parallel()
	labels, annotations := map[string]string{"site": "edge"}, map[string]string{"country": "de"}
	known := func(data map[string]string) *forecast.Cluster {
		return &forecast.Cluster{
			ITS: "its1", State: inventory.Accepted, Labels: labels, Sources: &forecast.Sources{Annotations: annotations, Data: data},
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
			unread: true, note: "what configmaps customization-properties/c1 changes is unknown: no ITS that could be read has a cluster of this name",
		},
		"NoDestination": {
			cluster: &forecast.Cluster{State: inventory.Leaving, Refused: "is being deleted"}, want: &forecast.Cluster{State: inventory.Leaving, Refused: "is being deleted"},
			note: "configmaps customization-properties/c1 changes nothing: cluster c1 is being deleted",
		},
		"PerhapsInAnITSThatWasNotRead": {
			cluster: &forecast.Cluster{Refused: "is not accepted"}, want: &forecast.Cluster{Refused: "is not accepted"}, unread: true,
			note: "what configmaps customization-properties/c1 changes is unknown: cluster c1 may be in an ITS that could not be read",
		},
		"PropertiesUnread": {
			cluster: &forecast.Cluster{ITS: "its1", State: inventory.Accepted}, want: &forecast.Cluster{ITS: "its1", State: inventory.Accepted},
			note: "what configmaps customization-properties/c1 changes is unknown: the properties of cluster c1 could not be read",
		},
	}
	for name, tc := range cases {
		w := &forecast.World{Clusters: map[string]*forecast.Cluster{}, ClustersUnread: tc.unread}
		if tc.cluster != nil {
			w.Clusters["c1"] = tc.cluster
		}
		if note, unknown := SetProperties(w, "c1", tc.data); note != tc.note || unknown != strings.Contains(tc.note, "is unknown") {
			t.Errorf("%s: note %q, unknown %t, want %q", name, note, unknown, tc.note)
		}
		if diff := cmp.Diff(tc.want, w.Clusters["c1"]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestLabel: a label of a cluster that may be another one is not planned.
func TestLabel(t *testing.T) {
	t.Parallel()
	site := "edge"
	cases := map[string]struct {
		cluster *forecast.Cluster
		unread  bool
		want    string
	}{
		"Accepted":                        {cluster: &forecast.Cluster{State: inventory.Accepted}},
		"NotAccepted":                     {cluster: &forecast.Cluster{State: inventory.Absent, Refused: "is not accepted"}},
		"NoCluster":                       {want: `no ITS has a cluster "c1"`},
		"NoClusterOfTheITSesThatWereRead": {unread: true, want: `no ITS that could be read has a cluster "c1"`},
		"PerhapsInAnITSThatWasNotRead": {
			cluster: &forecast.Cluster{Refused: "is not accepted"}, unread: true, want: `cluster "c1" may be in an ITS that could not be read`,
		},
	}
	for name, tc := range cases {
		w := &forecast.World{Clusters: map[string]*forecast.Cluster{}, ClustersUnread: tc.unread}
		if tc.cluster != nil {
			w.Clusters["c1"] = tc.cluster
		}
		got := ""
		if err := Label(w, "c1", map[string]*string{"site": &site}); err != nil {
			got = err.Error()
		} else if labels := w.Clusters["c1"].Labels; labels["site"] != site {
			t.Errorf("%s: labels %v", name, labels)
		}
		if got != tc.want {
			t.Errorf("%s: error %q, want %q", name, got, tc.want)
		}
	}
}
