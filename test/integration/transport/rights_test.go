package transport

import (
	"errors"
	"fmt"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/transport/ocm"
	"github.com/starlinghq/starling/test/testenv"
)

// TestOwnWorks: the transport-controller writes works of a WDS only, not those of add-ons or users;
// and an administrator can restrict it to a single WDS.
func TestOwnWorks(t *testing.T) {
	e := newEnvironment(t)
	its := e.fleet.Space(t, "its1")
	its.InstallRights(t, "its")
	mailbox := e.clusters(1)[0]
	work := func(name, wds string) *unstructured.Unstructured {
		w := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
		w.SetAPIVersion("work.open-cluster-management.io/v1")
		w.SetKind("ManifestWork")
		w.SetName(name)
		if wds != "" {
			w.SetLabels(map[string]string{controlv1alpha1.LabelWDSUID: wds})
		}
		return w
	}
	admin := e.its.Resource(ocm.ManifestWorks).Namespace(mailbox)
	for _, w := range []*unstructured.Unstructured{work("ours", "a"), work("another", "b"), work("stranger", "")} {
		if _, err := admin.Create(t.Context(), w, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}

	as := func(account string) dynamic.ResourceInterface {
		c, err := dynamic.NewForConfig(its.AsServiceAccount("starling-system", account))
		if err != nil {
			t.Fatal(err)
		}
		return c.Resource(ocm.ManifestWorks).Namespace(mailbox)
	}
	const all, one = "transport-controller", "transport-controller-a"
	e.restrict(one, "a")
	patch := func(account, name, labels string) error {
		body := fmt.Sprintf(`{"metadata":{"labels":%s}}`, labels)
		_, err := as(account).Patch(t.Context(), name, types.MergePatchType, []byte(body), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	create := func(account, wds string) error {
		_, err := as(account).Create(t.Context(), work("new", wds), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	remove := func(account, name string) error {
		return as(account).Delete(t.Context(), name, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
	}
	// A policy and rights take effect some time after they were created.
	testenv.Eventually(t, patience, func() (bool, string) {
		return patch(all, "stranger", `{"a":"b"}`) != nil, "the policy is not in force"
	})
	testenv.Eventually(t, patience, func() (bool, string) {
		err := patch(one, "ours", `{"a":"b"}`)
		return err == nil, fmt.Sprint(err)
	})
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"AllCreates":           {create(all, "a"), true},
		"AllCreatesUnlabelled": {create(all, ""), false},
		"AllChangesOurs":       {patch(all, "ours", `{"a":"b"}`), true},
		"AllChangesAnother":    {patch(all, "another", `{"a":"b"}`), true},
		"AllChangesAStrangers": {patch(all, "stranger", `{"a":"b"}`), false},
		"AllTakesAStrangers":   {patch(all, "stranger", `{"starling.io/wds-uid":"a"}`), false},
		"AllMovesAWork":        {patch(all, "ours", `{"starling.io/wds-uid":"b"}`), false},
		"AllReleasesAWork":     {patch(all, "ours", `{"starling.io/wds-uid":null}`), false},
		"AllDeletesOurs":       {remove(all, "ours"), true},
		"AllDeletesAStrangers": {remove(all, "stranger"), false},
		"OneCreates":           {create(one, "a"), true},
		"OneCreatesAnothers":   {create(one, "b"), false},
		"OneChangesOurs":       {patch(one, "ours", `{"a":"b"}`), true},
		"OneChangesAnothers":   {patch(one, "another", `{"a":"b"}`), false},
		"OneTakesAnothers":     {patch(one, "another", `{"starling.io/wds-uid":"a"}`), false},
		"OneDeletesOurs":       {remove(one, "ours"), true},
		"OneDeletesAnothers":   {remove(one, "another"), false},
		"OneDeletesAStrangers": {remove(one, "stranger"), false},
	} {
		if tc.want != (tc.err == nil) || tc.err != nil && !apierrors.IsForbidden(tc.err) && !apierrors.IsInvalid(tc.err) {
			t.Errorf("%s: allowed %t, want %t: %v", name, tc.err == nil, tc.want, tc.err)
		}
	}
}

// TestNoConnections: the controllers that may read all objects of a WDS cannot reach what runs
// there through subresources.
func TestNoConnections(t *testing.T) {
	e := newEnvironment(t)
	wds := e.fleet.Space(t, "wds1")
	wds.InstallRights(t, "wds")
	kube := kubernetes.NewForConfigOrDie(wds.Config)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: e.name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}},
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: e.name}}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: e.name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: e.name}}
	_, err := kube.CoreV1().ServiceAccounts(e.name).Create(t.Context(), account, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	_, podErr := kube.CoreV1().Pods(e.name).Create(t.Context(), pod, metav1.CreateOptions{})
	_, serviceErr := kube.CoreV1().Services(e.name).Create(t.Context(), service, metav1.CreateOptions{})
	_, nodeErr := kube.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
	if err := errors.Join(podErr, serviceErr, nodeErr); err != nil {
		t.Fatal(err)
	}
	// By RBAC, or by the policy.
	refused := func(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) }
	for _, account := range []string{"binding-controller", "transport-controller"} {
		controller := kubernetes.NewForConfigOrDie(wds.AsServiceAccount("starling-system", account)).CoreV1().RESTClient()
		for _, path := range []string{
			"/api/v1/namespaces/" + e.name + "/pods/web/exec?command=ls&stdout=true",
			"/api/v1/namespaces/" + e.name + "/pods/web/proxy/",
			"/api/v1/namespaces/" + e.name + "/pods/web/portforward?ports=80",
			"/api/v1/namespaces/" + e.name + "/services/web/proxy/",
			"/api/v1/nodes/" + e.name + "/proxy/pods",
		} {
			// The policy takes effect some time after it was created.
			testenv.Eventually(t, patience, func() (bool, string) {
				err := controller.Get().RequestURI(path).Do(t.Context()).Error()
				return refused(err), fmt.Sprintf("%s: %s: %v", account, path, err)
			})
			if err := kube.CoreV1().RESTClient().Get().RequestURI(path).Do(t.Context()).Error(); refused(err) {
				t.Errorf("%s: refused to an administrator: %v", path, err)
			}
		}
		if _, err := controller.Get().Namespace(e.name).Resource("pods").Name("web").DoRaw(t.Context()); err != nil {
			t.Errorf("%s cannot read a Pod: %v", account, err)
		}
	}
}

