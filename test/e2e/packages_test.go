package e2e

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/retry"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/binding"
	"github.com/starlinghq/starling/test/testenv"
)

var (
	packageRevisions = schema.GroupVersionResource{Group: "porch.kpt.dev", Version: "v1alpha1", Resource: "packagerevisions"}
	packageResources = schema.GroupVersionResource{Group: "porch.kpt.dev", Version: "v1alpha1", Resource: "packagerevisionresources"}
)

// draft makes a draft of the story's package in the Repository of a cluster: its first, or an edit
// of a published revision.
func (s *story) draft(cluster, workspace, from string, files map[string]string) (name string) {
	s.Helper()
	task := map[string]any{"type": "init", "init": map[string]any{}}
	if from != "" {
		task = map[string]any{"type": "edit", "edit": map[string]any{"sourceRef": map[string]any{"name": from}}}
	}
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "porch.kpt.dev/v1alpha1", "kind": "PackageRevision", "metadata": map[string]any{"namespace": "default"},
		"spec": map[string]any{"packageName": s.name, "repository": cluster, "workspaceName": workspace, "tasks": []any{task}},
	}}
	created, err := s.space("wds1", packageRevisions).Namespace("default").Create(s.Context(), o, metav1.CreateOptions{})
	if err != nil {
		s.Fatalf("create a draft of %s: %v", s.name, err)
	}
	name = created.GetName()
	s.edit(packageResources, name, func(content *unstructured.Unstructured) error {
		all, _, err := unstructured.NestedStringMap(content.Object, "spec", "resources")
		for path := range all {
			if path != "Kptfile" && path != "package-context.yaml" {
				delete(all, path)
			}
		}
		for path, text := range files {
			all[path] = strings.ReplaceAll(text, "$NAME", s.name)
		}
		return errors.Join(err, unstructured.SetNestedStringMap(content.Object, all, "spec", "resources"))
	})
	return name
}

// edit edits an object of package-server, again if somebody else wrote it meanwhile.
func (s *story) edit(gvr schema.GroupVersionResource, name string, change func(*unstructured.Unstructured) error, subresource ...string) {
	s.Helper()
	client := s.space("wds1", gvr).Namespace("default")
	begin := time.Now()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		o, err := client.Get(s.Context(), name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("read: %w", err)
		}
		if err := change(o); err != nil {
			return err
		}
		_, err = client.Update(s.Context(), o, metav1.UpdateOptions{}, subresource...)
		return err
	})
	if err != nil {
		s.Fatalf("edit %s %s: %v, after %s", gvr.Resource, name, err, time.Since(begin))
	}
}

// moves sets the lifecycle of a revision, as a user with the right to do so.
func (s *story) moves(name, lifecycle string, subresource ...string) {
	s.Helper()
	s.edit(packageRevisions, name, func(o *unstructured.Unstructured) error {
		return unstructured.SetNestedField(o.Object, lifecycle, "spec", "lifecycle")
	}, subresource...)
}

func (s *story) publishes(name string) {
	s.Helper()
	s.moves(name, "Proposed")
	s.moves(name, "Published", "approval")
}

// carried returns the Binding of the story's package, nil if there is none.
func (s *story) carried(cluster string) *controlv1alpha1.Binding {
	s.Helper()
	o, err := s.get("wds1", controlv1alpha1.Bindings, "", binding.Name(binding.Package{Namespace: "default", Repository: cluster, Name: s.name}))
	if err != nil {
		return nil
	}
	b := &controlv1alpha1.Binding{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, b); err != nil {
		s.Fatal(err)
	}
	return b
}

// isCarried waits until the story's package is in the cluster, and well.
func (s *story) isCarried(cluster string) *controlv1alpha1.Binding {
	s.Helper()
	var b *controlv1alpha1.Binding
	testenv.Eventually(s, arrival, func() (bool, string) {
		if b = s.carried(cluster); b == nil {
			return false, "no Binding"
		}
		well := b.Status.ObservedGeneration == b.Generation
		for _, kind := range []string{"Delivered", "Applied", "Healthy"} {
			well = well && meta.IsStatusConditionTrue(b.Status.Conditions, kind)
		}
		return well, fmt.Sprintf("generation %d, observed %d, conditions %+v", b.Generation, b.Status.ObservedGeneration, b.Status.Conditions)
	})
	return b
}

const packageFiles = `
apiVersion: v1
kind: Namespace
metadata: {name: $NAME}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: $NAME}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "example.com/web:1"}]}
`

func packagedSetting(name, value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: $NAME}\ndata: {key: %q}\n", name, value)
}

