// Package bundle tests against real API servers what `kubectl starling bundle` collects, and what
// it never does.
package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/yaml"

	"github.com/starlinghq/starling/pkg/bundle/cli"
	"github.com/starlinghq/starling/test/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m, testenv.Options{}) }

// planted is in everything that must not be in a bundle.
const planted = "planted-secret-value"

var encoded = base64.StdEncoding.EncodeToString([]byte(planted))

const (
	jwt = "eyJhbGciOiJSUzI1NiJ9.eyJwbGFudGVkIjoic2VjcmV0In0.cGxhbnRlZA"

	secret = `apiVersion: v1
kind: Secret
metadata:
  name: planted
  namespace: planted
  labels: {visible: secret-label}
  annotations:
    kubectl.kubernetes.io/last-applied-configuration: '{"apiVersion":"v1","kind":"Secret","stringData":{"a":"planted-secret-value"}}'
    example.com/copy: planted-secret-value
stringData: {a: planted-secret-value}
`
	lastApplied = `
  annotations:
    kubectl.kubernetes.io/last-applied-configuration: '{"data":"planted-secret-value"}'
`
)

// ofWDS are objects in the WDS, which is the hosting cluster too.
const ofWDS = `
apiVersion: v1
kind: Namespace
metadata: {name: planted}
---
` + secret + `---
apiVersion: control.kubestellar.io/v1alpha1
kind: BindingPolicy
metadata:
  name: visible-policy` + lastApplied + `spec:
  clusterSelectors: [{matchLabels: {visible: "yes"}}]
---
apiVersion: control.kubestellar.io/v1alpha1
kind: CombinedStatus
metadata: {name: visible-combined, namespace: planted}
results:
- name: collector
  columnNames: [visible-column]
  rows: [{columns: [{type: String, string: planted-secret-value}]}]
---
apiVersion: config.porch.kpt.dev/v1alpha1
kind: Repository
metadata:
  name: visible-repository
  namespace: planted
  annotations: {example.com/from: "https://user:planted-secret-value@git.example.com/visible-origin"}
spec:
  type: git
  git: {repo: "https://git.example.com/visible-repo", branch: main, secretRef: {name: visible-reference}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: visible-configmap, namespace: planted}
data: {visible-key: planted-secret-value}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: visible-deployment
  namespace: planted` + lastApplied + `spec:
  selector: {matchLabels: {app: x}}
  template:
    metadata: {labels: {app: x}}
    spec:
      containers:
      - name: visible-container
        image: visible-image
        args: [--visible-flag=1, --password=planted-secret-value]
        env: [{name: VISIBLE, value: planted-secret-value}]
---
apiVersion: v1
kind: Event
metadata: {name: visible-event, namespace: planted}
involvedObject: {apiVersion: v1, kind: Secret, namespace: planted, name: planted}
reason: VisibleReason
message: 'got token=planted-secret-value and ` + jwt + ` from https://a:planted-secret-value@example.com'
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata:
  name: visible-lease
  namespace: planted` + lastApplied + `spec: {holderIdentity: visible-holder}
`

// ofITS are objects in the ITS.
const ofITS = `
apiVersion: v1
kind: Namespace
metadata: {name: planted}
---
apiVersion: work.open-cluster-management.io/v1
kind: ManifestWork
metadata: {name: visible-work, namespace: planted}
spec:
  workload:
    manifests:
    - apiVersion: v1
      kind: Secret
      metadata: {name: visible-delivered, namespace: shop, annotations: {a: planted-secret-value}}
      stringData: {a: planted-secret-value}
    - apiVersion: v1
      kind: ConfigMap
      metadata: {name: visible-delivered-configmap, namespace: shop}
      data: {a: planted-secret-value}
---
apiVersion: control.kubestellar.io/v1alpha1
kind: WorkStatus
metadata: {name: visible-report, namespace: planted}
spec: {sourceRef: {group: "", version: v1, resource: secrets, kind: Secret, namespace: shop, name: visible-delivered}}
status: {a: planted-secret-value}
`

