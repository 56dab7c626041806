package ocm

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

// TestAgentIsConfined: the pod of OCM's agent fulfils the restricted Pod Security Standard, and
// cannot write its root file system. The kubeconfig of the bootstrap identity is in a Secret only.
func TestAgentIsConfined(t *testing.T) {
	deployments := 0
	for _, obj := range (Agent{Cluster: "prod", ID: "starling", Image: "image", Bootstrap: []byte("kubeconfig")}).Objects() {
		if obj.GetKind() != "Deployment" {
			if obj.GetKind() != "Secret" {
				t.Errorf("%s %s is neither the Deployment nor its Secret", obj.GetKind(), obj.GetName())
			}
			continue
		}
		deployments++
		var d appsv1.Deployment
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(obj.Object, &d, true); err != nil {
			t.Fatal(err)
		}
		pod := d.Spec.Template.Spec
		s := pod.SecurityContext
		if s == nil || !ptr.Deref(s.RunAsNonRoot, false) || s.SeccompProfile == nil || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
			t.Errorf("the pod may run as root or without seccomp: %v", s)
		}
		for _, c := range pod.Containers {
			s := c.SecurityContext
			if s == nil || ptr.Deref(s.AllowPrivilegeEscalation, true) || !ptr.Deref(s.ReadOnlyRootFilesystem, false) ||
				s.Capabilities == nil || len(s.Capabilities.Drop) != 1 || s.Capabilities.Drop[0] != "ALL" {
				t.Errorf("container %s is not restricted: %v", c.Name, s)
			}
		}
	}
	if deployments != 1 {
		t.Errorf("there are %d Deployments", deployments)
	}
}
