package backup_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/starlinghq/starling/pkg/hostedspace/backup"
)

var marks = backup.Marks{Space: "s", ID: "r1", Time: time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)}

const (
	bindingKey = "/s/control.kubestellar.io/bindings/shop"
	workKey    = "/s/work.open-cluster-management.io/manifestworks/cluster1/w"
)

func TestMark(t *testing.T) {
	const complete = `{"lastTransitionTime":"2026-01-05T09:00:00Z","message":"restored from a backup: the cluster leaves what it has as it is",` +
		`"observedGeneration":3,"reason":"RestoredFromBackup","status":"True","type":"Complete"}`
	work := func(meta, conditions string) string {
		return `{"apiVersion":"work.open-cluster-management.io/v1","kind":"ManifestWork","metadata":{` + meta + `"generation":3,"name":"w"},` +
			`"spec":{"workload":{"manifests":[{"apiVersion":"v1","data":{"n":"1.50"},"kind":"ConfigMap"}]}},"status":{"conditions":[` + conditions + `],"resourceStatus":{}}}`
	}
	const applied = `{"lastTransitionTime":"2026-01-01T00:00:00Z","message":"","reason":"AppliedManifestWorkComplete","status":"True","type":"Applied"}`
	for name, c := range map[string]struct {
		key, value, want string
		counts           backup.Counts
	}{
		"a Binding": {
			bindingKey, `{"apiVersion":"control.kubestellar.io/v1alpha1","kind":"Binding","metadata":{"annotations":{"a":"b","starling.io/hold":"x//y"},"name":"shop"}}`,
			`{"apiVersion":"control.kubestellar.io/v1alpha1","kind":"Binding","metadata":{"annotations":{"a":"b","starling.io/hold":"*"},"name":"shop"}}`,
			backup.Counts{Bindings: 1},
		},
		"a work":                     {workKey, work("", applied), work(`"annotations":{"starling.io/restored":"r1"},`, applied+","+complete), backup.Counts{Works: 1}},
		"a work of an add-on":        {workKey, work(`"labels":{"open-cluster-management.io/addon-name":"x"},`, ""), work(`"labels":{"open-cluster-management.io/addon-name":"x"},`, ""), backup.Counts{}},
		"a work being deleted":       {workKey, work(`"deletionTimestamp":"2026-01-01T00:00:00Z",`, ""), "", backup.Counts{Deleted: 1}},
		"another kind":               {"/s/configmaps/default/a", "anything", "anything", backup.Counts{}},
		"another space":              {"/t/control.kubestellar.io/bindings/shop", "{}", "{}", backup.Counts{}},
		"a space with a like name":   {"/s2/work.open-cluster-management.io/manifestworks/c/w", "{}", "{}", backup.Counts{}},
		"another Namespace's status": {"/s/namespaces/kube-system-2", "anything", "anything", backup.Counts{}},
	} {
		t.Run(name, func(t *testing.T) {
			var counts backup.Counts
			got, err := marks.Mark(c.key, []byte(c.value), &counts)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, strings.TrimSpace(string(got))); diff != "" || (got == nil) != (c.want == "") {
				t.Errorf("value (-want +got):\n%s", diff)
			}
			if counts != c.counts {
				t.Errorf("counts are %+v, want %+v", counts, c.counts)
			}
		})
	}
}

// TestMarkNamespace: the Namespace keeps everything, and is encoded as an API server does it.
func TestMarkNamespace(t *testing.T) {
	stored := &corev1.Namespace{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "u", Annotations: map[string]string{"a": "b"}},
		Status:     corev1.NamespaceStatus{Phase: corev1.NamespaceActive},
	}
	var value bytes.Buffer
	if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(stored, &value); err != nil {
		t.Fatal(err)
	}
	marked, err := marks.Mark(backup.SystemKey("s"), value.Bytes(), &backup.Counts{})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(marked, []byte("k8s\x00")) {
		t.Errorf("it is not protobuf: %q", marked)
	}
	got, err := backup.Namespace(marked)
	if err != nil {
		t.Fatal(err)
	}
	want := stored.DeepCopy()
	want.Annotations["starling.io/restored"] = "r1"
	got.TypeMeta = want.TypeMeta
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Namespace (-want +got):\n%s", diff)
	}
}

// TestMarkRefuses: what cannot be marked is an error, because clusters would not be protected.
func TestMarkRefuses(t *testing.T) {
	for key, value := range map[string]string{
		bindingKey:            "k8s:enc:aescbc:v1:key1:...",
		workKey:               "k8s:enc:aescbc:v1:key1:...",
		backup.SystemKey("s"): "k8s:enc:aescbc:v1:key1:...",
	} {
		if got, err := marks.Mark(key, []byte(value), &backup.Counts{}); err == nil {
			t.Errorf("%s becomes %q", key, got)
		}
	}
}