// TestBundle: what a reader of a bug report needs is in the bundle, and nothing that is secret.
func TestBundle(t *testing.T) {
	fleet := testenv.Shared(t)
	plant(t, fleet)

	t.Run("local fleet", func(t *testing.T) {
		log := filepath.Join(fleet.Dir, "logs", "planted.log")
		if err := os.WriteFile(log, []byte("visible line\nAuthorization: Bearer planted-secret-value\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		files, _ := collect(t, fleet, "", "--dir="+fleet.Dir)
		expect(t, files, map[string][]string{
			"fleet/planted.log":                                              {"visible line"},
			"fleet/wds1-kube-apiserver.log":                                  {"apiserver"},
			"spaces/wds1/events.yaml":                                        {"VisibleReason"},
			"spaces/wds1/leases.coordination.k8s.io.yaml":                    {"visible-lease", "visible-holder"},
			"spaces/wds1/readyz.txt":                                         {"[+]etcd ok"},
			"spaces/wds1/bindingpolicies.control.kubestellar.io.yaml":        {"visible-policy"},
			"spaces/wds1/combinedstatuses.control.kubestellar.io.yaml":       {"visible-column", "rows: 1"},
			"spaces/wds1/repositories.config.porch.kpt.dev.yaml":             {"git.example.com/visible-repo", "visible-reference", "git.example.com/visible-origin"},
			"spaces/its1/manifestworks.work.open-cluster-management.io.yaml": {"visible-work", "visible-delivered", "visible-delivered-configmap"},
			"spaces/its1/workstatuses.control.kubestellar.io.yaml":           {"visible-report", "visible-delivered"},
			"index.yaml": {"spaces/its1: v1.", "problems: null"},
		})
		noSecrets(t, fleet, files)
		for name := range files {
			if strings.Contains(name, "/secrets") || strings.Contains(name, "/configmaps") || strings.Contains(name, "/deployments") {
				t.Errorf("the bundle has the workload of users: %s", name)
			}
		}
	})
	t.Run("hosting cluster", func(t *testing.T) {
		files, _ := collect(t, fleet, "", "--its-context=its1", "--host-context=wds1", "--host-namespace=planted")
		expect(t, files, map[string][]string{
			"host/secrets.yaml":          {"name: planted", "secret-label"},
			"host/configmaps.yaml":       {"visible-configmap", "visible-key"},
			"host/deployments.apps.yaml": {"visible-deployment", "visible-container", "--visible-flag=1", "VISIBLE"},
			"host/events.yaml":           {"VisibleReason"},
			"spaces/its1/manifestworks.work.open-cluster-management.io.yaml": {"visible-work"},
		})
		noSecrets(t, fleet, files)
	})
}

// TestBundleOfWhoMayLittle: what the caller may not read is listed, and the rest is included.
func TestBundleOfWhoMayLittle(t *testing.T) {
	fleet := testenv.Shared(t)
	plant(t, fleet)
	wds := fleet.Space(t, "wds1")
	wds.Apply(t, `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: policy-reader}
rules: [{apiGroups: [control.kubestellar.io], resources: [bindingpolicies], verbs: [list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: policy-reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: policy-reader}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: ann}]
`)
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		files, output := collect(t, fleet, "ann", "--wds-context=wds1")
		if !strings.Contains(files["spaces/wds1/bindingpolicies.control.kubestellar.io.yaml"], "visible-policy") {
			return false, output // rights apply a moment after they were written
		}
		for name := range files {
			if strings.Contains(name, "events") {
				t.Errorf("the bundle has %s", name)
			}
		}
		for _, text := range []string{files["index.yaml"], output} {
			if !strings.Contains(text, `spaces/wds1: list events: events is forbidden: User "ann" cannot list`) {
				t.Errorf("what ann may not read is not in:\n%s", text)
			}
		}
		return true, ""
	})
}

