// Package foresight tests against real API servers what the commands that plan say: the same
// changes are then made. The controllers of policies and of the transport run in the test process.
package foresight

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	workv1 "open-cluster-management.io/api/work/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/client"
	"github.com/starlinghq/starling/pkg/clusters"
	clustercli "github.com/starlinghq/starling/pkg/clusters/cli"
	"github.com/starlinghq/starling/pkg/controller/binding"
	"github.com/starlinghq/starling/pkg/core/packing"
	"github.com/starlinghq/starling/pkg/core/settings"
	"github.com/starlinghq/starling/pkg/dynamicinformer"
	"github.com/starlinghq/starling/pkg/foresight/cli"
	"github.com/starlinghq/starling/pkg/packages/content"
	"github.com/starlinghq/starling/pkg/plugin"
	"github.com/starlinghq/starling/pkg/statusreports/mailboxes"
	"github.com/starlinghq/starling/pkg/transport"
	"github.com/starlinghq/starling/pkg/transport/ocm"
	"github.com/starlinghq/starling/pkg/transport/placement"
	transportplugin "github.com/starlinghq/starling/pkg/transport/plugin"
	"github.com/starlinghq/starling/pkg/writer"
	"github.com/starlinghq/starling/test/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m, testenv.Options{}) }

var managedClusters = schema.GroupVersionResource{Group: "cluster.open-cluster-management.io", Version: "v1", Resource: "managedclusters"}

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

const propertiesNamespace = controlv1alpha1.PropertiesNamespace

// hub is a WDS and an ITS with their controllers.
type hub struct {
	fleet    *testenv.Fleet
	wds, its *testenv.Space
	// namespace is that of the commands.
	namespace string
	// user is who the commands are run as; "" for the administrator.
	user string
}

// in returns the hub for commands in another namespace, if one is given.
func (h *hub) in(namespace string) *hub {
	other := *h
	if namespace != "" {
		other.namespace = namespace
	}
	return &other
}

func must[T any](t *testing.T) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

var fleets = testenv.Pool{Options: testenv.Options{Spaces: []string{"its1", "wds1"}}, Prepare: prepare}

func newHub(t *testing.T) *hub {
	t.Helper()
	return newHubOf(t, fleets.Lend(t))
}

// prepare installs what a hub needs in a fleet.
func prepare(t testing.TB, fleet *testenv.Fleet) {
	t.Helper()
	wds, its := fleet.Space(t, "wds1"), fleet.Space(t, "its1")
	wds.Install(t, testenv.APIs(t, "control.kubestellar.io_", "store.starling.io_")...)
	its.Install(t, append(testenv.APIs(t, "control.kubestellar.io_workstatuses"), testenv.ManagedClusterCRD(t),
		testenv.OCM(t, "work/v1/0000_00_work.open-cluster-management.io_manifestworks.crd.yaml"))...)
	its.Apply(t, "{apiVersion: v1, kind: Namespace, metadata: {name: customization-properties}}")
}

