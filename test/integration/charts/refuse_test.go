package charts_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/starlinghq/starling/test/testenv"
)

// refused fails the test unless Helm has returned an error with this text.
func refused(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want an error with %q", err, want)
	}
}

// nothing fails the test if a release has created anything in its namespace.
func nothing(t *testing.T, space *testenv.Space, h *helm) {
	t.Helper()
	list, err := space.Client.Resource(deployments).Namespace(h.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) > 0 {
		t.Errorf("there are %d Deployments: %v", len(list.Items), err)
	}
	list, err = space.Client.Resource(secrets).Namespace(h.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) > 0 {
		t.Errorf("there are %d Secrets: %v", len(list.Items), err)
	}
}

// TestStorage: a space is not installed without a volume for its etcd, and an upgrade does not
// change what etcd cannot follow. After the repair, the same command works.
func TestStorage(t *testing.T) {
	space := hosting(t)
	h := inNamespace(t, space, testenv.Name(t))

	space.Delete(t, storageClasses, "", "standard")
	_, err := h.install(t, "space", "wds1", "", "none")
	refused(t, err, `space "wds1": this cluster has no default StorageClass`)
	nothing(t, space, h)
	if _, err := h.install(t, "space", "wds1", "etcd: {storage: {className: fast}}", "server"); err != nil {
		t.Errorf("with a StorageClass: %v", err)
	}
	if _, err := h.install(t, "space", "wds1", `etcd: {endpoints: ["https://etcd:2379"], secret: etcd}`, "server"); err != nil {
		t.Errorf("with an etcd that exists: %v", err)
	}
	space.Apply(t, storageClass)
	if _, err := h.install(t, "space", "wds1", "", "none"); err != nil {
		t.Fatal(err)
	}

	before := space.Get(t, statefulSets, h.namespace, "wds1-etcd").GetResourceVersion()
	for values, want := range map[string]string{
		"etcd: {replicas: 3}":                                    `space "wds1": etcd.replicas cannot be changed later: it is 1`,
		"etcd: {storage: {size: 16Gi}}":                          `space "wds1": etcd.storage.size cannot be changed later: it is 8Gi`,
		"etcd: {storage: {className: fast}}":                     `space "wds1": etcd.storage.className cannot be changed later: it is ""`,
		`etcd: {endpoints: ["https://etcd:2379"], secret: etcd}`: `space "wds1": etcd.endpoints cannot be set later`,
	} {
		_, err := h.upgrade(t, "space", "wds1", values)
		refused(t, err, want)
	}
	if after := space.Get(t, statefulSets, h.namespace, "wds1-etcd").GetResourceVersion(); after != before {
		t.Error("the StatefulSet has changed")
	}
	// 8192Mi is 8Gi.
	if _, err := h.upgrade(t, "space", "wds1", "etcd: {storage: {size: 8192Mi}}"); err != nil {
		t.Errorf("the same size: %v", err)
	}

	other := inNamespace(t, space, testenv.Name(t))
	if _, err := other.install(t, "space", "wds1", `etcd: {endpoints: ["https://etcd:2379"], secret: etcd}`, "none"); err != nil {
		t.Fatal(err)
	}
	_, err = other.upgrade(t, "space", "wds1", "")
	refused(t, err, `space "wds1": etcd.endpoints cannot be removed later`)
}

// TestTwice: a second release of the same spaces is refused as a whole, and the first one stays.
func TestTwice(t *testing.T) {
	space := hosting(t)
	const values = "ITSes: [{name: its1, type: hosted}]"
	h := inNamespace(t, space, testenv.Name(t))
	if _, err := h.install(t, "starling", "fleet", values, "none"); err != nil {
		t.Fatal(err)
	}
	_, err := h.install(t, "starling", "fleet", values, "none")
	refused(t, err, "cannot re-use a name that is still in use")
	before := space.Get(t, deployments, h.namespace, "its1-apiserver").GetResourceVersion()
	_, err = h.install(t, "starling", "second", values, "none")
	refused(t, err, "exists and cannot be imported into the current release")
	if after := space.Get(t, deployments, h.namespace, "its1-apiserver").GetResourceVersion(); after != before {
		t.Error("the Deployment has changed")
	}
	if _, err := h.upgrade(t, "starling", "fleet", values); err != nil {
		t.Errorf("an upgrade of the first release: %v", err)
	}
}

// TestHost: the Namespace of the identities in a hosting cluster that is a space is created, if it
// does not exist, and stays.
func TestHost(t *testing.T) {
	space := hosting(t)
	if space.Get(t, namespaces, "", system) != nil { // another test needed it
		space.Delete(t, namespaces, "", system)
		testenv.Eventually(t, testenv.Patience, func() (bool, string) {
			return space.Get(t, namespaces, "", system) == nil, "the Namespace of an earlier test still exists"
		})
	}
	const values = "ITSes: [{name: its1, type: host}]"
	h := inNamespace(t, space, testenv.Name(t))
	if _, err := h.install(t, "starling", "fleet", values, "none"); err != nil {
		t.Fatal(err)
	}
	if _, err := h.upgrade(t, "starling", "fleet", values); err != nil {
		t.Error(err)
	}
	if _, err := h.uninstall("fleet"); err != nil {
		t.Error(err)
	}
	if got := space.Get(t, namespaces, "", system); got == nil || got.GetDeletionTimestamp() != nil {
		t.Error("the Namespace does not stay")
	}
	// It exists now, and is that of an earlier release.
	if _, err := h.install(t, "starling", "second", values, "none"); err != nil {
		t.Error(err)
	}
	if _, err := inNamespace(t, space, testenv.Name(t)).install(t, "starling", "fleet", values, "none"); err != nil {
		t.Errorf("in another namespace: %v", err)
	}
}
