// Package packages tests package-server in a real space: through the aggregator, as users do, and
// with further replicas that are killed between writes.
package packages

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/test/testenv"
)

func TestMain(m *testing.M) {
	testenv.Main(m, testenv.Options{Spaces: []string{"wds1"}, Packages: true})
}

const wds = "wds1"

// user is a client of the API of packages.
type user struct {
	rest  rest.Interface
	codec runtime.ParameterCodec
}

func newUser(t *testing.T, config *rest.Config) *user {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return newUserOver(t, config, client)
}

// newUserOver returns a user with an HTTP client.
func newUserOver(t *testing.T, config *rest.Config, httpClient *http.Client) *user {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := porchv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	config = rest.CopyConfig(config)
	config.GroupVersion = &porchv1alpha1.GroupVersion
	config.APIPath = "/apis"
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientForConfigAndClient(config, httpClient)
	if err != nil {
		t.Fatal(err)
	}
	return &user{client, runtime.NewParameterCodec(scheme)}
}

// impersonate returns the config for another user.
func impersonate(config *rest.Config, name string) *rest.Config {
	config = rest.CopyConfig(config)
	config.Impersonate = rest.ImpersonationConfig{UserName: name}
	return config
}

func (u *user) revisions(namespace string) *gentype.ClientWithList[*porchv1alpha1.PackageRevision, *porchv1alpha1.PackageRevisionList] {
	return gentype.NewClientWithList("packagerevisions", u.rest, u.codec, namespace,
		func() *porchv1alpha1.PackageRevision { return &porchv1alpha1.PackageRevision{} },
		func() *porchv1alpha1.PackageRevisionList { return &porchv1alpha1.PackageRevisionList{} })
}

func (u *user) resources(namespace string) *gentype.ClientWithList[*porchv1alpha1.PackageRevisionResources, *porchv1alpha1.PackageRevisionResourcesList] {
	return gentype.NewClientWithList("packagerevisionresources", u.rest, u.codec, namespace,
		func() *porchv1alpha1.PackageRevisionResources { return &porchv1alpha1.PackageRevisionResources{} },
		func() *porchv1alpha1.PackageRevisionResourcesList {
			return &porchv1alpha1.PackageRevisionResourcesList{}
		})
}

// create creates a revision without a name.
func (u *user) create(ctx context.Context, pr *porchv1alpha1.PackageRevision) (*porchv1alpha1.PackageRevision, error) {
	out := &porchv1alpha1.PackageRevision{}
	err := u.rest.Post().Namespace(pr.Namespace).Resource("packagerevisions").Body(pr).Do(ctx).Into(out)
	return out, err
}

// approve updates the subresource approval of a revision.
func (u *user) approve(ctx context.Context, pr *porchv1alpha1.PackageRevision) (*porchv1alpha1.PackageRevision, error) {
	out := &porchv1alpha1.PackageRevision{}
	err := u.rest.Put().Namespace(pr.Namespace).Resource("packagerevisions").Name(pr.Name).SubResource("approval").Body(pr).Do(ctx).Into(out)
	return out, err
}

// environment is a namespace with Repositories for a test, and its clients.
type environment struct {
	fleet     *testenv.Fleet
	config    *rest.Config
	namespace string
	admin     *user
	dynamic   dynamic.Interface
}

func newEnvironment(t *testing.T) *environment {
	t.Helper()
	fleet := testenv.Shared(t)
	e := &environment{fleet: fleet, config: fleet.Config(t, wds), namespace: strings.ToLower(t.Name())}
	e.admin = newUser(t, e.config)
	var err error
	if e.dynamic, err = dynamic.NewForConfig(e.config); err != nil {
		t.Fatal(err)
	}
	e.apply(t, "v1", "Namespace", "namespaces", "", e.namespace, nil)
	e.repository(t, "upstream", false)
	e.repository(t, "downstream", false)
	e.repository(t, "edge", true)
	return e
}

func (e *environment) repository(t *testing.T, name string, deployment bool) {
	t.Helper()
	e.apply(t, "config.porch.kpt.dev/v1alpha1", "Repository", "repositories", e.namespace, name,
		map[string]any{"spec": map[string]any{"deployment": deployment}})
}

