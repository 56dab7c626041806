package variantsets

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/test/testenv"
)

const (
	team    = "objectSelector: {apiVersion: krm-platform.bigco.com/v1, kind: Team"
	cluster = "objectSelector: {apiVersion: cluster.open-cluster-management.io/v1, kind: ManagedCluster"
)

// TestKindDeleted: a set whose kind is deleted reports it and keeps all PackageVariants, although
// the objects are deleted one by one before. When the kind is served again, the set continues.
func TestKindDeleted(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	teams := schema.GroupVersionResource{Group: "deleted.example.com", Version: "v1", Resource: "teams"} // other tests need their kind
	const team = "objectSelector: {apiVersion: deleted.example.com/v1, kind: Team"
	e.upstream(t, "up", "foo", 1, "")
	e.run(t, options{})
	e.create(t, sets, "s", spec("{"+team+"}}"))
	e.waitForCondition(t, "s", "Stalled", "NoMatchingTargets")
	e.waitForProblem(t, "s", "spec.targets[0].objectSelector: deleted.example.com/v1 Team: the kind is not served")
	e.installTeams(t, teams.Group)
	// Another set that asks for something beside: what the kind has is no longer all.
	e.create(t, sets, "both", spec("{"+team+"}, packageNames: [bar]}", "{repositories: [{name: r1}]}"))
	e.repositories(t, "r1", "t0", "t1", "t2", "t3", "t4")
	var teamNames []string
	for i := range 5 {
		teamNames = append(teamNames, fmt.Sprintf("t%d", i))
		e.create(t, teams, teamNames[i], "{metadata: {labels: {a: b}}}")
	}
	all := names("s", teamNames...)
	all = append(all, "both-r1-foo")
	for _, name := range teamNames {
		all = append(all, "both-"+name+"-bar")
	}
	e.waitForVariants(t, all...)
	e.waitForCondition(t, "s", "Ready", "Reconciling")
	testenv.DeleteKind(t, e.client, "teams.deleted.example.com")
	for _, set := range []string{"s", "both"} {
		e.waitForCondition(t, set, "Stalled", "NoMatchingTargets")
	}
	e.neverDeleted(t, all...)

	// It comes back, and then its objects do; the removalBlock holds until then.
	e.delete(t, sets, "both")
	e.installTeams(t, teams.Group)
	e.waitForCondition(t, "s", "RemovalBlocked", "RemovalLimitExceeded")
	for _, name := range teamNames {
		e.create(t, teams, name, "{metadata: {labels: {a: b}}}")
	}
	e.waitForCondition(t, "s", "Ready", "Reconciling")
	e.neverDeleted(t, names("s", teamNames...)...)
	e.delete(t, teams, "t0") // and now one that goes by itself
	e.waitForVariants(t, names("s", teamNames[1:]...)...)
}

// TestObjects: of a namespaced kind, the objects in the namespace of the set are selected, by
// labels and name; of a cluster-scoped kind only if it is allowed.
func TestObjects(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	other := newEnvironment(t)
	e.installTeams(t, teams.Group)
	e.upstream(t, "up", "foo", 1, "")
	e.repositories(t, "mine", "second", "third", e.namespace)
	e.create(t, teams, "mine", "{metadata: {labels: {role: dev}, annotations: {kubectl.kubernetes.io/last-applied-configuration: secret}}}")
	e.create(t, teams, "second", "{metadata: {labels: {role: dev}}}")
	e.create(t, teams, "third", "{metadata: {labels: {role: ops}}}")
	other.create(t, teams, "theirs", "{metadata: {labels: {role: dev}}}")
	e.run(t, options{allowed: []schema.GroupKind{{Kind: "Namespace"}}})
	e.create(t, sets, "labels", spec("{"+team+", matchLabels: {role: dev}}, template: {labelExprs: [{key: seen, valueExpr: \"string(size(target.annotations))\"}]}}"))
	e.create(t, sets, "name", spec("{"+team+", name: third}, packageNames: [bar]}"))
	e.create(t, sets, "spaces", spec("{objectSelector: {apiVersion: v1, kind: Namespace, name: "+e.namespace+"}}"))
	e.waitForVariants(t, "labels-mine-foo", "labels-second-foo", "name-third-bar", "spaces-"+e.namespace+"-foo")
	if got := e.variants(t)["labels-mine-foo"].Spec.Labels["seen"]; got != "0" {
		t.Errorf("%s annotations are seen", got)
	}
	e.create(t, sets, "nodes", spec("{objectSelector: {apiVersion: v1, kind: Node}}"))
	e.waitForProblem(t, "nodes", "spec.targets[0].objectSelector: v1 Node: may not be selected")
	e.create(t, sets, "secrets", spec("{objectSelector: {apiVersion: v1, kind: Secret}}"))
	e.waitForProblem(t, "secrets", "run binding-controller with --target-kinds=Secret")

	// Labels that change, and kinds that nobody selects any more.
	e.patch(t, teams, "third", "{metadata: {labels: {role: dev}}}")
	e.waitForVariants(t, "labels-mine-foo", "labels-second-foo", "labels-third-foo", "name-third-bar", "spaces-"+e.namespace+"-foo")
	e.patch(t, teams, "second", "{metadata: {labels: {role: ops}}}")
	e.waitForVariants(t, "labels-mine-foo", "labels-third-foo", "name-third-bar", "spaces-"+e.namespace+"-foo")
}

