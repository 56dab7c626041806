// Package e2e tells a few users' stories on a whole fleet with real OCM: what they write in a
// workload definition space, and what they then find in the clusters.
//
// The tests share one fleet of two clusters. Each uses a namespace, labels and policies of its own,
// named after the test. Tests that take down what the others need run alone. All others run in
// parallel, since they mostly wait for OCM.
package e2e

import (
	"testing"

	"github.com/starlinghq/starling/test/testenv"
)

func TestMain(m *testing.M) {
	testenv.Main(m, testenv.Options{
		WECs: 2, OCM: true, Controllers: true, Packages: true, Nodes: true, Spaces: []string{"its1", "wds1", "wds2"},
	})
}