func (e *environment) apply(t *testing.T, apiVersion, kind, resource, namespace, name string, fields map[string]any) {
	t.Helper()
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		t.Fatal(err)
	}
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind}}
	maps.Copy(obj.Object, fields)
	obj.SetName(name)
	obj.SetNamespace(namespace)
	if _, err := e.dynamic.Resource(gv.WithResource(resource)).Namespace(namespace).
		Apply(t.Context(), name, obj, metav1.ApplyOptions{FieldManager: "test", Force: true}); err != nil {
		t.Fatalf("apply %s %s: %v", kind, name, err)
	}
}

// allow gives a user a role in the namespace of the test.
func (e *environment) allow(t *testing.T, name, role string) {
	t.Helper()
	e.apply(t, "rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings", e.namespace, name, map[string]any{
		"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
		"subjects": []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}},
	})
}

// revision returns a new revision that is not created yet.
func (e *environment) revision(repository, packageName, workspace string) *porchv1alpha1.PackageRevision {
	return &porchv1alpha1.PackageRevision{
		TypeMeta:   metav1.TypeMeta{APIVersion: porchv1alpha1.GroupVersion.String(), Kind: "PackageRevision"},
		ObjectMeta: metav1.ObjectMeta{Namespace: e.namespace},
		Spec: porchv1alpha1.PackageRevisionSpec{
			RepositoryName: repository, PackageName: packageName, WorkspaceName: workspace,
		},
	}
}

func task(kind porchv1alpha1.TaskType, refs ...string) porchv1alpha1.Task {
	switch kind {
	case porchv1alpha1.TaskTypeClone:
		return porchv1alpha1.Task{Type: kind, Clone: &porchv1alpha1.PackageCloneTaskSpec{
			Upstream: porchv1alpha1.UpstreamPackage{UpstreamRef: &porchv1alpha1.PackageRevisionRef{Name: refs[0]}},
		}}
	case porchv1alpha1.TaskTypeEdit:
		return porchv1alpha1.Task{Type: kind, Edit: &porchv1alpha1.PackageEditTaskSpec{Source: &porchv1alpha1.PackageRevisionRef{Name: refs[0]}}}
	default:
		return porchv1alpha1.Task{Type: kind, Upgrade: &porchv1alpha1.PackageUpgradeTaskSpec{
			OldUpstream: porchv1alpha1.PackageRevisionRef{Name: refs[0]}, NewUpstream: porchv1alpha1.PackageRevisionRef{Name: refs[1]},
			LocalPackageRevisionRef: porchv1alpha1.PackageRevisionRef{Name: refs[2]},
		}}
	}
}

