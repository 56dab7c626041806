package testenv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// Patience is far more than anything takes that a test waits for, on any machine.
const Patience = 2 * time.Minute

var names atomic.Int64

// Name returns a name for the objects of a test: the name of the test and a number, so that a test
// that runs again uses another name.
func Name(t testing.TB) string {
	t.Helper()
	return fmt.Sprintf("%s-%d", strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-")), names.Add(1))
}

// Space is a space as its administrator sees it. Its methods fail the test on errors.
// It may be shared by tests that run at the same time.
type Space struct {
	Name   string
	Config *rest.Config
	Client dynamic.Interface
	mapper *restmapper.DeferredDiscoveryRESTMapper
}

// Space returns the space of that name.
func (f *Fleet) Space(t testing.TB, name string) *Space {
	t.Helper()
	return Connect(t, name, f.Config(t, name))
}

// Connect returns the space that a configuration connects to. Any cluster will do.
func Connect(t testing.TB, name string, config *rest.Config) *Space {
	t.Helper()
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	discoveryClient, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return &Space{Name: name, Config: config, Client: client, mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discoveryClient))}
}

// APIs returns the files with our CustomResourceDefinitions whose names begin so: with a group, or
// with a group and a resource.
func APIs(t testing.TB, prefixes ...string) []string {
	t.Helper()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, prefix := range prefixes {
		found, err := filepath.Glob(filepath.Join(root, "config", "crd", prefix+"*.yaml"))
		if err != nil || len(found) == 0 {
			t.Fatalf("no CustomResourceDefinitions %s: %v", prefix, err)
		}
		files = append(files, found...)
	}
	return files
}

// InstallRights gives Starling's programs the rights that they have in production, in a space of
// that kind: "wds" or "its".
func (s *Space) InstallRights(t testing.TB, kind string) {
	t.Helper()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(root, "config", "rbac", kind, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no rights for spaces of kind %s: %v", kind, err)
	}
	s.Apply(t, "{apiVersion: v1, kind: Namespace, metadata: {name: starling-system}}")
	s.Install(t, files...)
}

// Install applies the objects in files. It returns when the APIs that they define are served.
func (s *Space) Install(t testing.TB, files ...string) {
	t.Helper()
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		s.Apply(t, string(text))
	}
}

// Apply applies the objects of a text in YAML. It returns them as the server has them, when the
// APIs that they define are served.
func (s *Space) Apply(t testing.TB, text string) []*unstructured.Unstructured {
	t.Helper()
	var applied []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		obj := &unstructured.Unstructured{}
		switch err := decoder.Decode(obj); {
		case errors.Is(err, io.EOF):
			return applied
		case err != nil:
			t.Fatal(err)
		case len(obj.Object) > 0:
			applied = append(applied, s.ApplyObject(t, obj))
		}
	}
}

// ApplyObject applies one object, as Apply does.
func (s *Space) ApplyObject(t testing.TB, obj *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	var applied *unstructured.Unstructured
	Eventually(t, Patience, func() (bool, string) {
		objects, err := s.objects(obj.GroupVersionKind(), obj.GetNamespace())
		if err != nil {
			return false, err.Error()
		}
		applied, err = objects.Apply(t.Context(), obj.GetName(), obj, metav1.ApplyOptions{FieldManager: "test", Force: true})
		if err != nil {
			return false, err.Error()
		}
		return true, ""
	})
	if obj.GetKind() == "CustomResourceDefinition" {
		s.established(t, obj)
	}
	return applied
}

// established waits until all versions that a CustomResourceDefinition defines are served.
func (s *Space) established(t testing.TB, crd *unstructured.Unstructured) {
	t.Helper()
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "plural")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, v := range versions {
		version, _ := v.(map[string]any)
		if served, _ := version["served"].(bool); served {
			s.Served(t, schema.GroupVersionResource{Group: group, Version: fmt.Sprint(version["name"]), Resource: plural})
		}
	}
}

