package charts_test

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/starlinghq/starling/test/golden"
)

func TestSpace(t *testing.T) {
	for name, values := range matrix(t, "space") {
		t.Run(name, func(t *testing.T) {
			lintChart(t, "space", namespace, values)
			text, err := render(t, "space", values)
			if err != nil {
				t.Fatal(err)
			}
			restricted(t, decode(t, text))
			golden.Compare(t, "space-"+name, text)
		})
	}
}

// TestSpaceRefuses: wrong values are errors that name the value, before anything is installed.
func TestSpaceRefuses(t *testing.T) {
	for name, c := range map[string]struct{ values, want string }{
		"name":         {"name: Wds_1", "Wds_1"},
		"long name":    {"name: a123456789b123456789c123456789d12345", "35"},
		"kind":         {"kind: hub", "kind"},
		"etcd":         {"etcd: {replicas: 2}", "/etcd/replicas"},
		"unknown":      {"apiserver: {replicas: 2}", "apiserver"},
		"nested":       {"apiServer: {replica: 2}", "replica"},
		"no secret":    {"etcd: {endpoints: ['https://etcd:2379']}", "etcd.secret"},
		"no host":      {"apiServer: {ingress: {enabled: true}}", "apiServer.ingress.host"},
		"url":          {"apiServer: {url: its1.example.com}", "/apiServer/url"},
		"service type": {"apiServer: {service: {type: ExternalName}}", "/apiServer/service/type"},
		"schedule":     {"backup: {schedule: daily}", "/backup/schedule"},
		"keep":         {"backup: {keep: 0}", "/backup/keep"},
		"no ID":        {"restore: {from: latest}", "restore.id"},
		"latest":       {"{restore: {id: r1, from: latest}, etcd: {replicas: 3}}", "restore.from"},
		"ID":           {"restore: {id: Restore_1}", "/restore/id"},
		"not our etcd": {"{restore: {id: r1}, etcd: {endpoints: ['https://etcd:2379'], secret: etcd}}", "etcd.endpoints"},
		"no name":      {"apiServer: {certificate: {secret: mine}}", "apiServer.certificate is for the names in apiServer.url and apiServer.ingress.host"},
		"address":      {"apiServer: {url: 'https://192.0.2.1:6443', certificate: {secret: mine}}", "apiServer.certificate needs DNS names"},
		"address 6":    {"apiServer: {url: 'https://[2001:db8::1]', certificate: {secret: mine}}", "apiServer.certificate needs DNS names"},
		"timeout":      {"install: {timeout: ten}", "/install/timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := render(t, "space", c.values)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

// restricted fails the test unless all pods fulfil the restricted Pod Security Standard, with a
// root file system that they cannot write.
func restricted(t *testing.T, objs []runtime.Object) {
	t.Helper()
	for _, obj := range objs {
		pod := podOf(obj)
		if pod == nil {
			continue
		}
		s := pod.SecurityContext
		if s == nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot || s.SeccompProfile == nil || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
			t.Errorf("%s: the pod may run as root or without seccomp", nameOf(obj))
		}
		for _, c := range append(pod.InitContainers, pod.Containers...) {
			s := c.SecurityContext
			if s == nil || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation ||
				s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem ||
				s.Capabilities == nil || len(s.Capabilities.Drop) != 1 || s.Capabilities.Drop[0] != "ALL" {
				t.Errorf("%s: container %s is not restricted", nameOf(obj), c.Name)
			}
			if len(c.Resources.Requests) == 0 || c.Resources.Limits.Memory().IsZero() {
				t.Errorf("%s: container %s has no requests or no limit of memory", nameOf(obj), c.Name)
			}
		}
	}
}

// podOf returns the pod that an object creates, or nil.
func podOf(obj runtime.Object) *corev1.PodSpec {
	switch o := obj.(type) {
	case *appsv1.Deployment:
		return &o.Spec.Template.Spec
	case *appsv1.StatefulSet:
		return &o.Spec.Template.Spec
	case *batchv1.Job:
		return &o.Spec.Template.Spec
	case *batchv1.CronJob:
		return &o.Spec.JobTemplate.Spec.Template.Spec
	}
	return nil
}

func nameOf(obj runtime.Object) string {
	return obj.GetObjectKind().GroupVersionKind().Kind + " " + obj.(interface{ GetName() string }).GetName()
}
