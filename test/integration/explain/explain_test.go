// Package explain tests against real API servers what `kubectl starling explain` says. There are no
// controllers: the tests write what users, the controllers and OCM would.
package explain

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/starlinghq/starling/pkg/core/settings"
	"github.com/starlinghq/starling/pkg/foresight"
	"github.com/starlinghq/starling/pkg/foresight/cli"
	"github.com/starlinghq/starling/pkg/plugin"
	"github.com/starlinghq/starling/pkg/spaces"
	"github.com/starlinghq/starling/test/situations"
	"github.com/starlinghq/starling/test/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m, testenv.Options{}) }

// notHere are situations that these API servers cannot have.
var notHere = map[string]string{
	"silent-destination": "a directory is silent, and no ITS",
	"different-outcomes": "it needs an ITS that may not be read beside one that may; its parts are other situations",
}

// forbidden is what the user may not read, as SPACE GROUP/RESOURCE.
var forbidden = map[string]string{
	"unreadable":                                    "wds apps/deployments",
	"policies-unreadable":                           "wds control.kubestellar.io/bindingpolicies",
	"namespace-unreadable":                          "wds /namespaces",
	"bindings-unreadable":                           "wds control.kubestellar.io/bindings",
	"custom-transforms-unreadable":                  "wds control.kubestellar.io/customtransforms",
	"cluster-unreadable":                            "its cluster.open-cluster-management.io/managedclusters",
	"mailbox-unreadable":                            "its work.open-cluster-management.io/manifestworks",
	"heartbeat-unreadable":                          "its coordination.k8s.io/leases",
	"properties-unreadable":                         "its /configmaps",
	"report-unreadable":                             "its control.kubestellar.io/workstatuses",
	"held-by-transaction-of-which-nothing-is-known": "wds pkg.crossplane.io/locks",
}

// read are the resources that are read, and no others.
var read = map[string][]string{
	"wds": {
		"apps/deployments", "/configmaps", "/secrets", "coordination.k8s.io/leases", "/namespaces", "control.kubestellar.io/bindingpolicies",
		"control.kubestellar.io/bindings", "control.kubestellar.io/customtransforms", "pkg.crossplane.io/locks", "pkg.crossplane.io/transactions",
	},
	"its": {
		"cluster.open-cluster-management.io/managedclusters", "coordination.k8s.io/leases", "addon.open-cluster-management.io/managedclusteraddons",
		"work.open-cluster-management.io/manifestworks", "control.kubestellar.io/workstatuses", "/configmaps",
	},
}

var installed sync.Once

func newFleet(t *testing.T) *fleet {
	t.Helper()
	shared := testenv.Shared(t)
	f := &fleet{t: t, wds: shared.Space(t, "wds1"), its: shared.Space(t, "its1"), uids: map[types.UID]types.UID{}}
	installed.Do(func() {
		f.wds.Install(t, testenv.APIs(t, "control.kubestellar.io_bindingpolicies", "control.kubestellar.io_bindings", "control.kubestellar.io_customtransforms",
			"pkg.crossplane.io_locks", "pkg.crossplane.io_transactions")...)
		f.its.Install(t, append(testenv.APIs(t, "control.kubestellar.io_workstatuses"), testenv.ManagedClusterCRD(t),
			testenv.OCM(t, "work/v1/0000_00_work.open-cluster-management.io_manifestworks.crd.yaml"),
			testenv.OCM(t, "addon/v1alpha1/0000_01_addon.open-cluster-management.io_managedclusteraddons.crd.yaml"))...)
		f.wds.PublishSettings(t, settings.Bindings{MaxBindingSize: 4096}, settings.Transport{})
	})
	f.wdsUID = f.wds.Get(t, namespaces, "", "kube-system").GetUID()
	return f
}

// user returns the connection of a user who may read what is needed, but for what the situation
// forbids.
func (f *fleet) user(space *testenv.Space, kind, situation string) *rest.Config {
	f.t.Helper()
	user := "user-" + situation
	var rules []string
	for _, one := range read[kind] {
		if forbidden[situation] != kind+" "+one {
			group, resource, _ := strings.Cut(one, "/")
			rules = append(rules, fmt.Sprintf(`{apiGroups: [%q], resources: [%q], verbs: [get, list]}`, group, resource))
		}
	}
	space.Apply(f.t, fmt.Sprintf(`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: %[1]s}, rules: [%[2]s]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: %[1]s},
 roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %[1]s}, subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: %[1]s}]}
`, user, strings.Join(rules, ", ")))
	for _, one := range read[kind] {
		if group, resource, _ := strings.Cut(one, "/"); forbidden[situation] != kind+" "+one {
			testenv.Allowed(f.t, space.Config, true, user, authorizationv1.ResourceAttributes{Verb: "list", Group: group, Resource: resource})
			break
		}
	}
	return space.As(user)
}