// must fails the test on an error.
func must[T any](t *testing.T) func(T, error) T {
	t.Helper()
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// make creates a revision as the admin.
func (e *environment) make(t *testing.T, pr *porchv1alpha1.PackageRevision, tasks ...porchv1alpha1.Task) *porchv1alpha1.PackageRevision {
	t.Helper()
	pr.Spec.Tasks = tasks
	return must[*porchv1alpha1.PackageRevision](t)(e.admin.create(t.Context(), pr))
}

// write replaces files of a draft, and returns the result.
func (e *environment) write(t *testing.T, name string, files map[string]string) *porchv1alpha1.PackageRevisionResources {
	t.Helper()
	client := e.admin.resources(e.namespace)
	prr := must[*porchv1alpha1.PackageRevisionResources](t)(client.Get(t.Context(), name, metav1.GetOptions{}))
	maps.Copy(prr.Spec.Resources, files)
	return must[*porchv1alpha1.PackageRevisionResources](t)(client.Update(t.Context(), prr, metav1.UpdateOptions{}))
}

// move changes the lifecycle of a revision step by step.
func (e *environment) move(t *testing.T, pr *porchv1alpha1.PackageRevision, to porchv1alpha1.PackageRevisionLifecycle) *porchv1alpha1.PackageRevision {
	t.Helper()
	pr = must[*porchv1alpha1.PackageRevision](t)(e.admin.revisions(e.namespace).Get(t.Context(), pr.Name, metav1.GetOptions{}))
	order := []porchv1alpha1.PackageRevisionLifecycle{
		porchv1alpha1.LifecycleDraft, porchv1alpha1.LifecycleProposed, porchv1alpha1.LifecyclePublished, porchv1alpha1.LifecycleDeletionProposed,
	}
	at, until := 0, 0
	for i, l := range order {
		if l == pr.Spec.Lifecycle {
			at = i
		}
		if l == to {
			until = i
		}
	}
	for at++; at <= until; at++ {
		pr.Spec.Lifecycle = order[at]
		var err error
		if order[at] == porchv1alpha1.LifecyclePublished {
			pr, err = e.admin.approve(t.Context(), pr)
		} else {
			pr, err = e.admin.revisions(e.namespace).Update(t.Context(), pr, metav1.UpdateOptions{})
		}
		if err != nil {
			t.Fatalf("to %s: %v", order[at], err)
		}
	}
	return pr
}

// replica is a package-server of the test, besides that of the fleet.
type replica struct {
	config *rest.Config
	cmd    *exec.Cmd
	log    *bytes.Buffer
	ended  chan struct{}
	once   sync.Once
}

// launch starts a replica with these flags. With a write, as testenv.Proxy names them, it is killed
// when the API server has carried out the first one of that kind.
func (e *environment) launch(t *testing.T, write string, flags ...string) *replica {
	t.Helper()
	binary, err := testenv.Binary()
	if err != nil {
		t.Fatal(err)
	}
	address := testenv.Address(t)
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(e.fleet.Dir, "spaces", wds)
	r := &replica{log: &bytes.Buffer{}, ended: make(chan struct{})}
	kubeconfig := filepath.Join(dir, "package-server.kubeconfig")
	var proxy *testenv.Proxy
	if write != "" {
		config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		proxy = testenv.NewProxy(t, config)
		kubeconfig = proxy.Kubeconfig(t)
	}
	r.cmd = exec.Command(filepath.Join(filepath.Dir(binary), "package-server"), append([]string{
		"--wds-kubeconfig=" + kubeconfig, "--bind-address=127.0.0.1", "--secure-port=" + port,
		"--tls-cert-file=" + filepath.Join(dir, "pki", "package-server.crt"), "--tls-private-key-file=" + filepath.Join(dir, "pki", "package-server.key"),
	}, flags...)...)
	r.cmd.Stdout, r.cmd.Stderr = r.log, r.log
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if before, ok := strings.CutPrefix(write, "before "); ok {
		proxy.CrashBefore(before, 1, r.kill)
	} else if proxy != nil {
		proxy.CrashAfter(write, 1, r.kill)
	}
	go func() {
		_ = r.cmd.Wait()
		close(r.ended)
	}()
	t.Cleanup(func() {
		r.kill()
		if strings.Contains(r.log.String(), "DATA RACE") { // if it was built with the race detector
			t.Errorf("a replica has a race:\n%s", r.log)
		}
	})
	r.config = &rest.Config{Host: "https://" + address, QPS: 1000, Burst: 2000, TLSClientConfig: rest.TLSClientConfig{
		CAFile: filepath.Join(dir, "pki", "ca.crt"), CertFile: filepath.Join(dir, "pki", "admin.crt"), KeyFile: filepath.Join(dir, "pki", "admin.key"),
	}}
	return r
}

// start launches a replica and waits until it is ready.
func (e *environment) start(t *testing.T, flags ...string) *replica {
	t.Helper()
	return e.startAndKill(t, "", flags...)
}

// startAndKill launches a replica that is killed at a write, and waits until it is ready.
func (e *environment) startAndKill(t *testing.T, write string, flags ...string) *replica {
	t.Helper()
	r := e.launch(t, write, flags...)
	tlsConfig, err := rest.TLSConfigFor(r.config)
	if err != nil {
		t.Fatal(err)
	}
	// A server that has just started does not request client certificates of all CAs yet, and a
	// connection keeps that. So each attempt has a new connection, and reads what only an
	// administrator may read.
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: tlsConfig, DisableKeepAlives: true}}
	testenv.Eventually(t, time.Minute, func() (bool, string) {
		select {
		case <-r.ended:
			t.Fatalf("the replica ended:\n%s", r.log)
		default:
		}
		resp, err := client.Get(r.config.Host + "/metrics")
		if err != nil {
			return false, err.Error()
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK, fmt.Sprint("replica answers ", resp.Status)
	})
	return r
}

// kill ends a replica without any cleanup.
func (r *replica) kill() {
	r.once.Do(func() {
		_ = r.cmd.Process.Kill()
		<-r.ended
	})
}

// wait waits for a replica to end by itself.
func (r *replica) wait(t *testing.T) {
	t.Helper()
	select {
	case <-r.ended:
	case <-time.After(testTimeout):
		t.Fatal("the replica does not end")
	}
}
