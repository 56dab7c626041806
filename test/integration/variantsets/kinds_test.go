package variantsets

import (
	"context"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	"github.com/starlinghq/starling/pkg/inventory"
	"github.com/starlinghq/starling/test/testenv"
)

const (
	team    = "objectSelector: {apiVersion: krm-platform.bigco.com/v1, kind: Team"
	cluster = "objectSelector: {apiVersion: cluster.open-cluster-management.io/v1, kind: ManagedCluster"
)

// TestKindGoes: a set whose kind goes says so, and keeps everything, although the objects are seen to go one by one before; when the kind
// comes back, it goes on.
func TestKindGoes(t *testing.T) {
	e := newEnvironment(t)
	e.delete(t, crds, "teams.krm-platform.bigco.com") // of other tests
	testenv.Eventually(t, soon, func() (bool, string) {
		_, err := e.resource(crds).Get(t.Context(), "teams.krm-platform.bigco.com", metav1.GetOptions{})
		return apierrors.IsNotFound(err), fmt.Sprint(err)
	})
	e.upstream(t, "up", "foo", 1, "")
	e.run(t, options{})
	e.create(t, sets, "s", spec("{"+team+"}}"))
	e.condition(t, "s", "Stalled", "NoMatchingTargets")
	e.problem(t, "s", "spec.targets[0].objectSelector: krm-platform.bigco.com/v1 Team: the kind is not served")
	e.serveTeams(t)
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
	e.has(t, all...)
	e.condition(t, "s", "Ready", "Reconciled")
	e.delete(t, crds, "teams.krm-platform.bigco.com")
	for _, set := range []string{"s", "both"} {
		e.condition(t, set, "Stalled", "NoMatchingTargets")
	}
	e.stays(t, all...)

	// It comes back, and then its objects do; the valve holds until then.
	e.delete(t, sets, "both")
	e.serveTeams(t)
	e.condition(t, "s", "Held", "SafetyValve")
	for _, name := range teamNames {
		e.create(t, teams, name, "{metadata: {labels: {a: b}}}")
	}
	e.condition(t, "s", "Ready", "Reconciled")
	e.stays(t, names("s", teamNames...)...)
	e.delete(t, teams, "t0") // and now one that goes by itself
	e.has(t, names("s", teamNames[1:]...)...)
}

// TestObjects: of kinds in namespaces those of the set's own are selected, by labels and name; those without only where that is allowed.
func TestObjects(t *testing.T) {
	e := newEnvironment(t)
	other := newEnvironment(t)
	e.serveTeams(t)
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
	e.has(t, "labels-mine-foo", "labels-second-foo", "name-third-bar", "spaces-"+e.namespace+"-foo")
	if got := e.variants(t)["labels-mine-foo"].Spec.Labels["seen"]; got != "0" {
		t.Errorf("%s annotations are seen", got)
	}
	e.create(t, sets, "nodes", spec("{objectSelector: {apiVersion: v1, kind: Node}}"))
	e.problem(t, "nodes", "spec.targets[0].objectSelector: v1 Node: may not be selected")
	e.create(t, sets, "secrets", spec("{objectSelector: {apiVersion: v1, kind: Secret}}"))
	e.problem(t, "secrets", "can allow it with --target-kinds=Secret")

	// Labels that change, and kinds that nobody selects any more.
	e.patch(t, teams, "third", "{metadata: {labels: {role: dev}}}")
	e.has(t, "labels-mine-foo", "labels-second-foo", "labels-third-foo", "name-third-bar", "spaces-"+e.namespace+"-foo")
	e.patch(t, teams, "second", "{metadata: {labels: {role: ops}}}")
	e.has(t, "labels-mine-foo", "labels-third-foo", "name-third-bar", "spaces-"+e.namespace+"-foo")
}

// TestClusters: clusters are those of all ITSes. While one cannot be read, nothing is known; one that leaves keeps what its Repository holds,
// one that comes by another name gets its own.
func TestClusters(t *testing.T) {
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
	connect := func(context.Context) (cache.SharedIndexInformer, error) { return inventory.NewInformer(e.config) }
	running := e.run(t, options{its: []inventory.Space{{Name: "its1", Connect: connect}}})
	e.create(t, sets, "s", spec(selector))
	e.has(t, names("s", prefix+"a", prefix+"b", prefix+"o")...)
	e.condition(t, "s", "Ready", "Reconciled")
	running.quiet(t)
	running.stop()

	// Another ITS that does not answer: it could have more of them. Nothing is deleted, and after a while it is said.
	e.patch(t, inventory.ManagedClusters, prefix+"b", "{metadata: {labels: {of: others}}}")
	silent := inventory.Space{Name: "its2", Connect: func(ctx context.Context) (cache.SharedIndexInformer, error) { <-ctx.Done(); return nil, ctx.Err() }}
	unknown := e.run(t, options{its: []inventory.Space{{Name: "its1", Connect: connect}, silent}})
	e.problem(t, "s", "ManagedClusters have not been read yet from: its2")
	e.condition(t, "s", "Stalled", "UnexpectedError")
	e.stays(t, names("s", prefix+"a", prefix+"b", prefix+"o")...)
	unknown.stop()

	e.patch(t, inventory.ManagedClusters, prefix+"b", "{metadata: {labels: {of: "+e.namespace+"}}}")
	e.run(t, options{its: []inventory.Space{{Name: "its1", Connect: connect}}})
	e.condition(t, "s", "Ready", "Reconciled")

	// A cluster is renamed: b goes, d comes. And a and o leave, whose Repositories do not say so yet.
	e.create(t, inventory.ManagedClusters, prefix+"d", "{metadata: {labels: {of: "+e.namespace+"}}, spec: {hubAcceptsClient: true}}")
	t.Cleanup(func() { e.delete(t, inventory.ManagedClusters, prefix+"d") })
	e.delete(t, inventory.ManagedClusters, prefix+"b")
	e.has(t, names("s", prefix+"a", prefix+"d", prefix+"o")...)
	e.delete(t, inventory.ManagedClusters, prefix+"a")
	e.delete(t, inventory.ManagedClusters, prefix+"o")
	e.stays(t, names("s", prefix+"a", prefix+"d", prefix+"o")...)
	e.patch(t, inventory.ManagedClusters, prefix+"d", "{spec: {hubAcceptsClient: false}}")
	e.has(t, names("s", prefix+"a", prefix+"o")...)
	e.condition(t, "s", "Ready", "Reconciled")
}