func newHubOf(t *testing.T, fleet *testenv.Fleet) *hub {
	t.Helper()
	h := &hub{namespace: "shop", fleet: fleet, wds: fleet.Space(t, "wds1"), its: fleet.Space(t, "its1")}
	uid := h.wds.Get(t, schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, "", "kube-system").GetUID()

	reader := clusters.New(clusters.ITS{Name: "its1", Connect: func(context.Context) (clusters.Source, error) { return clusters.NewSource(h.its.Config) }})
	testenv.Run(t, reader.Run)
	bindings, transports := settings.Defaults()
	running, err := binding.Setup(binding.SetupConfig{WDS: h.wds.Config, WDSName: "wds1", Clusters: reader, Settings: bindings})
	if err != nil {
		t.Fatal(err)
	}
	testenv.Run(t, func(ctx context.Context) error { return running.Run(ctx, testenv.Leading(), 4, binding.Observers{}) })

	config := h.wds.Config
	control := must[*client.Client](t)(client.New(config))
	objects := must[*dynamic.DynamicClient](t)(dynamic.NewForConfig(config))
	partial := must[metadata.Interface](t)(metadata.NewForConfig(config))
	found := must[*discovery.DiscoveryClient](t)(discovery.NewDiscoveryClientForConfig(config))
	controller := must[*transport.Controller](t)(transport.New(transport.Config{
		WDS: placement.WDS{
			Bindings:         must[cache.SharedIndexInformer](t)(client.NewInformer(control.Bindings(), &controlv1alpha1.Binding{}, cache.Indexers{})),
			CustomTransforms: must[cache.SharedIndexInformer](t)(client.NewInformer(control.CustomTransforms(), &controlv1alpha1.CustomTransform{}, cache.Indexers{})),
			Metadata:         dynamicinformer.MetadataInformer(partial), Objects: objects, Versions: partial,
			Packages: placement.PackagesOf(objects, must[*content.Store](t)(content.New(config, clock.RealClock{})), client.NewKinds(found, clock.RealClock{})),
			Writer:   must[*writer.Writer](t)(writer.New(config, "wds1", ocm.FieldManager)),
		},
		ITSes: []transportplugin.ITS{{Name: "its1", Connect: func(context.Context) (transportplugin.Plugin, error) {
			return ocm.New(ocm.Config{Space: "its1", Hub: h.its.Config, WDSName: "wds1", WDSUID: uid, ReportLimits: mailboxes.DefaultLimits()})
		}}},
		Limits: packing.Limits{Count: 512000, Bytes: 512000}, Concurrency: 8,
	}))
	testenv.Run(t, func(ctx context.Context) error { return controller.Run(ctx, testenv.Leading()) })
	h.wds.PublishSettings(t, bindings, transports)
	testenv.Ready(t, running.Ready, controller.Ready)
	testenv.RunAgents(t, h.its, "c1", "c2", "c3")
	return h
}

// plan runs the command, and returns its JSON and its exit code.
func (h *hub) plan(t *testing.T, args ...string) (*cli.Plan, int) {
	t.Helper()
	out, code := h.run(t, append(args, "-o", "json")...)
	plan := &cli.Plan{}
	if err := json.Unmarshal([]byte(out), plan); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return plan, code
}

func (h *hub) run(t *testing.T, args ...string) (string, int) {
	t.Helper()
	out, errOut, code := h.command(t, cli.NewPlanCommand, args...)
	if code == plugin.ExitFailed {
		t.Logf("plan %v: %s", args, errOut)
	}
	return out, code
}

// command runs a command of kubectl starling in the WDS, with the namespace shop.
func (h *hub) command(
	t *testing.T, command func(*genericclioptions.ConfigFlags, genericiooptions.IOStreams) *cobra.Command, args ...string,
) (stdout, stderr string, code int) {
	t.Helper()
	flags := genericclioptions.NewConfigFlags(false)
	kubeconfig, wds, namespace := h.fleet.Kubeconfig(), "wds1", h.namespace
	flags.KubeConfig, flags.Context, flags.Namespace = &kubeconfig, &wds, &namespace
	if h.user != "" {
		flags.Impersonate = &h.user
	}
	var out, errOut bytes.Buffer
	cmd := command(flags, genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut})
	cmd.SetArgs(args)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetContext(t.Context())
	code = plugin.Report(&errOut, cmd.Execute())
	return out.String(), errOut.String(), code
}

// delivered returns what the mailboxes have: the hash of each manifest, by cluster and object.
func (h *hub) delivered(t *testing.T) map[string]map[string]any {
	t.Helper()
	list, err := h.its.Client.Resource(ocm.ManifestWorks).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]map[string]any{}
	for i := range list.Items {
		work := testenv.Into[workv1.ManifestWork](t, &list.Items[i])
		for n := range work.Spec.Workload.Manifests {
			o := &unstructured.Unstructured{}
			if err := json.Unmarshal(work.Spec.Workload.Manifests[n].Raw, &o.Object); err != nil {
				t.Fatal(err)
			}
			if o.GetAnnotations()[controlv1alpha1.AnnotationWithdrawn] == "" {
				all[work.Namespace+" "+o.GetKind()+" "+strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/")] = o.Object
			}
		}
	}
	return all
}