// notForClusters are files of a package that tools use: they stop neither what is beside them, nor
// its removal. roles and nested are lists, as kubectl applies them.
var notForClusters = map[string]string{
	".krmignore":            "extras/\n",
	"extras/example.yaml":   packagedSetting("example", "x"),
	"extras/template.yaml":  "metadata:\n  name: {{ .Release.Name }}\n{{- with .Values.labels }}\n{{- end }}\n",
	"values.yaml":           "replicaCount: 2\nimage: {tag: '1.0'}\n",
	"patch.json":            `[{"op": "add", "path": "/spec/replicas", "value": 3}]`,
	"kustomization.yaml":    "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [app.yaml]\n",
	".github/workflow.yaml": "name: CI\non: [push]\n",
	"roles.yaml": "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleList\nitems:\n- {apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: a, namespace: $NAME}, rules: []}\n" +
		"- {metadata: {name: b, namespace: $NAME}, rules: []}\n",
	"nested.yaml": "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: ConfigMap, metadata: {name: nested, namespace: $NAME}, data: {key: in a list}}]}\n",
}

// TestPackages: what is approved in the Repository of a cluster arrives there, changes in place
// with the next revision, and leaves when it is really deleted; what is not approved never travels.
// A cluster that leaves takes nothing approved along.
func TestPackages(t *testing.T) {
	t.Parallel()
	s := tell(t, testenv.Shared(t))
	const cluster = "cluster1"
	testenv.Eventually(t, arrival, func() (bool, string) {
		repository, err := s.get("wds1", configv1alpha1.Repositories, "default", cluster)
		if err != nil {
			return false, err.Error()
		}
		known, err := s.get("its1", managedClusters, "", cluster)
		if err != nil {
			return false, err.Error()
		}
		want := known.GetLabels()
		// How add-ons do is no property of the cluster.
		maps.DeleteFunc(want, func(key, _ string) bool { return strings.HasPrefix(key, "feature.open-cluster-management.io/") })
		diff := cmp.Diff(want, repository.GetLabels())
		return diff == "" && want["name"] == cluster, diff
	})

	files := map[string]string{
		"app.yaml": packageFiles, "setting.yaml": packagedSetting("setting", "first"), "other.yaml": packagedSetting("other", "x"),
		"local.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: local, namespace: $NAME, annotations: {config.kubernetes.io/local-config: 'true'}}\n",
	}
	maps.Copy(files, notForClusters)
	v1 := s.draft(cluster, "one", "", files)
	s.moves(v1, "Proposed")
	testenv.Never(t, 2*time.Second, func() string {
		if _, err := s.get(cluster, namespaces, "", s.name); err == nil || s.carried(cluster) != nil {
			return "what is not approved travels"
		}
		return ""
	})
	s.moves(v1, "Published", "approval")
	first := s.arrives(cluster, "setting", "first")
	s.isCarried(cluster)
	app, err := s.get(cluster, deployments, s.name, "web")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"local", "example"} {
		if _, err := s.get(cluster, configMaps, s.name, name); err == nil {
			t.Errorf("ConfigMap %s is for tools, and was delivered", name)
		}
	}
	s.arrives(cluster, "nested", "in a list")
	for _, name := range []string{"a", "b"} {
		if _, err := s.get(cluster, schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"}, s.name, name); err != nil {
			t.Errorf("Role %s, an item of a RoleList: %v", name, err)
		}
	}

	// Two MiB beside, so that it takes several works.
	const large = 5
	files = map[string]string{"app.yaml": packageFiles, "setting.yaml": packagedSetting("setting", "second")}
	maps.Copy(files, notForClusters)
	for i := range large {
		files[fmt.Sprintf("large-%d.yaml", i)] = packagedSetting(fmt.Sprintf("large-%d", i), strings.Repeat("x", 400<<10))
	}
	v2 := s.draft(cluster, "two", v1, files)
	testenv.Never(t, time.Second, func() string {
		now, err := s.get(cluster, configMaps, s.name, "setting")
		if err != nil {
			return err.Error()
		}
		if diff := cmp.Diff(first.Object["data"], now.Object["data"]); diff != "" || now.GetUID() != first.GetUID() {
			return "a draft changed what is in the cluster:\n" + diff
		}
		return ""
	})
	s.publishes(v2)
	if second := s.arrives(cluster, "setting", "second"); second.GetUID() != first.GetUID() {
		t.Error("the ConfigMap was replaced")
	}
	s.leaves(cluster, configMaps, s.name, "other")
	b := s.isCarried(cluster)
	if now, err := s.get(cluster, deployments, s.name, "web"); err != nil || now.GetUID() != app.GetUID() {
		t.Errorf("the Deployment was replaced (%v)", err)
	}
	works, err := s.space("its1", manifestWorks).Namespace(cluster).List(t.Context(), metav1.ListOptions{LabelSelector: controlv1alpha1.LabelBindingUID + "=" + string(b.UID)})
	if err != nil {
		t.Fatal(err)
	}
	if len(works.Items) < large {
		t.Errorf("2 MiB went in %d works", len(works.Items))
	}

	s.moves(v2, "DeletionProposed")
	s.moves(v1, "DeletionProposed")
	testenv.Never(t, time.Second, func() string {
		if now, err := s.get(cluster, configMaps, s.name, "setting"); err != nil || now.GetDeletionTimestamp() != nil {
			return fmt.Sprintf("what is proposed for deletion left (%v)", err)
		}
		return ""
	})
	for _, name := range []string{v1, v2} {
		if err := s.space("wds1", packageRevisions).Namespace("default").Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	s.leaves(cluster, namespaces, "", s.name)
	testenv.Eventually(t, arrival, func() (bool, string) { return s.carried(cluster) == nil, "the Binding is still there" })
}

