package installation

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/starlinghq/starling/pkg/hostedspace"
	"github.com/starlinghq/starling/pkg/install/chart"
)

// namespaces is an API server with at most one Namespace.
type namespaces struct {
	stored *corev1.Namespace
	// after is called between a read and a write.
	after  func(*namespaces)
	writes int
}

var namespaceResource = schema.GroupResource{Resource: "namespaces"}

func (n *namespaces) Get(_ context.Context, name string, _ metav1.GetOptions) (*corev1.Namespace, error) {
	defer func() {
		if n.after != nil {
			n.after(n)
		}
	}()
	if n.stored == nil {
		return nil, apierrors.NewNotFound(namespaceResource, name)
	}
	return n.stored.DeepCopy(), nil
}

func (n *namespaces) Create(_ context.Context, namespace *corev1.Namespace, _ metav1.CreateOptions) (*corev1.Namespace, error) {
	if n.stored != nil {
		return nil, apierrors.NewAlreadyExists(namespaceResource, namespace.Name)
	}
	n.stored, n.writes = namespace, n.writes+1
	return namespace, nil
}

func (n *namespaces) Update(_ context.Context, namespace *corev1.Namespace, _ metav1.UpdateOptions) (*corev1.Namespace, error) {
	if n.stored.ResourceVersion != namespace.ResourceVersion {
		return nil, apierrors.NewConflict(namespaceResource, namespace.Name, nil)
	}
	n.stored, n.writes = namespace, n.writes+1
	return namespace, nil
}

func stored(annotations map[string]string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: chart.Namespace, Annotations: annotations}}
}

func TestRecord(t *testing.T) {
	mine, other := hostedspace.Record{Type: "wds", Name: "wds1"}, hostedspace.Record{Type: "its", Name: "its1"}
	annotations := func(r hostedspace.Record) map[string]string {
		return map[string]string{hostedspace.TypeAnnotation: r.Type, hostedspace.NameAnnotation: r.Name}
	}
	with := func(annotations map[string]string) map[string]string {
		annotations["mine"] = "stays"
		return annotations
	}
	for name, tc := range map[string]struct {
		stored  *corev1.Namespace
		after   func(*namespaces)
		checked hostedspace.Record
		want    map[string]string
		fails   bool
	}{
		"no namespace":      {want: annotations(mine)},
		"no record":         {stored: stored(with(map[string]string{})), want: with(annotations(mine))},
		"recorded since":    {stored: stored(annotations(other)), want: annotations(other), fails: true},
		"created meanwhile": {after: func(n *namespaces) { n.stored = stored(annotations(other)) }, want: annotations(other), fails: true},
		"written meanwhile": {
			stored: stored(nil), after: func(n *namespaces) {
				n.stored = stored(annotations(other))
				n.stored.ResourceVersion = "2"
			}, want: annotations(other), fails: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := &namespaces{stored: tc.stored, after: tc.after}
			if err := tryRecord(t.Context(), n, tc.checked, mine); (err != nil) != tc.fails {
				t.Errorf("tryRecord() = %v, want an error: %t", err, tc.fails)
			}
			if diff := cmp.Diff(tc.want, n.stored.Annotations); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if err := writeRecord(t.Context(), nil, mine, mine); err != nil {
		t.Errorf("writeRecord() = %v although nothing is to be written", err)
	}
}

func TestAddressObjects(t *testing.T) {
	objs, err := addressObjects(&Endpoint{URL: "https://its1.example.com", CA: []byte("ca")})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, obj := range objs {
		got = append(got, obj.GetKind()+" "+obj.GetNamespace()+"/"+obj.GetName())
	}
	want := []string{"ConfigMap kube-public/cluster-info", "Role kube-public/starling:cluster-info", "RoleBinding kube-public/starling:cluster-info"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	text, _, _ := unstructured.NestedString(objs[0].Object, "data", "kubeconfig")
	kubeconfig, err := clientcmd.Load([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	wantCluster := &clientcmdapi.Cluster{Server: "https://its1.example.com", CertificateAuthorityData: []byte("ca"), Extensions: kubeconfig.Clusters[""].Extensions}
	if diff := cmp.Diff(map[string]*clientcmdapi.Cluster{"": wantCluster}, kubeconfig.Clusters); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDefinitions(t *testing.T) {
	got, err := definitions("---\nkind: CustomResourceDefinition\nmetadata: {name: a}\n---\nkind: Role\nmetadata: {name: b}\n---\n")
	if err != nil || len(got) != 1 || got[0].GetName() != "a" {
		t.Errorf("definitions() = %v, %v", got, err)
	}
	if _, err := definitions("a: b: c"); err == nil {
		t.Error("definitions() read what is not YAML")
	}
}

func TestAvailability(t *testing.T) {
	for name, tc := range map[string]struct {
		conditions []any
		available  bool
		reason     string
	}{
		"not reported":  {reason: "the API server has not reported on it"},
		"available":     {conditions: []any{map[string]any{"type": "Available", "status": "True", "message": "all checks passed"}}, available: true, reason: "all checks passed"},
		"not available": {conditions: []any{map[string]any{"type": "Available", "status": "False", "message": "no response"}}, reason: "no response"},
	} {
		api := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": tc.conditions}}}
		if available, reason := availability(api); available != tc.available || reason != tc.reason {
			t.Errorf("%s: availability() = %t, %q", name, available, reason)
		}
	}
}