// forecast returns what a plan says, in the same form.
func forecast(plan *cli.Plan) map[string]string {
	verbs := map[string]string{}
	for _, g := range plan.Groups {
		for _, cluster := range g.Clusters {
			for i := range g.Items {
				item := &g.Items[i]
				if item.Verb != "keep" {
					verbs[cluster+" "+item.Kind+" "+strings.TrimPrefix(item.Ref.Namespace+"/"+item.Ref.Name, "/")] = string(item.Verb)
				}
			}
		}
	}
	return verbs
}

func file(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "change.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

const (
	edge = `{apiVersion: control.kubestellar.io/v1alpha1, kind: BindingPolicy, metadata: {name: edge}, spec: {
		clusterSelectors: [{matchLabels: {site: edge}}], downsync: [{objectSelectors: [{matchLabels: {app: shop}}]}]}}`
	settingsText = `{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: shop, labels: {app: shop}}, data: {color: %s}}`
)

// TestPlanIsWhatHappens plans a row of changes and makes each of them then: the mailboxes change
// just as the plan said.
func TestPlanIsWhatHappens(t *testing.T) {
	h := newHub(t)
	for name, site := range map[string]string{"c1": "edge", "c2": "edge", "c3": "core"} {
		h.its.Apply(t, "{apiVersion: v1, kind: Namespace, metadata: {name: "+name+"}}")
		h.its.Apply(t, "{apiVersion: cluster.open-cluster-management.io/v1, kind: ManagedCluster, metadata: {name: "+name+
			", labels: {site: "+site+"}}, spec: {hubAcceptsClient: true}}")
	}
	apply := func(text string) func() ([]string, func()) {
		return func() ([]string, func()) { return []string{"-f", file(t, text)}, func() { h.applyAll(t, text) } }
	}
	properties := "{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: customization-properties}, data: {site: %s}}"
	steps := []struct {
		name   string
		change func() (args []string, do func())
		want   int // how many copies change
		in     string
	}{
		{"ANamespaceWithObjects", apply(`{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {app: shop}}}
---
` + fmt.Sprintf(settingsText, "red") + `
---
{apiVersion: v1, kind: Secret, metadata: {name: password, namespace: shop, labels: {app: shop}}, stringData: {key: geheim}}`), 0, ""},
		{"APolicy", apply(edge), 6, ""},
		{"AnEdit", apply(fmt.Sprintf(settingsText, "blue")), 2, ""},
		{"TheSameAgain", apply(fmt.Sprintf(settingsText, "blue")), 0, ""},
		{"ATemplate", apply(`{apiVersion: v1, kind: ConfigMap, metadata: {name: banner, namespace: shop, labels: {app: shop}, annotations: {
			control.kubestellar.io/expand-templates: "true"}}, data: {text: "I am {{.clusterName}} at {{.site}}"}}`), 2, ""},
		{"PropertiesOfAClusterAndOfNone", func() ([]string, func()) { // they are applied in the ITS
			text := fmt.Sprintf(properties, "c1", "attic")
			return []string{"-f", file(t, text+"\n---\n"+fmt.Sprintf(properties, "c9", "moon"))}, func() { h.fleet.Kubectl(t, "its1", "apply", "-f", file(t, text)) }
		}, 1, propertiesNamespace},
		{"AnEditOfProperties", func() ([]string, func()) {
			text := fmt.Sprintf(properties, "c1", "cellar")
			return []string{"-f", file(t, text)}, func() { h.fleet.Kubectl(t, "its1", "apply", "-f", file(t, text)) }
		}, 1, propertiesNamespace},
		{"PropertiesAreDeleted", func() ([]string, func()) {
			return []string{"--delete", "cm/c1"}, func() { h.its.Delete(t, configMaps, propertiesNamespace, "c1") }
		}, 1, propertiesNamespace},
		{"ACustomTransform", apply(`{apiVersion: control.kubestellar.io/v1alpha1, kind: CustomTransform, metadata: {name: colors}, spec: {
			apiGroup: "", resource: configmaps, remove: [$.data.color]}}`), 2, ""},
		{"ALabelOfACluster", func() ([]string, func()) {
			return []string{"--label", "cluster/c3=site=edge"}, func() { h.its.Patch(t, managedClusters, "", "c3", `{"metadata":{"labels":{"site":"edge"}}}`) }
		}, 4, ""},
		{"ADeletion", func() ([]string, func()) {
			return []string{"--delete", "configmap/settings"}, func() {
				h.wds.Delete(t, configMaps, "shop", "settings")
			}
		}, 3, ""},
		{"APolicyIsDeleted", func() ([]string, func()) {
			return []string{"--delete", "bindingpolicy/edge"}, func() { h.wds.Delete(t, controlv1alpha1.BindingPolicies, "", "edge") }
		}, 9, ""},
	}
	for _, step := range steps {
		args, do := step.change()
		before := h.delivered(t)
		plan, code := h.in(step.in).plan(t, args...)
		want := forecast(plan)
		if len(want) != step.want {
			t.Fatalf("%s: the plan has %d changes, want %d: %v", step.name, len(want), step.want, slices.Sorted(maps.Keys(want)))
		}
		if changes := len(plan.Policies)+len(plan.Groups) > 0; changes != (code == 2) || !changes && code != 0 {
			t.Errorf("%s: exit code %d", step.name, code)
		}
		if len(plan.Unknown) > 0 {
			t.Errorf("%s: unknown %q", step.name, plan.Unknown)
		}
		do()
		testenv.Eventually(t, testenv.Patience, func() (bool, string) {
			diff := cmp.Diff(want, testenv.Changed(before, h.delivered(t)))
			return diff == "", fmt.Sprintf("%s: the plan (-), what happened (+):\n%s", step.name, diff)
		})
		if step.want == 0 {
			testenv.Still(t, 500*time.Millisecond, func() int { return len(testenv.Changed(before, h.delivered(t))) })
		}
	}
}

// TestPlanHidesSecrets: no format has the content of a Secret, neither as it is nor as it will be,
// also not in base64 or in the annotation of kubectl apply.
func TestPlanHidesSecrets(t *testing.T) {
	h := newHub(t)
	h.its.Apply(t, "{apiVersion: v1, kind: Namespace, metadata: {name: c1}}")
	h.its.Apply(t, "{apiVersion: cluster.open-cluster-management.io/v1, kind: ManagedCluster, metadata: {name: c1, labels: {site: edge}}, spec: {hubAcceptsClient: true}}")
	secret := "{apiVersion: v1, kind: Secret, metadata: {name: password, namespace: shop, labels: {app: shop}}, stringData: {key: %s}}"
	h.applyAll(t, "{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {app: shop}}}\n---\n"+fmt.Sprintf(secret, "geheimnis")+"\n---\n"+edge)
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		_, is := h.delivered(t)["c1 Secret shop/password"]
		return is, "the Secret is not in the mailbox"
	})
	edit := file(t, fmt.Sprintf(secret, "verborgen"))
	for _, format := range []string{"", "wide", "diff", "json", "yaml", "name"} {
		out, code := h.run(t, "-f", edit, "-o", format)
		if code != 2 || !strings.Contains(strings.ToLower(out), "secret") || !strings.Contains(out, "password") {
			t.Errorf("-o %q: exit code %d, want 2 and a Secret that changes: %s", format, code, out)
		}
		for _, value := range []string{"geheimnis", "verborgen"} {
			if strings.Contains(out, value) || strings.Contains(out, base64.StdEncoding.EncodeToString([]byte(value))) {
				t.Errorf("-o %q shows the value %q: %s", format, value, out)
			}
		}
	}

	// An API server that refuses a Secret returns it in the error, also as it is.
	wrong := file(t, "{apiVersion: v1, kind: Secret, metadata: {name: password, namespace: shop, labels: {app: shop}}, data: {other: verborgen!}}")
	const want = `apply Secret "shop/password" of %s by a dry run: %s(text withheld: the object is a Secret)`
	for _, tc := range []struct {
		command func(*genericclioptions.ConfigFlags, genericiooptions.IOStreams) *cobra.Command
		args    []string
		reason  string
	}{
		{cli.NewPlanCommand, []string{"-f", wrong}, "Invalid "},
		{cli.NewPlanCommand, []string{"-f", wrong, "--server-side"}, ""},
		{cli.NewRolloutCommand, []string{"status", "-f", wrong}, "Invalid "},
	} {
		stdout, stderr, code := h.command(t, tc.command, tc.args...)
		if code != 1 || stdout != "" || !strings.Contains(stderr, fmt.Sprintf(want, wrong, tc.reason)) {
			t.Errorf("%v: exit code %d, output %q, error %s", tc.args, code, stdout, stderr)
		}
		for _, value := range []string{"geheimnis", "verborgen", base64.StdEncoding.EncodeToString([]byte("geheimnis"))} {
			if strings.Contains(stderr, value) {
				t.Errorf("%v shows the value %q: %s", tc.args, value, stderr)
			}
		}
	}
}