// TestClusters: the clusters are those of all ITSes. While one ITS cannot be read, nothing is
// deleted. A cluster that is deleted keeps what its Repository has; one with a new name gets a
// PackageVariant of its own.
func TestClusters(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	prefix := e.namespace + "-"
	e.clusters(t, map[string]string{prefix + "a": "of: " + e.namespace, prefix + "b": "of: " + e.namespace, prefix + "c": "of: others", prefix + "o": "of: " + e.namespace})
	e.upstream(t, "up", "foo", 1, "")
	attached := "{spec: {deployment: true}, status: {conditions: [{type: Detached, status: 'False', reason: Attached, message: '', lastTransitionTime: '2026-01-01T00:00:00Z'}]}}"
	e.create(t, repositories, prefix+"a", attached) // a user's
	// And one that was made for its cluster.
	e.create(t, repositories, prefix+"o", "{metadata: {annotations: {"+configv1alpha1.ClusterAnnotation+": "+prefix+"o}}, spec: {deployment: true}}")
	e.repositories(t, prefix+"b", prefix+"d")
	selector := "{" + cluster + ", matchLabels: {of: " + e.namespace + "}}, template: {labelExprs: [{key: of, valueExpr: \"target.labels['of']\"}]}}"
	connect := func(context.Context) (clusters.Source, error) { return clusters.NewSource(e.config) }
	running := e.run(t, options{its: []clusters.ITS{{Name: "its1", Connect: connect}}})
	e.create(t, sets, "s", spec(selector))
	e.waitForVariants(t, names("s", prefix+"a", prefix+"b", prefix+"o")...)
	e.waitForCondition(t, "s", "Ready", "Reconciling")
	running.quiet(t)
	running.stop()

	// Another ITS that does not answer: it could have more of them. Nothing is deleted, and after a
	// while it is said.
	e.patch(t, clusters.ManagedClusters, prefix+"b", "{metadata: {labels: {of: others}}}")
	silent := clusters.ITS{Name: "its2", Connect: func(ctx context.Context) (clusters.Source, error) { <-ctx.Done(); return clusters.Source{}, ctx.Err() }}
	unknown := e.run(t, options{its: []clusters.ITS{{Name: "its1", Connect: connect}, silent}})
	e.waitForProblem(t, "s", "ManagedClusters have not synced: its2")
	e.waitForCondition(t, "s", "Stalled", "UnexpectedError")
	e.neverDeleted(t, names("s", prefix+"a", prefix+"b", prefix+"o")...)
	unknown.stop()

	e.patch(t, clusters.ManagedClusters, prefix+"b", "{metadata: {labels: {of: "+e.namespace+"}}}")
	e.run(t, options{its: []clusters.ITS{{Name: "its1", Connect: connect}}})
	e.waitForCondition(t, "s", "Ready", "Reconciling")

	// A cluster is renamed: b goes, d comes. And a and o leave, whose Repositories do not say so
	// yet.
	e.create(t, clusters.ManagedClusters, prefix+"d", "{metadata: {labels: {of: "+e.namespace+"}}, spec: {hubAcceptsClient: true}}")
	t.Cleanup(func() { e.delete(t, clusters.ManagedClusters, prefix+"d") })
	e.delete(t, clusters.ManagedClusters, prefix+"b")
	e.waitForVariants(t, names("s", prefix+"a", prefix+"d", prefix+"o")...)
	e.delete(t, clusters.ManagedClusters, prefix+"a")
	e.delete(t, clusters.ManagedClusters, prefix+"o")
	e.neverDeleted(t, names("s", prefix+"a", prefix+"d", prefix+"o")...)
	e.patch(t, clusters.ManagedClusters, prefix+"d", "{spec: {hubAcceptsClient: false}}")
	e.waitForVariants(t, names("s", prefix+"a", prefix+"o")...)
	e.waitForCondition(t, "s", "Ready", "Reconciled") // nothing is wanted that is not ready
}
