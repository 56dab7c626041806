package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/yaml"

	"github.com/starlinghq/starling/pkg/core/redact"
)

// TestReduce: what is kept of kinds that have more than a reader needs, or may see.
func TestReduce(t *testing.T) {
	for name, c := range map[string]struct {
		reduce    func(map[string]any) map[string]any
		obj, want string
	}{
		"identity": {
			identity,
			`{data: {a: b}, metadata: {name: x, namespace: shop, labels: {l: m}, annotations: {a: b}, managedFields: []}}`,
			`{metadata: {name: x, namespace: shop, labels: {l: m}}}`,
		},
		"conditions": {
			conditions,
			`{spec: {request: a}, metadata: {name: x}, status: {certificate: b, conditions: [{type: Approved}]}}`,
			`{metadata: {name: x}, status: {conditions: [{type: Approved}]}}`,
		},
		"no conditions": {conditions, `{metadata: {name: x}, status: {certificate: b}}`, `{metadata: {name: x}}`},
		"ManifestWork": {
			withoutPayload,
			`{metadata: {name: x}, spec: {deleteOption: {a: b}, workload: {manifests: [
				{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: shop}, data: {a: b}}, {apiVersion: v1, kind: Namespace, metadata: {name: shop}}]}},
				status: {resourceStatus: {manifests: [{conditions: [{type: Applied}], statusFeedback: {values: [{name: a, fieldValue: {string: b}}]}}]}}}`,
			`{metadata: {name: x}, spec: {deleteOption: {a: b}, workload: {manifests: [
				{apiVersion: v1, kind: Secret, name: s, namespace: shop, bytes: 95}, {apiVersion: v1, kind: Namespace, name: shop, bytes: 65}]}},
				status: {resourceStatus: {manifests: [{conditions: [{type: Applied}]}]}}}`,
		},
		"empty ManifestWork": {withoutPayload, `{metadata: {name: x}}`, `{metadata: {name: x}}`},
		"CombinedStatus": {
			withoutRows,
			`{results: [{name: c, columnNames: [a], rows: [{columns: [{string: b}]}, {columns: []}]}, {name: d}]}`,
			`{results: [{name: c, columnNames: [a], rows: 2}, {name: d}]}`,
		},
		"WorkStatus of a Secret": {
			withoutStatusOfSecrets,
			`{spec: {sourceRef: {resource: secrets, name: x}}, status: {a: b}}`, `{spec: {sourceRef: {resource: secrets, name: x}}, status: (removed)}`,
		},
		"WorkStatus": {
			withoutStatusOfSecrets, `{spec: {sourceRef: {kind: Deployment}}, status: {replicas: 1}}`, `{spec: {sourceRef: {kind: Deployment}}, status: {replicas: 1}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(asYAML(t, parse(t, c.want)), asYAML(t, c.reduce(parse(t, c.obj)))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	out := map[string]any{}
	if err := yaml.Unmarshal([]byte(strings.ReplaceAll(text, "\t", " ")), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func asYAML(t *testing.T, obj map[string]any) string {
	t.Helper()
	text, err := yaml.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func newCollector(out io.Writer) *collector {
	return &collector{
		archive:  newArchive(out, "bundle", time.Unix(0, 0), redact.Options{}),
		progress: io.Discard, found: map[string]map[string]int{}, versions: map[string]string{}, dirs: map[string]bool{},
	}
}

// files returns the files of an archive, which it closes.
func (a *archive) files(t *testing.T, out *bytes.Buffer) map[string]string {
	t.Helper()
	if err := a.close(); err != nil {
		t.Fatal(err)
	}
	unzipped, err := gzip.NewReader(out)
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
		files[header.Name] = string(text)
	}
}

// TestPodLogs: each container has a log, and a restarted one also its previous log.
func TestPodLogs(t *testing.T) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "starling", Name: "pod"},
		Spec:       corev1.PodSpec{InitContainers: []corev1.Container{{Name: "init"}}, Containers: []corev1.Container{{Name: "main"}}},
		Status:     corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "main", RestartCount: 2}}},
	}
	other := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "pod"}, Spec: pod.Spec}
	var out bytes.Buffer
	c := newCollector(&out)
	if got := c.collectPodLogs(t.Context(), fake.NewClientset(pod, other), "host", "starling"); got != 3 {
		t.Errorf("got %d logs, want 3: %v", got, c.problems)
	}
	want := map[string]string{
		"bundle/host/logs/pod/init.log": "fake logs\n", "bundle/host/logs/pod/main.log": "fake logs\n", "bundle/host/logs/pod/main.previous.log": "fake logs\n",
	}
	if diff := cmp.Diff(want, c.archive.files(t, &out)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// TestFleet: of a long log, the last whole lines are included. What cannot be read is a problem.
func TestFleet(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "logs"), 0o700); err != nil {
		t.Fatal(err)
	}
	line := strings.Repeat("x", 99) + "\n"
	for name, text := range map[string]string{
		"logs/short.log": "one\npassword: two\n", "logs/long.log": strings.Repeat(line, maxLog/len(line)+10), "fleet.json": "{}", "kubeconfig": "users: []",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	c := newCollector(&out)
	if got := c.collectFleet(dir); got != 2 {
		t.Errorf("got %d logs, want 2", got)
	}
	if len(c.problems) != 1 || !strings.Contains(c.problems[0], "components.json") {
		t.Errorf("problems %q", c.problems)
	}
	want := map[string]string{
		"bundle/fleet/short.log": "one\npassword: (removed)\n", "bundle/fleet/long.log": strings.Repeat(line, maxLog/len(line)), "bundle/fleet/fleet.json": "{}\n",
	}
	if diff := cmp.Diff(want, c.archive.files(t, &out)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// TestBounds: neither a file nor the archive grows without bound.
func TestBounds(t *testing.T) {
	var out bytes.Buffer
	a := newArchive(&out, "bundle", time.Unix(0, 0), redact.Options{})
	a.maxFile = 1000
	full := a.newList("objects.yaml")
	for fits := true; fits; {
		before := full.objects
		var err error
		if fits, err = full.append(map[string]any{"spec": "some text"}); err != nil {
			t.Fatal(err)
		}
		if fits != (full.objects == before+1) || full.objects > a.maxFile {
			t.Fatalf("%d objects after %d, which fit: %t", full.objects, before, fits)
		}
	}
	if len(full.text) > a.maxFile || len(full.text) < a.maxFile-100 {
		t.Errorf("%d objects with %d bytes", full.objects, len(full.text))
	}
	a.left = 10
	if err := a.log("a.log", []byte("too long for the rest\n")); !errors.Is(err, errFull) {
		t.Errorf("got %v, want %v", err, errFull)
	}
	if err := a.log("b.log", []byte("fits\n")); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(map[string]string{"bundle/b.log": "fits\n"}, a.files(t, &out)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestDirectories(t *testing.T) {
	c := newCollector(io.Discard)
	var got []string
	for _, name := range []string{"wds1", "admin@prod/wds1", "admin@prod:wds1", "..", "wds1"} {
		got = append(got, c.newDir("spaces/"+fileName(name)))
	}
	if diff := cmp.Diff([]string{"spaces/wds1", "spaces/admin_prod_wds1", "spaces/admin_prod_wds1-2", "spaces/", "spaces/wds1-2"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