// Served waits until discovery lists the resources and they can be read.
func (s *Space) Served(t testing.TB, resources ...schema.GroupVersionResource) {
	t.Helper()
	for _, resource := range resources {
		Eventually(t, Patience, func() (bool, string) {
			if _, err := s.mapper.KindFor(resource); err != nil {
				s.mapper.Reset()
				return false, err.Error()
			}
			_, err := s.Client.Resource(resource).List(t.Context(), metav1.ListOptions{Limit: 1})
			return err == nil, fmt.Sprint(err)
		})
	}
}

// objects returns a client for the objects of a kind.
func (s *Space) objects(gvk schema.GroupVersionKind, namespace string) (dynamic.ResourceInterface, error) {
	mapping, err := s.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		s.mapper.Reset() // the kind may have come just now
		return nil, err
	}
	if mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		namespace = ""
	}
	return s.Client.Resource(mapping.Resource).Namespace(namespace), nil
}

// Create creates an object, of the kind that its resource has, and removes it at the end of the
// test.
func (s *Space) Create(t testing.TB, resource schema.GroupVersionResource, namespace, name string, fields map[string]any) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{Object: maps.Clone(fields)}
	if fields == nil {
		obj.Object = map[string]any{}
	}
	obj.SetNamespace(namespace)
	if name != "" {
		obj.SetName(name)
	}
	var created *unstructured.Unstructured
	Eventually(t, Patience, func() (bool, string) { // an API or a Namespace that was just created may not accept writes yet
		kind, err := s.mapper.KindFor(resource)
		if err != nil {
			s.mapper.Reset()
			return false, err.Error()
		}
		obj.SetGroupVersionKind(kind)
		created, err = s.Client.Resource(resource).Namespace(namespace).Create(t.Context(), obj, metav1.CreateOptions{})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
			t.Fatal(err)
		}
		return err == nil, fmt.Sprint(err)
	})
	if resource.Resource != "namespaces" { // they need the controllers of their content, and take their time
		t.Cleanup(func() { s.Remove(t, resource, namespace, created.GetName()) })
	}
	return created
}

// Remove deletes an object if it exists, whatever finalizers it has. It may be called when the test
// has ended.
func (s *Space) Remove(t testing.TB, resource schema.GroupVersionResource, namespace, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), Patience)
	defer cancel()
	objects := s.Client.Resource(resource).Namespace(namespace)
	_, _ = objects.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	if err := objects.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Errorf("clean up: %v", err)
	}
}

// Get returns nil if the object does not exist.
func (s *Space) Get(t testing.TB, resource schema.GroupVersionResource, namespace, name string) *unstructured.Unstructured {
	t.Helper()
	obj, err := s.Client.Resource(resource).Namespace(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return obj
}

// Patch makes a merge patch, in JSON.
func (s *Space) Patch(t testing.TB, resource schema.GroupVersionResource, namespace, name, patch string, subresources ...string) *unstructured.Unstructured {
	t.Helper()
	obj, err := s.Client.Resource(resource).Namespace(namespace).Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...)
	if err != nil {
		t.Fatal(err)
	}
	return obj
}

// Delete deletes an object that exists. It does not wait until it is gone.
func (s *Space) Delete(t testing.TB, resource schema.GroupVersionResource, namespace, name string) {
	t.Helper()
	if err := s.Client.Resource(resource).Namespace(namespace).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// As returns a configuration with the rights of another user.
func (s *Space) As(user string, groups ...string) *rest.Config {
	config := rest.CopyConfig(s.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
	return config
}

// AsServiceAccount returns a configuration with the rights of a ServiceAccount: those that a
// controller has in production.
func (s *Space) AsServiceAccount(namespace, name string) *rest.Config {
	return s.As("system:serviceaccount:"+namespace+":"+name, "system:serviceaccounts", "system:serviceaccounts:"+namespace)
}
