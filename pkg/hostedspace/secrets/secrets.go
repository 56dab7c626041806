package secrets

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
)

// SpaceLabel is a label of the Secrets of a space with its name. A Secret without it is somebody
// else's and is never changed.
const SpaceLabel = "starling.io/space"

// Ensure creates the Secrets of a space, or renews what expires soon in them. It writes
// nothing that is valid. It may run several times at once: all but one then get a conflict, and
// succeed when they run again.
func Ensure(ctx context.Context, hosting kubernetes.Interface, s Space, now time.Time) error {
	if err := s.Validate(); err != nil {
		return err
	}
	client := hosting.CoreV1().Secrets(s.Namespace)
	objects, old := map[string]*corev1.Secret{}, Secrets{}
	for _, suffix := range s.suffixes() {
		name := s.secret(suffix)
		got, err := client.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("get Secret %q: %w", name, err)
		}
		if got.Labels[SpaceLabel] != s.Name {
			return fmt.Errorf("write Secret %q: it is not one of space %q, because it has no label %s=%s; delete it or choose another name for the space",
				name, s.Name, SpaceLabel, s.Name)
		}
		objects[suffix], old[suffix] = got, got.Data
	}
	if s.URLSecret != "" {
		got, err := client.Get(ctx, s.URLSecret, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("get Secret %q: %w", s.URLSecret, err)
		}
		if err == nil {
			s.URLCertificate = got.Data
		}
	}
	want, err := s.Ensure(old, now)
	if err != nil {
		return err
	}
	// The authorities come first: what they sign is of no use if they are not stored.
	for _, suffix := range s.suffixes() {
		if equal(old[suffix], want[suffix]) {
			continue
		}
		obj := objects[suffix]
		if obj == nil {
			obj = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
				Name: s.secret(suffix), Namespace: s.Namespace, Labels: map[string]string{SpaceLabel: s.Name},
			}, Data: want[suffix]}
			_, err = client.Create(ctx, obj, metav1.CreateOptions{})
		} else {
			obj.Data = want[suffix]
			_, err = client.Update(ctx, obj, metav1.UpdateOptions{})
		}
		if err != nil {
			return fmt.Errorf("write Secret %q: %w", obj.Name, err)
		}
		klog.FromContext(ctx).Info("Wrote certificates", "secret", klog.KObj(obj))
	}
	if s.URLSecret != "" && s.URLCertificate == nil {
		return fmt.Errorf("write the kubeconfig for %s: Secret %q with its certificate does not exist yet: create it, or look at the Certificate of that name if cert-manager does. "+
			"All else is written", s.URL, s.URLSecret)
	}
	return nil
}