// TestPlanWithFewRights: what the caller may not read is unknown. It is neither a panic nor counted
// as unchanged.
func TestPlanWithFewRights(t *testing.T) {
	h := newHub(t)
	for name, site := range map[string]string{"c1": "edge", "c2": "core"} {
		h.its.Apply(t, "{apiVersion: v1, kind: Namespace, metadata: {name: "+name+"}}")
		h.its.Apply(t, "{apiVersion: cluster.open-cluster-management.io/v1, kind: ManagedCluster, metadata: {name: "+name+
			", labels: {site: "+site+"}}, spec: {hubAcceptsClient: true}}")
	}
	const banner = `{apiVersion: v1, kind: ConfigMap, metadata: {name: banner, namespace: shop, labels: {app: shop}, annotations: {
		control.kubestellar.io/expand-templates: "true"}}, data: {text: "%s {{.clusterName}}"}}`
	h.applyAll(t, "{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {app: shop}}}\n---\n"+fmt.Sprintf(banner, "I am")+`
---
{apiVersion: v1, kind: Secret, metadata: {name: password, namespace: shop, labels: {app: shop}}, stringData: {key: geheim}}
---
`+edge)
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		n := len(h.delivered(t))
		return n == 3, fmt.Sprintf("%d objects are in the mailboxes, want 3", n)
	})
	const grant = `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: bob}, rules: [%s]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: bob}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: bob},
	subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: bob}]}`
	h.wds.Apply(t, fmt.Sprintf(grant, `{apiGroups: [control.kubestellar.io], resources: ["*"], verbs: [get, list]},
		{apiGroups: [""], resources: [namespaces, configmaps], verbs: [get, list, patch]}`))
	h.its.Apply(t, fmt.Sprintf(grant, `{apiGroups: [cluster.open-cluster-management.io], resources: [managedclusters], verbs: [get, list]}`))
	bob := *h
	bob.user = "bob"
	unknown := func(plan *cli.Plan, what string) {
		t.Helper()
		if !slices.ContainsFunc(plan.Unknown, func(unknown string) bool { return strings.HasPrefix(unknown, what) }) {
			t.Errorf("unknown %q, want %q", plan.Unknown, what)
		}
	}

	plan, code := bob.plan(t, "--label", "cluster/c2=site=edge")
	unknown(plan, "secrets cannot be listed")
	verbs := forecast(plan)
	if want := map[string]string{"c2 ConfigMap shop/banner": "create", "c2 Namespace shop": "create", "c2  shop/password": "create"}; code != 3 || !cmp.Equal(want, verbs) {
		t.Errorf("--label: exit code %d (-want +got):\n%s", code, cmp.Diff(want, verbs))
	}

	edit := file(t, fmt.Sprintf(banner, "We are"))
	plan, code = bob.plan(t, "-f", edit, "--fail-on=error")
	unknown(plan, "the properties of the clusters of ITS its1, so templates are not expanded for them")
	verbs = forecast(plan)
	if want := map[string]string{"c1 ConfigMap shop/banner": "update"}; code != 3 || !cmp.Equal(want, verbs) {
		t.Errorf("-f: exit code %d (-want +got):\n%s", code, cmp.Diff(want, verbs))
	}
	if out, _ := bob.run(t, "-f", edit); !strings.Contains(out, "whether its content changes is unknown") {
		t.Errorf("the output does not say that it is unknown what changes: %s", out)
	}
}

