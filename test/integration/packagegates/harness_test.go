// Package packagegates tests with a real package-server and real API servers that packages with
// CustomResourceDefinitions, or with dependencies, are approved only if a transaction has validated
// them for their cluster. The controllers run in the test process, with the rights of production.
// There is no transport: the tests write what others deliver into mailboxes.
package packagegates

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	pkgv1beta1 "github.com/starlinghq/starling/api/pkg/v1beta1"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/pkg/controller/packages/gates"
	"github.com/starlinghq/starling/pkg/controller/packages/variants"
	"github.com/starlinghq/starling/pkg/controller/transactions"
	"github.com/starlinghq/starling/pkg/packages/informers"
	"github.com/starlinghq/starling/pkg/transactions/destinations"
	"github.com/starlinghq/starling/pkg/xpkg"
	"github.com/starlinghq/starling/test/testenv"
	"github.com/starlinghq/starling/test/testxpkg"
)

func TestMain(m *testing.M) {
	testenv.Main(m, testenv.Options{Spaces: []string{"its1", "wds1"}, Packages: true})
}

const (
	namespace = "default" // of Repositories of clusters
	condition = porchv1alpha1.ConditionTransactionValidated
)

// hub is a WDS with a package-server, and an ITS.
type hub struct {
	wds, its *testenv.Space
	uid      types.UID // of the WDS
}

var installed sync.Once

// newHub returns the hub, which all tests share. Their clusters and packages have different names.
func newHub(t *testing.T) *hub {
	t.Helper()
	fleet := testenv.Shared(t)
	h := &hub{wds: fleet.Space(t, "wds1"), its: fleet.Space(t, "its1")}
	installed.Do(func() {
		h.its.Install(t, append(testenv.APIs(t, "control.kubestellar.io_workstatuses", "pkg.crossplane.io_locks"), testenv.ManagedClusterCRD(t),
			testenv.OCM(t, "work/v1/0000_00_work.open-cluster-management.io_manifestworks.crd.yaml"))...)
		h.its.Apply(t, "{apiVersion: v1, kind: Namespace, metadata: {name: starling-system}}")
		h.its.InstallRights(t, "its")
	})
	h.uid = h.wds.Get(t, namespaces, "", "kube-system").GetUID()
	return h
}