// TestClusterLeavesAndReturns: objects and packages are delivered to a cluster when it joins. What
// was approved for it stays when it leaves, and is delivered when it joins again.
func TestClusterLeavesAndReturns(t *testing.T) {
	t.Parallel()
	s := tell(t, testenv.Shared(t))
	const cluster = "visitor"
	s.namespace()
	s.configMap("settings", "one")
	s.policy("{matchLabels: {site: far}}")
	s.addCluster(cluster, "--labels", "site=far")
	s.arrives(cluster, "settings", "one")
	s.isReady()
	testenv.Eventually(t, arrival, func() (bool, string) {
		_, err := s.get("wds1", configv1alpha1.Repositories, "default", cluster)
		return err == nil, fmt.Sprint(err)
	})
	v1 := s.draft(cluster, "one", "", map[string]string{
		"ns.yaml":      "apiVersion: v1\nkind: Namespace\nmetadata: {name: $NAME-package}\n",
		"setting.yaml": strings.ReplaceAll(packagedSetting("setting", "approved"), "$NAME", "$NAME-package"),
	})
	s.publishes(v1)
	approved := func() {
		t.Helper()
		testenv.Eventually(t, arrival, func() (bool, string) {
			o, err := s.get(cluster, configMaps, s.name+"-package", "setting")
			if err != nil {
				return false, err.Error()
			}
			got, _, err := unstructured.NestedString(o.Object, "data", "key")
			return err == nil && got == "approved", fmt.Sprintf("ConfigMap setting holds %q (%v)", got, err)
		})
	}
	approved()
	uid := s.isCarried(cluster).UID

	s.removeCluster(cluster)
	repository := &configv1alpha1.Repository{}
	testenv.Eventually(t, arrival, func() (bool, string) {
		o, err := s.get("wds1", configv1alpha1.Repositories, "default", cluster)
		if err != nil {
			return false, err.Error()
		}
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, repository)
		return err == nil && repository.Detached(), fmt.Sprintf("%+v %v", repository.Status, err)
	})
	testenv.Eventually(t, arrival, func() (bool, string) {
		o, err := s.get("wds1", controlv1alpha1.Bindings, "", s.name)
		if err != nil {
			return false, err.Error()
		}
		destinations, _, err := unstructured.NestedSlice(o.Object, "spec", "destinations")
		return err == nil && len(destinations) == 0, "the Binding of the policy still has the cluster that was removed"
	})
	if o, err := s.get("wds1", packageRevisions, "default", v1); err != nil || o.Object["spec"].(map[string]any)["lifecycle"] != "Published" {
		t.Errorf("what was approved is %v (%v)", o, err)
	}
	if b := s.carried(cluster); b == nil || b.UID != uid {
		t.Errorf("the Binding is %v", b)
	}

	s.addCluster(cluster, "--labels", "site=far")
	approved()
	if b := s.isCarried(cluster); b.UID != uid {
		t.Errorf("the Binding is another one")
	}
	s.arrives(cluster, "settings", "one")
	s.moves(v1, "DeletionProposed")
	if err := s.space("wds1", packageRevisions).Namespace("default").Delete(t.Context(), v1, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.leaves(cluster, namespaces, "", s.name+"-package")
	s.removeCluster(cluster)
	testenv.Eventually(t, arrival, func() (bool, string) {
		o, err := s.get("wds1", configv1alpha1.Repositories, "default", cluster)
		return err != nil, fmt.Sprint("its Repository is still there, though it is empty: ", o)
	})
}
