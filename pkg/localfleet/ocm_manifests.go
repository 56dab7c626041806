package localfleet

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"strings"
	"text/template"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/starlinghq/starling/config/rbac/wec"
)

// Namespaces of OCM.
const (
	namespaceOCM        = "open-cluster-management"
	namespaceOCMHub     = "open-cluster-management-hub"
	namespaceOCMAgent   = "open-cluster-management-agent"
	namespaceAddonAgent = "open-cluster-management-agent-addon"
)

// hubManifests are OCM's manifests for its components that run on the hub: CRDs, identities with
// their rights, and the configurations of the admission webhooks.
var hubManifests = []string{
	"cluster-manager/hub/crds/*.yaml",
	"cluster-manager/hub/registration/serviceaccount.yaml",
	"cluster-manager/hub/registration/clusterrole.yaml",
	"cluster-manager/hub/registration/clusterrolebinding.yaml",
	"cluster-manager/hub/registration/webhook-serviceaccount.yaml",
	"cluster-manager/hub/registration/webhook-clusterrole.yaml",
	"cluster-manager/hub/registration/webhook-clusterrolebinding.yaml",
	"cluster-manager/hub/registration/webhook-*configuration.yaml",
	"cluster-manager/hub/addon-manager/serviceaccount.yaml",
	"cluster-manager/hub/addon-manager/clusterrole.yaml",
	"cluster-manager/hub/addon-manager/clusterrolebinding.yaml",
	"cluster-manager/hub/addon-manager/work-executor-admin-clusterrolebinding.yaml",
	"cluster-manager/hub/work/executor-admin-clusterrole.yaml",
	"cluster-manager/hub/work/webhook-validatingconfiguration.yaml",
}

// hubSkipped is part of a file name: a CRD for a feature of OCM that is off.
const hubSkipped = "multicluster.x-k8s.io_clusterprofiles"

// klusterletManifests are OCM's manifests for the agent in a managed cluster in singleton mode: one
// process is the whole agent.
var klusterletManifests = []string{
	"klusterlet/managed/*.yaml",
	"klusterlet/management/*role*.yaml",
}

// renderHub returns OCM's objects for the hub. Its webhooks are called at webhookURL.
func (f *Fleet) renderHub(webhookURL string, caBundle []byte) ([]*unstructured.Unstructured, error) {
	values := map[string]any{
		"ClusterManagerName":             "cluster-manager",
		"ClusterManagerNamespace":        namespaceOCMHub,
		"Labels":                         map[string]string{},
		"RegistrationAPIServiceCABundle": base64.StdEncoding.EncodeToString(caBundle),
		"AddonAPIServiceCABundle":        base64.StdEncoding.EncodeToString(caBundle),
		"RegistrationWebhook":            map[string]any{"Port": 0},
	}
	objs, err := f.render(hubManifests, values)
	if err != nil {
		return nil, err
	}
	for _, obj := range objs {
		switch obj.GetKind() {
		case "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration":
			err = webhooksByURL(obj, webhookURL)
		case "CustomResourceDefinition":
			err = withoutConversion(obj)
		}
		if err != nil {
			return nil, err
		}
	}
	return append(objs, namespaceObject(namespaceOCM), namespaceObject(namespaceOCMHub)), nil
}

// renderKlusterlet returns OCM's objects for a managed cluster, and the rights of its agent for all
// built-in kinds that users deliver.
func (f *Fleet) renderKlusterlet() ([]*unstructured.Unstructured, error) {
	objs, err := f.render(klusterletManifests, map[string]any{
		"KlusterletName":             "klusterlet",
		"KlusterletNamespace":        namespaceOCMAgent,
		"AgentNamespace":             namespaceOCMAgent,
		"RegistrationServiceAccount": klusterletAccount.name,
		"WorkServiceAccount":         klusterletAccount.name,
		"Labels":                     map[string]string{},
	})
	if err != nil {
		return nil, err
	}
	// OCM's operator creates this ClusterRole in code: it grants the work agent the ClusterRoles
	// that a user labels.
	aggregate := newObject("rbac.authorization.k8s.io/v1", "ClusterRole", "", "open-cluster-management:klusterlet-work:aggregate")
	aggregate.Object["aggregationRule"] = map[string]any{
		"clusterRoleSelectors": []any{map[string]any{
			"matchLabels": map[string]any{"open-cluster-management.io/aggregate-to-work": "true"},
		}},
	}
	builtIn, err := renderFile(wec.FS, "work-agent.yaml", nil)
	if err != nil {
		return nil, fmt.Errorf("render the rights of OCM's agent: %w", err)
	}
	objs = append(objs, builtIn...)
	return append(objs, aggregate, namespaceObject(namespaceOCMAgent), namespaceObject(namespaceAddonAgent)), nil
}