// meanwhile does something when a command prints for the first time.
type meanwhile struct {
	once sync.Once
	do   func()
}

func (m *meanwhile) Write(text []byte) (int, error) {
	m.once.Do(m.do)
	return len(text), nil
}

// TestPlannedClusterIsRecreated: a command about a cluster does nothing to another one that has its
// name by the time that the user confirms it.
func TestPlannedClusterIsRecreated(t *testing.T) {
	h := newHub(t)
	const managed = "{apiVersion: cluster.open-cluster-management.io/v1, kind: ManagedCluster, metadata: {name: %s, labels: {site: %s}}, spec: {hubAcceptsClient: %s}}"
	for _, tc := range []struct {
		args     []string
		accepted string
		recreate bool // otherwise, its labels change
	}{
		{[]string{"accept"}, "false", true},
		{[]string{"accept"}, "false", false},
		{[]string{"deny"}, "true", true},
		{[]string{"drain"}, "true", true},
		{[]string{"remove"}, "true", true},
		{[]string{"remove", "--force"}, "true", true},
	} {
		name := "shown-" + strings.Trim(strings.Join(tc.args, ""), "-") + fmt.Sprint(tc.recreate)
		h.its.Apply(t, fmt.Sprintf(managed, name, "edge", tc.accepted))
		// A request, so that accept does not wait for one.
		h.its.Apply(t, "{apiVersion: certificates.k8s.io/v1, kind: CertificateSigningRequest, metadata: {name: "+name+
			", labels: {open-cluster-management.io/cluster-name: "+name+"}}, spec: {request: "+aRequest(t)+", signerName: example.com/none, usages: [client auth]}}")
		change := func() {
			if tc.recreate {
				h.its.Delete(t, managedClusters, "", name)
			}
			h.its.Apply(t, fmt.Sprintf(managed, name, "core", tc.accepted))
		}
		command := func(flags *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
			streams.Out = &meanwhile{do: change}
			return clustercli.NewCommand(flags, streams, fstest.MapFS{})
		}
		_, stderr, code := h.command(t, command, append(tc.args, name, "--yes", "--its-context=its1")...)
		if code != 1 || !strings.Contains(stderr, "it has changed since it was shown, or was re-created under its name") {
			t.Errorf("%s: exit code %d: %s", name, code, stderr)
		}
		now := h.its.Get(t, managedClusters, "", name)
		if _, drained := now.GetLabels()[controlv1alpha1.LabelDrained]; drained || now.GetDeletionTimestamp() != nil {
			t.Errorf("%s: labels %v, deleted %v", name, now.GetLabels(), now.GetDeletionTimestamp())
		}
		if accepts, _, _ := unstructured.NestedBool(now.Object, "spec", "hubAcceptsClient"); fmt.Sprint(accepts) != tc.accepted {
			t.Errorf("%s: hubAcceptsClient is %v", name, accepts)
		}
	}
}