// plant creates objects with secrets.
func plant(t *testing.T, fleet *testenv.Fleet) {
	t.Helper()
	wds, its := fleet.Space(t, "wds1"), fleet.Space(t, "its1")
	wds.Install(t, testenv.APIs(t, "control.kubestellar.io_bindingpolicies", "control.kubestellar.io_combinedstatuses", "config.porch.kpt.dev_repositories")...)
	its.Install(t, append(testenv.APIs(t, "control.kubestellar.io_workstatuses"), testenv.OCM(t, "work/v1/0000_00_work.open-cluster-management.io_manifestworks.crd.yaml"))...)
	wds.Apply(t, ofWDS)
	its.Apply(t, ofITS)
}

// collect runs the command and returns the files of the bundle and its output. An empty user is the
// administrator.
func collect(t *testing.T, fleet *testenv.Fleet, user string, args ...string) (files map[string]string, output string) {
	t.Helper()
	flags := genericclioptions.NewConfigFlags(true)
	flags.KubeConfig, flags.Impersonate = new(fleet.Kubeconfig()), &user
	var out bytes.Buffer
	clock := clocktesting.NewFakePassiveClock(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))
	cmd := cli.NewCommand(flags, genericiooptions.IOStreams{In: &out, Out: &out, ErrOut: &out}, "none", clock)
	file := filepath.Join(t.TempDir(), "bundle.tar.gz")
	cmd.SetArgs(append(args, "--output="+file))
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("others may read the bundle: %s", info.Mode())
	}
	return unpack(t, file), out.String()
}

// unpack returns the files of an archive by their names in its directory.
func unpack(t *testing.T, file string) map[string]string {
	t.Helper()
	data, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	unzipped, err := gzip.NewReader(data)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for reader := tar.NewReader(unzipped); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		name, ok := strings.CutPrefix(header.Name, "starling-bundle-20300102-030405/")
		if !ok {
			t.Errorf("%s is outside of the directory", header.Name)
		}
		files[name] = string(text)
	}
}

func expect(t *testing.T, files map[string]string, want map[string][]string) {
	t.Helper()
	for name, texts := range want {
		if files[name] == "" {
			t.Errorf("the bundle has no %s, only %q", name, slices.Sorted(maps.Keys(files)))
		}
		for _, text := range texts {
			if !strings.Contains(files[name], text) {
				t.Errorf("%s does not have %q:\n%s", name, text, files[name])
			}
		}
	}
}

// noSecrets fails the test if a file has what was planted, or a credential of the fleet.
func noSecrets(t *testing.T, fleet *testenv.Fleet, files map[string]string) {
	t.Helper()
	secrets := []string{planted, encoded, jwt, "PRIVATE KEY"}
	config, err := clientcmd.LoadFromFile(fleet.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range config.AuthInfos {
		for _, secret := range []string{user.Token, string(user.ClientKeyData), base64.StdEncoding.EncodeToString(user.ClientKeyData)} {
			if secret != "" {
				secrets = append(secrets, secret)
			}
		}
	}
	if len(secrets) < 5 {
		t.Fatal("the kubeconfig has no credentials")
	}
	client, err := kubernetes.NewForConfig(fleet.Config(t, "wds1"))
	if err != nil {
		t.Fatal(err)
	}
	all, err := client.CoreV1().Secrets(corev1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range all.Items {
		for _, value := range all.Items[i].Data {
			const least = 12 // shorter values are words, such as names of namespaces
			if len(value) >= least {
				secrets = append(secrets, string(value), base64.StdEncoding.EncodeToString(value))
			}
		}
	}
	for name, text := range files {
		for _, secret := range secrets {
			if strings.Contains(text, secret) {
				t.Errorf("%s has %q", name, secret)
			}
		}
		if strings.HasSuffix(name, ".yaml") {
			for document := range strings.SplitSeq(text, "---\n") {
				if err := yaml.Unmarshal([]byte(document), &map[string]any{}); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
	}
}