func must[T any](t *testing.T) func(T, error) T {
	t.Helper()
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// run runs the controllers of transactions and of gates until the test ends, or stop is called.
func (h *hub) run(t *testing.T) (stop func()) {
	t.Helper()
	config := h.wds.AsServiceAccount("starling-system", "binding-controller")
	fetcher := must[*xpkg.Fetcher](t)(xpkg.New(xpkg.Options{Cache: t.TempDir(), CacheBytes: 1 << 30, Limits: xpkg.DefaultLimits(), Clock: clock.RealClock{}}))
	t.Cleanup(fetcher.Close)
	its := h.its.AsServiceAccount("starling-system", "binding-controller")
	reader := clusters.New(clusters.ITS{Name: "its1", Connect: func(context.Context) (clusters.Source, error) { return clusters.NewSource(its) }})
	controller, watch, err := transactions.Setup(transactions.SetupConfig{
		WDS: config, WDSName: "wds1", Fetcher: fetcher, Namespace: "starling-system", Events: events.NewFakeRecorder(10_000), Clock: clock.RealClock{},
		WDSUID: h.uid, Clusters: reader, PackageNamespaces: []string{namespace},
		ITSes: map[string]*destinations.ITS{"its1": must[*destinations.ITS](t)(destinations.NewITS("its1", its, "starling-transactions"))},
	})
	if err != nil {
		t.Fatal(err)
	}
	answering := must[*gates.Controller](t)(gates.New(gates.Config{WDS: config, WDSName: "wds1", Watch: watch, Clock: clock.RealClock{}}))
	stop = testenv.Run(t, reader.Run, watch.Run, testenv.Workers(controller.Run, 4), testenv.Workers(answering.Run, 4))
	testenv.Ready(t, controller.Ready, answering.Ready)
	return stop
}

// runVariants runs the controller of PackageVariants until the test ends.
func (h *hub) runVariants(t *testing.T) {
	t.Helper()
	config := h.wds.AsServiceAccount("starling-system", "binding-controller")
	watch := must[*informers.Informers](t)(informers.New(config))
	controller := must[*variants.Controller](t)(variants.New(variants.Config{WDS: config, WDSName: "wds1", Watch: watch, Events: events.NewFakeRecorder(10_000)}))
	testenv.Run(t, watch.Run, testenv.Workers(controller.Run, 4))
	testenv.Ready(t, controller.Ready)
}

// downstream returns the revision of the package s3 in a Repository, nil if there is none.
func (h *hub) downstream(t *testing.T, repository string) *porchv1alpha1.PackageRevision {
	t.Helper()
	for _, r := range testenv.List[porchv1alpha1.PackageRevision](t, h.wds.Client.Resource(revisions).Namespace(namespace), metav1.ListOptions{FieldSelector: "spec.repository=" + repository}) {
		return r
	}
	return nil
}

// cluster creates an accepted cluster, and its Repository.
func (h *hub) cluster(t *testing.T, name string) {
	t.Helper()
	h.its.Apply(t, "{apiVersion: v1, kind: Namespace, metadata: {name: "+name+"}}")
	h.its.Apply(t, "{apiVersion: cluster.open-cluster-management.io/v1, kind: ManagedCluster, metadata: {name: "+name+"}, spec: {hubAcceptsClient: true}}")
	h.repository(t, name, true)
}

func (h *hub) repository(t *testing.T, name string, deployment bool) {
	t.Helper()
	h.wds.Apply(t, fmt.Sprintf("{apiVersion: config.porch.kpt.dev/v1alpha1, kind: Repository, metadata: {name: %s, namespace: default}, spec: {deployment: %t}}", name, deployment))
}

// work writes a work into the mailbox of a cluster, as a Binding of a WDS with a UID has it.
func (h *hub) work(t *testing.T, cluster, name string, wds types.UID, binding string, manifest *unstructured.Unstructured) {
	t.Helper()
	h.its.Apply(t, fmt.Sprintf(`{apiVersion: work.open-cluster-management.io/v1, kind: ManifestWork, metadata: {name: %s, namespace: %s, labels: {
		%s: %q, %s: wds-of-%s}, annotations: {%s: %s}}, spec: {workload: {manifests: [%s]}}}`,
		name, cluster, controlv1alpha1.LabelWDSUID, wds, controlv1alpha1.LabelWDSName, name, controlv1alpha1.AnnotationBinding, binding, encode(t, manifest)))
}

func encode(t *testing.T, value any) string {
	t.Helper()
	return string(must[[]byte](t)(json.Marshal(value)))
}

// crd returns a manifest of a CustomResourceDefinition of kind Bucket with fields.
func crd(t *testing.T, group string, fields ...string) string {
	t.Helper()
	return string(must[[]byte](t)(yaml.Marshal(testxpkg.CRD(group, "Bucket", fields...).Object)))
}

func bucket(t *testing.T, group, name, fields string) *unstructured.Unstructured {
	t.Helper()
	return testenv.Parse(t, fmt.Sprintf("{apiVersion: %s/v1, kind: Bucket, metadata: {name: %s}, spec: %s}", group, name, fields))
}

var (
	namespaces = corev1.SchemeGroupVersion.WithResource("namespaces")
	revisions  = porchv1alpha1.ResourcePackageRevisions
	resources  = porchv1alpha1.GroupVersion.WithResource("packagerevisionresources")
)

// create creates a revision, and writes files into it. With a source it is a copy of that one.
func (h *hub) create(t *testing.T, repository, pkg, workspace, source string, files map[string]string) string {
	t.Helper()
	task := "{type: init, init: {}}"
	if source != "" {
		task = "{type: edit, edit: {sourceRef: {name: " + source + "}}}"
	}
	made := must[*unstructured.Unstructured](t)(h.wds.Client.Resource(revisions).Namespace(namespace).Create(t.Context(), testenv.Parse(t, fmt.Sprintf(
		`{apiVersion: porch.kpt.dev/v1alpha1, kind: PackageRevision, metadata: {namespace: default}, spec: {repository: %s, packageName: %s, workspaceName: %s, tasks: [%s]},
		status: {conditions: [{type: %s, status: "True"}]}}`, repository, pkg, workspace, task, condition)), metav1.CreateOptions{}))
	h.write(t, made.GetName(), files)
	return made.GetName()
}

// write changes files of a draft. It is repeated if somebody else writes at the same time.
func (h *hub) write(t *testing.T, name string, files map[string]string) {
	t.Helper()
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		o := h.wds.Get(t, resources, namespace, name)
		all, _, err := unstructured.NestedStringMap(o.Object, "spec", "resources")
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(all, files)
		if err := unstructured.SetNestedStringMap(o.Object, all, "spec", "resources"); err != nil {
			t.Fatal(err)
		}
		_, err = h.wds.Client.Resource(resources).Namespace(namespace).Update(t.Context(), o, metav1.UpdateOptions{})
		return err == nil, fmt.Sprint(err)
	})
}