// TestOwnLease: the transport-controller takes no other program's lead.
func TestOwnLease(t *testing.T) {
	e := newEnvironment(t)
	e.fleet.Space(t, "wds1").InstallRights(t, "wds")
	for _, account := range []string{"transport-controller", "package-server"} {
		for lease, want := range map[string]bool{account: true, "binding-controller": false, "": false} {
			testenv.Allowed(t, e.fleet.Config(t, "wds1"), want, "system:serviceaccount:starling-system:"+account,
				authorizationv1.ResourceAttributes{Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Namespace: "starling-system", Name: lease})
		}
	}
}

// restrict gives a ServiceAccount the rights of the transport-controller, for one WDS.
func (e *environment) restrict(account, wds string) {
	e.t.Helper()
	kube := kubernetes.NewForConfigOrDie(e.fleet.Config(e.t, "its1"))
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "starling-system", Name: account}}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: e.name}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{"starling.io"}, Resources: []string{"wdses"}, ResourceNames: []string{wds}, Verbs: []string{"deliver"},
	}}}
	if _, err := kube.RbacV1().ClusterRoles().Create(e.t.Context(), role, metav1.CreateOptions{}); err != nil {
		e.t.Fatal(err)
	}
	for binding, role := range map[string]string{e.name: e.name, e.name + "-works": "starling:transport-controller"} {
		b := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: binding}, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		}
		if _, err := kube.RbacV1().ClusterRoleBindings().Create(e.t.Context(), b, metav1.CreateOptions{}); err != nil {
			e.t.Fatal(err)
		}
	}
}
