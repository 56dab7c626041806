package ocm

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/starlinghq/starling/pkg/install/manifest"
)

// Namespaces of OCM.
const (
	Namespace           = "open-cluster-management"
	NamespaceHub        = "open-cluster-management-hub"
	NamespaceAgent      = "open-cluster-management-agent"
	NamespaceAddonAgent = "open-cluster-management-agent-addon"
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

// Hub returns OCM's objects for a hub, from OCM's manifests. Its webhooks are called at webhookURL,
// whose certificate an authority of caBundle has signed.
func Hub(from fs.FS, webhookURL string, caBundle []byte) ([]*unstructured.Unstructured, error) {
	values := map[string]any{
		"ClusterManagerName":             "cluster-manager",
		"ClusterManagerNamespace":        NamespaceHub,
		"Labels":                         map[string]string{},
		"RegistrationAPIServiceCABundle": base64.StdEncoding.EncodeToString(caBundle),
		"AddonAPIServiceCABundle":        base64.StdEncoding.EncodeToString(caBundle),
		"RegistrationWebhook":            map[string]any{"Port": 0},
	}
	objs, err := render(from, hubManifests, values)
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
	return append(objs, manifest.Namespace(Namespace), manifest.Namespace(NamespaceHub)), nil
}

// render returns the objects of the manifests that match the patterns. In singleton mode the two
// agents share a ServiceAccount, so some objects are rendered twice.
func render(from fs.FS, patterns []string, values map[string]any) ([]*unstructured.Unstructured, error) {
	if from == nil {
		return nil, errors.New("this program was built without OCM's manifests")
	}
	return manifest.Render(from, patterns, values, func(file string) bool { return strings.Contains(file, hubSkipped) })
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