// TestSituations writes each situation of an object into API servers, and explains it with the
// rights of a user who may read what is needed and no more. The text is that of the golden file of
// the situation, which is made from facts without an API server.
func TestSituations(t *testing.T) {
	var longest time.Duration
	for _, s := range situations.All() {
		t.Run(s.Name, func(t *testing.T) {
			if why, skip := notHere[s.Name]; skip {
				t.Skip(why)
			}
			f := newFleet(t)
			w := situations.NewWorld(t)
			s.Change(w)
			f.start = time.Now().Truncate(time.Second).Add(time.Hour) // so that what is created now is old
			if w.Live.Value != nil && w.Live.Value.GetCreationTimestamp().Time.Equal(situations.Now) {
				f.start = time.Now().Truncate(time.Second)
			}
			f.write(w)
			config := foresight.Config{WDS: f.user(f.wds, "wds", s.Name), Clock: clocktesting.NewFakePassiveClock(f.start), NoITS: w.NoITS}
			if w.NoITS == "" {
				config.ITSes = []spaces.Connection{{Name: "its1", Config: f.user(f.its, "its", s.Name)}}
			}
			reader, err := foresight.NewReader(config)
			if err != nil {
				t.Fatal(err)
			}
			version := "v1"
			began := time.Now()
			facts := reader.Object(t.Context(), foresight.ObjectQuery{
				Resource: w.Ref.GroupResource().WithVersion(version), Namespace: w.Ref.Namespace, Name: w.Ref.Name, Policy: w.Policy, Cluster: w.Cluster,
			})
			longest = max(longest, time.Since(began))
			want, err := os.ReadFile(filepath.Join("..", "..", "..", "pkg", "core", "foresight", "explain", "testdata", "object", s.Name+".golden"))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), situations.Draw(facts.Explain())); diff != "" {
				t.Errorf("(-from facts +from API servers):\n%s", diff)
			}
		})
	}
	t.Logf("the longest read took %s", longest)
}

// TestCommand runs the command on an object of which all is well, and completes arguments.
func TestCommand(t *testing.T) {
	f := newFleet(t)
	w := situations.NewWorld(t)
	f.start = time.Now().Truncate(time.Second)
	f.write(w)
	run := func(args ...string) string {
		t.Helper()
		var out bytes.Buffer
		streams := genericiooptions.IOStreams{In: &out, Out: &out, ErrOut: &out}
		flags := genericclioptions.NewConfigFlags(true)
		kubeconfig, space, namespace, cache := testenv.Shared(t).Kubeconfig(), "wds1", "shop", t.TempDir()
		flags.KubeConfig, flags.Context, flags.Namespace, flags.CacheDir = &kubeconfig, &space, &namespace, &cache
		root := cli.NewExplainCommand(flags, streams)
		root.SilenceUsage, root.SilenceErrors = true, true
		root.SetOut(&out)
		root.SetErr(&out)
		root.SetArgs(args)
		plugin.Report(&out, root.ExecuteContext(t.Context()))
		return out.String()
	}
	const well = "deployments.apps shop/web is in clusters c1, c2, c3, applied and healthy as far as it reports.\n"
	for _, args := range [][]string{{"deploy/web"}, {"deployments.v1.apps/web"}, {"Deployment/web"}, {"deployment", "web"}} {
		if diff := cmp.Diff(well, run(args...)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", args, diff)
		}
	}
	for args, want := range map[string]string{
		"deploy/web --cluster=c2":             "deployments.apps shop/web is in cluster c2, applied and healthy as far as it reports.\n",
		"deploy/web --its-context=its1":       well,
		"policy/web":                          "what BindingPolicy web selects is in clusters c1, c2, c3, applied and healthy as far as it reports.\n",
		"policy/web --object=deploy/web":      well,
		"cluster/c1":                          "cluster c1 is available, and has applied all that is delivered to it.\n",
		"widgets/web":                         "error: the WDS doesn't have a resource type \"widgets\"\n",
		"package/c1/web":                      "Package web of Repository c1\n\n[?] Exists  the revisions of the package are unknown: cannot list packagerevisions: the server could not find the requested resource\n",
		"packagerevision/c1.web.v1 -o json":   "\"unknown\"",
		"deploy/web -o yaml":                  "answer: deployments.apps shop/web is in clusters",
		"deploy/web --all":                    "[x] Delivered    in ManifestWork web-1 of namespace c1",
		"__complete deploy/w":                 "deploy/web\n",
		"__complete deploym":                  "deployments.apps/\n",
		"__complete poli":                     "policy/\n",
		"__complete policy/":                  "policy/web\n",
		"__complete cluster/":                 "cluster/c1\ncluster/c2\ncluster/c3\n",
		"__complete deploy/web --cluster ":    "c1\nc2\nc3\n",
		"__complete policy/web --object depl": "deployments.apps/\n",
	} {
		fields := strings.Fields(args)
		if strings.HasSuffix(args, " ") {
			fields = append(fields, "")
		}
		got := run(fields...)
		whole := strings.HasSuffix(want, "\n") && !slices.Contains(fields, "__complete")
		if whole && got != want || !strings.Contains(got, want) {
			t.Errorf("%s: got\n%s\nwant\n%s", args, got, want)
		}
	}
}