func (h *hub) revision(t *testing.T, name string) *porchv1alpha1.PackageRevision {
	t.Helper()
	return testenv.Get[porchv1alpha1.PackageRevision](t, h.wds.Client.Resource(revisions).Namespace(namespace), name)
}

// gate returns the state of the gate of a revision: "no gate", "no condition", or its condition.
func (h *hub) gate(t *testing.T, name string) string {
	t.Helper()
	r := h.revision(t, name)
	text := "no gate"
	for _, g := range r.Spec.ReadinessGates {
		if g.ConditionType == condition {
			text = "no condition"
		}
	}
	for _, c := range r.Status.Conditions {
		if c.Type == condition && text == "no condition" {
			text = string(c.Status) + " " + c.Reason + ": " + c.Message
		}
	}
	return text
}

// becomes waits until the condition begins so, and returns it.
func (h *hub) becomes(t *testing.T, name, want string) string {
	t.Helper()
	got := ""
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		got = h.gate(t, name)
		return strings.HasPrefix(got, want), fmt.Sprintf("%s: %s, want %s", name, got, want)
	})
	return got
}

// patch patches a revision, and returns the error.
func (h *hub) patch(t *testing.T, name, patch, subresource string, dryRun ...string) (*unstructured.Unstructured, error) {
	t.Helper()
	var subresources []string
	if subresource != "" {
		subresources = []string{subresource}
	}
	return h.wds.Client.Resource(revisions).Namespace(namespace).Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{DryRun: dryRun}, subresources...)
}

func (h *hub) propose(t *testing.T, name string) error {
	t.Helper()
	_, err := h.patch(t, name, `{"spec":{"lifecycle":"Proposed"}}`, "")
	return err
}

// publish proposes and approves a revision.
func (h *hub) publish(t *testing.T, name string) {
	t.Helper()
	if err := h.propose(t, name); err != nil {
		t.Fatal(err)
	}
	if _, err := h.patch(t, name, `{"spec":{"lifecycle":"Published"}}`, "approval"); err != nil {
		t.Fatal(err)
	}
}

// refused checks that a revision cannot be proposed, and that the error has these words.
func (h *hub) refused(t *testing.T, name, words string) {
	t.Helper()
	if err := h.propose(t, name); err == nil || !strings.Contains(err.Error(), words) {
		t.Errorf("%s: proposed: %v, want an error with %q", name, err, words)
	}
}

// transactions returns the Transactions of a revision, by name.
func (h *hub) transactions(t *testing.T, revision string) map[string]*pkgv1alpha1.Transaction {
	t.Helper()
	return testenv.List[pkgv1alpha1.Transaction](t, h.wds.Client.Resource(pkgv1alpha1.Transactions), metav1.ListOptions{LabelSelector: "pkg.crossplane.io/package=" + revision})
}

var (
	locks               = pkgv1beta1.Locks
	transactionResource = pkgv1alpha1.Transactions
)

// files returns the files of a revision.
func (h *hub) files(t *testing.T, name string) map[string]string {
	t.Helper()
	all, _, err := unstructured.NestedStringMap(h.wds.Get(t, resources, namespace, name).Object, "spec", "resources")
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func nested(o *unstructured.Unstructured, fields ...string) (string, bool, error) {
	return unstructured.NestedString(o.Object, fields...)
}

// registry returns a registry that runs until the test ends.
func (h *hub) registry(t *testing.T) *testxpkg.Registry {
	t.Helper()
	registry := must[*testxpkg.Registry](t)(testxpkg.NewRegistry())
	t.Cleanup(registry.Close)
	return registry
}

// push pushes a version of the Provider s3.
func (h *hub) push(t *testing.T, registry *testxpkg.Registry, tag string) {
	t.Helper()
	must[string](t)(registry.PushPackage(t.Context(), "org/s3", tag, testxpkg.Provider("s3", testxpkg.CRD("installed.example.org", "Bucket", "a"))))
}

// appends is a Kptfile whose function changes the package each time that it runs.
const appends = `apiVersion: kpt.dev/v1
kind: Kptfile
metadata:
  name: s3
pipeline:
  mutators:
  - image: starlark
    configMap:
      source: |
        for o in ctx.resource_list["items"]:
          if o["kind"] == "CustomResourceDefinition":
            annotations = o["metadata"].setdefault("annotations", {})
            annotations["runs"] = annotations.get("runs", "") + "x"
`