// aRequest returns a request for a certificate, in base64.
func aRequest(t *testing.T) string {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "nobody"}}, key)
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: raw}))
}

// applyAll applies the objects of a file as kubectl does.
func (h *hub) applyAll(t *testing.T, text string) {
	t.Helper()
	h.fleet.Kubectl(t, "wds1", "apply", "-f", file(t, text))
}

// TestPlanWithoutITS: what may not be read is said, and is no error.
func TestPlanWithoutITS(t *testing.T) {
	h := newHub(t)
	h.applyAll(t, edge)
	out, code := h.run(t, "-f", file(t, "{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {app: shop}}}"), "--its-context", "wds1")
	if code != 3 || !strings.Contains(out, "Unknown: the clusters of ITS wds1") {
		t.Errorf("exit code %d: %s", code, out)
	}
	out, code = h.run(t, "-f", file(t, strings.Replace(edge, "site: edge", "site: core", 1)), "--its-context", "wds1", "--fail-on=removal")
	if code != 3 || !strings.Contains(out, "Whether anything changes in any cluster is not known.") || strings.Contains(out, "Nothing changes") {
		t.Errorf("exit code %d: %s", code, out)
	}
	for _, args := range [][]string{{}, {"--label", "c1=site=edge"}, {"--delete", "configmap/none"}, {"-f", "none.yaml"}, {"-f", file(t, edge), "--fail-on=everything"}} {
		if out, code := h.run(t, args...); code != 1 || out != "" {
			t.Errorf("plan %v: exit code %d, output %q", args, code, out)
		}
	}
}