// render returns the objects of the manifests that match the patterns.
func (f *Fleet) render(patterns []string, values map[string]any) ([]*unstructured.Unstructured, error) {
	if f.cfg.OCM == nil {
		return nil, errors.New("this program was built without OCM's manifests")
	}
	var objs []*unstructured.Unstructured
	seen := map[string]bool{}
	for _, pattern := range patterns {
		files, err := fs.Glob(f.cfg.OCM, pattern)
		if err != nil {
			return nil, err
		}
		if len(files) == 0 {
			return nil, fmt.Errorf("render OCM's manifest %q: not found", pattern)
		}
		for _, file := range files {
			if strings.Contains(file, hubSkipped) {
				continue
			}
			rendered, err := renderFile(f.cfg.OCM, file, values)
			if err != nil {
				return nil, fmt.Errorf("render OCM's manifest %q: %w", file, err)
			}
			for _, obj := range rendered {
				// In singleton mode the two agents share a ServiceAccount, so some objects are
				// rendered twice.
				key := path.Join(obj.GetKind(), obj.GetNamespace(), obj.GetName())
				if !seen[key] {
					seen[key] = true
					objs = append(objs, obj)
				}
			}
		}
	}
	return objs, nil
}

func renderFile(from fs.FS, file string, values map[string]any) ([]*unstructured.Unstructured, error) {
	text, err := fs.ReadFile(from, file)
	if err != nil {
		return nil, err
	}
	t, err := template.New(file).Parse(string(text))
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := t.Execute(&out, values); err != nil {
		return nil, err
	}
	var objs []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(&out, 4<<10)
	for {
		obj := &unstructured.Unstructured{}
		err := decoder.Decode(&obj.Object)
		if errors.Is(err, io.EOF) {
			return objs, nil
		}
		if err != nil {
			return nil, err
		}
		if len(obj.Object) == 0 {
			continue
		}
		tidyMetadata(obj)
		objs = append(objs, obj)
	}
}

// tidyMetadata removes from labels and annotations what only OCM's applier supports: empty maps,
// and keys that end in "-", which tell it to remove a key.
func tidyMetadata(obj *unstructured.Unstructured) {
	for _, field := range []string{"labels", "annotations"} {
		values, found, _ := unstructured.NestedMap(obj.Object, "metadata", field)
		if !found {
			unstructured.RemoveNestedField(obj.Object, "metadata", field)
			continue
		}
		maps.DeleteFunc(values, func(key string, _ any) bool { return strings.HasSuffix(key, "-") })
		if err := unstructured.SetNestedMap(obj.Object, values, "metadata", field); err != nil {
			unstructured.RemoveNestedField(obj.Object, "metadata", field)
		}
	}
}

// webhooksByURL replaces the Service of each webhook by a URL, because a space has no pods.
func webhooksByURL(obj *unstructured.Unstructured, url string) error {
	webhooks, _, err := unstructured.NestedSlice(obj.Object, "webhooks")
	if err != nil {
		return err
	}
	for _, w := range webhooks {
		webhook, ok := w.(map[string]any)
		if !ok {
			return errors.New("webhooks: an item is not an object")
		}
		servicePath, found, err := unstructured.NestedString(webhook, "clientConfig", "service", "path")
		if err != nil || !found {
			return fmt.Errorf("webhook %q: clientConfig.service.path is missing", webhook["name"])
		}
		unstructured.RemoveNestedField(webhook, "clientConfig", "service")
		if err := unstructured.SetNestedField(webhook, url+servicePath, "clientConfig", "url"); err != nil {
			return err
		}
	}
	return unstructured.SetNestedSlice(obj.Object, webhooks, "webhooks")
}

// withoutConversion removes the conversion webhook of a CRD, and all versions except the storage
// version, which is the only one in use.
func withoutConversion(obj *unstructured.Unstructured) error {
	if _, found, _ := unstructured.NestedMap(obj.Object, "spec", "conversion"); !found {
		return nil
	}
	unstructured.RemoveNestedField(obj.Object, "spec", "conversion")
	versions, _, err := unstructured.NestedSlice(obj.Object, "spec", "versions")
	if err != nil {
		return err
	}
	var stored []any
	for _, v := range versions {
		version, _ := v.(map[string]any)
		if isStored, _ := version["storage"].(bool); isStored {
			stored = append(stored, v)
		}
	}
	return unstructured.SetNestedSlice(obj.Object, stored, "spec", "versions")
}

func newObject(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind}}
	obj.SetName(name)
	if namespace != "" {
		obj.SetNamespace(namespace)
	}
	return obj
}

func namespaceObject(name string) *unstructured.Unstructured {
	return newObject("v1", "Namespace", "", name)
}
