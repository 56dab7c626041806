package backup

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"
	workv1 "open-cluster-management.io/api/work/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
)

// ReasonRestored is the reason of the condition Complete of a work that was restored.
const ReasonRestored = "RestoredFromBackup"

// Marks are the marks that a space gets when it is restored, before its API server starts. What was
// written after the backup is unknown to the space, and clusters have it: nothing may leave or
// change there before somebody has seen the difference.
type Marks struct {
	// Space is the name of the space, which the keys in etcd begin with.
	Space string
	// ID is that of the restoration.
	ID string
	// Time is that of the backup. All members of etcd must write the same, so it is not the present
	// time.
	Time time.Time
}

// Counts says what was marked.
type Counts struct {
	// Bindings are held, Works are left alone by the clusters, and Deleted are works that were
	// being deleted.
	Bindings, Works, Deleted int
}

// prefixes of keys after the name of the space.
const (
	systemKey    = "namespaces/" + metav1.NamespaceSystem
	bindingsKeys = "control.kubestellar.io/bindings/"
	worksKeys    = "work.open-cluster-management.io/manifestworks/"
)

// SystemKey returns the key of the Namespace kube-system.
func SystemKey(space string) string { return "/" + space + "/" + systemKey }

// Prefixes returns the prefixes of all keys that Mark may change.
func (m *Marks) Prefixes() []string {
	return []string{SystemKey(m.Space), "/" + m.Space + "/" + bindingsKeys, "/" + m.Space + "/" + worksKeys}
}

// Mark returns what becomes of the value of a key: nothing (nil) if it is to be deleted. It counts
// what it does.
//
//   - Namespace kube-system gets AnnotationRestored. Programs that are connected to the space see
//     that, and end.
//   - Each Binding holds everything.
//   - Each ManifestWork is complete, so that OCM's agent does nothing with it. OCM's add-ons write
//     theirs again anyway. One that was being deleted is deleted: its name may have been used again
//     since, and the cluster would delete what has come under that name.
func (m *Marks) Mark(key string, value []byte, counts *Counts) ([]byte, error) {
	rest, ours := strings.CutPrefix(key, "/"+m.Space+"/")
	var err error
	switch {
	case !ours:
		return value, nil
	case rest == systemKey:
		value, err = m.markNamespace(value)
	case strings.HasPrefix(rest, bindingsKeys):
		counts.Bindings++
		value, err = m.markBinding(value)
	case strings.HasPrefix(rest, worksKeys):
		value, err = m.markWork(value, counts)
	}
	if err != nil {
		return nil, fmt.Errorf("mark %q: %w", key, err)
	}
	return value, nil
}

// Namespace decodes a Namespace as an API server stores it.
func Namespace(value []byte) (*corev1.Namespace, error) {
	obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(value, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("read Namespace: %w", err)
	}
	namespace, ok := obj.(*corev1.Namespace)
	if !ok {
		return nil, fmt.Errorf("read Namespace: it is a %T", obj)
	}
	return namespace, nil
}

func (m *Marks) markNamespace(value []byte) ([]byte, error) {
	namespace, err := Namespace(value)
	if err != nil {
		return nil, err
	}
	if namespace.Annotations == nil {
		namespace.Annotations = map[string]string{}
	}
	namespace.Annotations[controlv1alpha1.AnnotationRestored] = m.ID
	namespace.APIVersion, namespace.Kind = "v1", "Namespace"
	var out bytes.Buffer
	if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(namespace, &out); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func (m *Marks) markBinding(value []byte) ([]byte, error) {
	binding, err := custom(value)
	if err != nil {
		return nil, err
	}
	annotate(binding, controlv1alpha1.AnnotationHold, "*")
	return json.Marshal(binding.Object)
}

func (m *Marks) markWork(value []byte, counts *Counts) ([]byte, error) {
	work, err := custom(value)
	if err != nil {
		return nil, err
	}
	if _, addon := work.GetLabels()[addonv1alpha1.AddonLabelKey]; addon {
		return value, nil
	}
	if work.GetDeletionTimestamp() != nil {
		counts.Deleted++
		return nil, nil
	}
	counts.Works++
	annotate(work, controlv1alpha1.AnnotationRestored, m.ID)
	status := workv1.ManifestWorkStatus{}
	content, _, err := unstructured.NestedMap(work.Object, "status")
	if err != nil {
		return nil, err
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, &status); err != nil {
		return nil, fmt.Errorf("read status: %w", err)
	}
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{
		Type: workv1.WorkComplete, Status: metav1.ConditionTrue, Reason: ReasonRestored,
		ObservedGeneration: work.GetGeneration(), LastTransitionTime: metav1.NewTime(m.Time),
		Message: "restored from a backup: the cluster leaves what it has as it is",
	})
	if content, err = runtime.DefaultUnstructuredConverter.ToUnstructured(&status); err != nil {
		return nil, err
	}
	work.Object["status"] = content
	return json.Marshal(work.Object)
}

// custom decodes a custom resource as an API server stores it.
func custom(value []byte) (*unstructured.Unstructured, error) {
	if !bytes.HasPrefix(bytes.TrimSpace(value), []byte("{")) {
		return nil, errors.New("it is not JSON, perhaps because it is encrypted. The marks that protect clusters cannot be written")
	}
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON(value); err != nil {
		return nil, err
	}
	return obj, nil
}

func annotate(obj metav1.Object, key, value string) {
	annotations := obj.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	obj.SetAnnotations(annotations)
}
