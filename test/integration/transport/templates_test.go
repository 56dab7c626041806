package transport

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/test/testenv"
)

// template creates an object with templates in the test's namespace.
func (e *environment) template(resource schema.GroupVersionResource, name, field, content string) entry {
	e.t.Helper()
	e.create(resource, e.name, name, map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{controlv1alpha1.AnnotationExpandTemplates: "true"}},
		field:      map[string]any{"content": content},
	})
	return entry{resource: resource, namespace: e.name, name: name}
}

// properties writes the ConfigMap with properties of a cluster; it is removed at the end of the
// test.
func (e *environment) properties(cluster string, data map[string]any) {
	e.t.Helper()
	client := e.its.Resource(namespaces)
	space := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": controlv1alpha1.PropertiesNamespace},
	}}
	if _, err := client.Create(e.t.Context(), space, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		e.t.Fatal(err)
	}
	e.createIn(e.its.Resource(configMaps), configMaps, controlv1alpha1.PropertiesNamespace, cluster, data)
}

func TestTemplates(t *testing.T) {
	e := newEnvironment(t)
	sites := e.clusters(3)
	c := e.start(roomy)
	plain := e.configMap("plain", "{{.site}}")
	one := e.template(configMaps, "one", "data", "{{.clusterName}} {{if eq .clusterName \""+sites[2]+"\"}}fixed{{else}}{{.site}}{{end}}")
	cm := func(name, content string) string { return "ConfigMap " + e.name + "/" + name + ": " + content }
	expect := func(i int, content ...string) {
		t.Helper()
		var want []string
		for _, text := range content {
			want = append(want, cm("one", text))
		}
		e.expectContents(sites[i], append(want, cm("plain", "{{.site}}"))...)
	}
	step := func(what string, want map[string]int) {
		t.Helper()
		made := c.inSpace("its1")
		if diff := cmp.Diff(want, made); diff != "" {
			t.Errorf("%s: requests (-want +got):\n%s", what, diff)
		}
		c.reset()
	}
	cluster := func(i int, patch string) { t.Helper(); e.patch(clusters.ManagedClusters, "", sites[i], patch) }
	errs := func(want ...string) {
		t.Helper()
		testenv.Eventually(t, patience, func() (bool, string) {
			got := e.binding().Status.Errors
			diff := cmp.Diff(want, got)
			return diff == "", "errors of the Binding (-want +got):\n" + diff
		})
	}
	at := strings.Index("{{.clusterName}} {{if eq .clusterName \""+sites[2]+"\"}}fixed{{else}}{{.site}}", ".site")
	missing := func(i int, key string) string {
		return fmt.Sprintf("%s: configmaps %s/one: .data.content cannot be expanded: configmaps.data.content:1:%d: executing \"configmaps.data.content\" at <.%s>: map has no entry for key %q",
			sites[i], e.name, at, key, key)
	}

	// Where a property is missing the object does not come; the others do, and what needs no
	// property does everywhere.
	cluster(0, `{"metadata":{"labels":{"site":"label"}}}`)
	e.bind(sites, one, plain)
	expect(0, sites[0]+" label")
	expect(1)
	expect(2, sites[2]+" fixed")
	errs(missing(1, "site"))
	e.expectCondition(controlv1alpha1.BindingConditionDelivered, metav1.ConditionFalse, controlv1alpha1.ReasonFailed)

	cluster(1, `{"metadata":{"annotations":{"site":"annotation"}}}`)
	expect(1, sites[1]+" annotation")
	e.applied()
	errs()
	c.reset()

	// Each source, by its precedence; only the cluster that it is about is written to, and nothing
	// is read.
	patch := map[string]int{"its1 patch manifestworks": 1}
	cluster(0, `{"metadata":{"annotations":{"site":"annotation"}}}`)
	expect(0, sites[0]+" annotation")
	step("an annotation", patch)
	e.properties(sites[0], map[string]any{"data": map[string]any{"site": "map"}, "binaryData": map[string]any{"unused": "/w=="}})
	expect(0, sites[0]+" map")
	step("a ConfigMap", patch)
	change := func(patch string) {
		t.Helper()
		if _, err := e.its.Resource(configMaps).Namespace(controlv1alpha1.PropertiesNamespace).Patch(
			t.Context(), sites[0], "application/merge-patch+json", []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	change(`{"data":{"site":null},"binaryData":{"site":"YmluYXJ5"}}`)
	expect(0, sites[0]+" binary")
	step("binary data", patch)
	change(`{"data":{"other":"x"}}`)
	cluster(0, `{"metadata":{"labels":{"site":"hidden"}}}`)
	cluster(2, `{"metadata":{"labels":{"site":"unused"}}}`)
	testenv.Never(t, time.Second, func() string { return cmp.Diff(map[string]int{}, c.inSpace("its1")) })
	if err := e.its.Resource(configMaps).Namespace(controlv1alpha1.PropertiesNamespace).Delete(t.Context(), sites[0], metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	expect(0, sites[0]+" annotation")
	step("no ConfigMap", patch)

	// What was there stays where a template fails, and moves on elsewhere.
	cluster(1, `{"metadata":{"annotations":{"site":null}}}`)
	errs(missing(1, "site"))
	e.edit("plain", "{{.site}}")
	e.patch(configMaps, e.name, "one", `{"data":{"content":"{{.clusterName}} {{if eq .clusterName \"`+sites[2]+`\"}}fixed{{else}}{{.site}}{{end}}!"}}`)
	expect(0, sites[0]+" annotation!")
	expect(1, sites[1]+" annotation")
	expect(2, sites[2]+" fixed!")
	errs(missing(1, "site"))
	step("an edit that fails somewhere", map[string]int{"its1 patch manifestworks": 2})

	// A restart changes nothing of that, and says the same.
	e.settled()
	before := e.binding().Status
	c.stop()
	c = e.start(roomy)
	quiet(t, c)
	if diff := cmp.Diff(before, e.binding().Status); diff != "" {
		t.Errorf("status after a restart (-before +after):\n%s", diff)
	}
	c.reset()
	cluster(1, `{"metadata":{"annotations":{"site":"again"}}}`)
	expect(1, sites[1]+" again!")
	e.applied()
	step("it can be expanded", patch)

	// An object with an invalid template stays as it was everywhere, and the error is reported
	// once.
	e.patch(configMaps, e.name, "one", `{"data":{"content":"{{.site"}}`)
	errs("configmaps " + e.name + "/one: cannot be delivered: .data.content cannot be parsed as a template: configmaps.data.content:1: unclosed action")
	testenv.Never(t, time.Second, func() string { return cmp.Diff(map[string]int{}, c.inSpace("its1")) })
	expect(1, sites[1]+" again!")
	e.patch(configMaps, e.name, "one", `{"metadata":{"annotations":null}}`)
	for i := range sites {
		expect(i, "{{.site")
	}
	e.applied()
}

func TestTemplatesOfSecretsAreNotTold(t *testing.T) {
	e := newEnvironment(t)
	sites := e.clusters(1)
	e.start(roomy)
	secret := e.template(secrets, "key", "stringData", "hunter2")
	e.patch(secrets, e.name, "key", `{"metadata":{"annotations":{"note":"hunter2 {{.missing}} hunter2"}}}`)
	e.bind(sites, secret)
	testenv.Eventually(t, patience, func() (bool, string) {
		want := []string{sites[0] + ": secrets " + e.name + "/key: .metadata.annotations.note cannot be expanded (text withheld: the object is a Secret)"}
		diff := cmp.Diff(want, e.binding().Status.Errors)
		return diff == "", diff
	})
	if text := fmt.Sprint(e.binding().Status); strings.Contains(text, "hunter2") {
		t.Errorf("the status quotes the Secret: %s", text)
	}
}

// TestPropertiesAreKnownFirst: a controller that cannot read the properties expands nothing, and
// delivers the rest.
func TestPropertiesAreKnownFirst(t *testing.T) {
	e := newEnvironment(t)
	sites := e.clusters(1)
	e.properties(sites[0], map[string]any{"data": map[string]any{"site": "map"}})
	e.patch(clusters.ManagedClusters, "", sites[0], `{"metadata":{"labels":{"site":"label"}}}`)
	one, plain := e.template(configMaps, "one", "data", "{{.site}}"), e.configMap("plain", "1")
	c := e.start(roomy)
	e.bind(sites, one, plain)
	e.expectContents(sites[0], "ConfigMap "+e.name+"/one: map", "ConfigMap "+e.name+"/plain: 1")
	e.applied()
	c.stop()

	e.unread.Store(true)
	c = e.start(roomy)
	e.edit("plain", "2")
	e.edit("one", "{{.site}}!")
	e.expectContents(sites[0], "ConfigMap "+e.name+"/one: map", "ConfigMap "+e.name+"/plain: 2")
	e.unread.Store(false)
	e.expectContents(sites[0], "ConfigMap "+e.name+"/one: map!", "ConfigMap "+e.name+"/plain: 2")
	e.applied()
	made := maps.Clone(c.inSpace("its1"))
	if n := made["its1 patch manifestworks"]; n != 2 {
		t.Errorf("%d writes, want one for each edit: %v", n, made)
	}
}
