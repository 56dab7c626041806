package functions

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/utils"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
)

// podSpecs are the positions of the specs of pods, by kind.
var podSpecs = map[string]string{
	"Pod": "spec", "PodTemplate": "template/spec", "Deployment": "spec/template/spec", "ReplicaSet": "spec/template/spec",
	"DaemonSet": "spec/template/spec", "StatefulSet": "spec/template/spec", "Job": "spec/template/spec",
	"ReplicationController": "spec/template/spec", "CronJob": "spec/jobTemplate/spec/template/spec",
}

// reference is a field of one kind that names objects of another.
type reference struct {
	to    string // the referenced kind
	group string // of the referenced kind
	in    string // the kind that has the field; "pods" for all kinds with pods
	path  string
}

const pods = "pods"

// references are the fields that refer to objects of built-in kinds.
var references = []reference{
	{"ConfigMap", "", pods, "volumes/configMap/name"},
	{"ConfigMap", "", pods, "volumes/projected/sources/configMap/name"},
	{"ConfigMap", "", pods, "containers/env/valueFrom/configMapKeyRef/name"},
	{"ConfigMap", "", pods, "initContainers/env/valueFrom/configMapKeyRef/name"},
	{"ConfigMap", "", pods, "containers/envFrom/configMapRef/name"},
	{"ConfigMap", "", pods, "initContainers/envFrom/configMapRef/name"},
	{"ConfigMap", "", "Ingress", `metadata/annotations/nginx.ingress.kubernetes.io\/fastcgi-params-configmap`},
	{"Secret", "", pods, "volumes/secret/secretName"},
	{"Secret", "", pods, "volumes/projected/sources/secret/name"},
	{"Secret", "", pods, "containers/env/valueFrom/secretKeyRef/name"},
	{"Secret", "", pods, "initContainers/env/valueFrom/secretKeyRef/name"},
	{"Secret", "", pods, "containers/envFrom/secretRef/name"},
	{"Secret", "", pods, "initContainers/envFrom/secretRef/name"},
	{"Secret", "", pods, "imagePullSecrets/name"},
	{"Secret", "", "Ingress", "spec/tls/secretName"},
	{"Secret", "", "Ingress", `metadata/annotations/ingress.kubernetes.io\/auth-secret`},
	{"Secret", "", "Ingress", `metadata/annotations/nginx.ingress.kubernetes.io\/auth-secret`},
	{"Secret", "", "Ingress", `metadata/annotations/nginx.ingress.kubernetes.io\/auth-tls-secret`},
	{"Secret", "", "ServiceAccount", "imagePullSecrets/name"},
	{"Secret", "", "StorageClass", "parameters/secretName"},
	{"Secret", "", "StorageClass", "parameters/adminSecretName"},
	{"Secret", "", "StorageClass", "parameters/userSecretName"},
	{"Secret", "", "StorageClass", "parameters/secretRef"},
	{"Secret", "", "PersistentVolume", "spec/azureFile/secretName"},
	{"Service", "", "StatefulSet", "spec/serviceName"},
	{"Service", "", "Ingress", "spec/rules/http/paths/backend/serviceName"},
	{"Service", "", "Ingress", "spec/backend/serviceName"},
	{"Service", "", "Ingress", "spec/rules/http/paths/backend/service/name"},
	{"Service", "", "Ingress", "spec/defaultBackend/service/name"},
	{"ServiceAccount", "", pods, "serviceAccountName"},
	{"PersistentVolumeClaim", "", pods, "volumes/persistentVolumeClaim/claimName"},
	{"PersistentVolume", "", "PersistentVolumeClaim", "spec/volumeName"},
	{"StorageClass", "storage.k8s.io", "PersistentVolume", "spec/storageClassName"},
	{"StorageClass", "storage.k8s.io", "PersistentVolumeClaim", "spec/storageClassName"},
	{"StorageClass", "storage.k8s.io", "StatefulSet", "spec/volumeClaimTemplates/spec/storageClassName"},
	{"PriorityClass", "scheduling.k8s.io", pods, "priorityClassName"},
	{"IngressClass", "networking.k8s.io", "Ingress", "spec/ingressClassName"},
	{"ValidatingAdmissionPolicy", "admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding", "spec/policyName"},
}

// clusterScoped are the referenced kinds that have no namespace.
var clusterScoped = []string{"PersistentVolume", "StorageClass", "PriorityClass", "IngressClass", "ValidatingAdmissionPolicy", "ClusterRole"}

// renamer is ensure-name-substring.
type renamer struct {
	*call
	substring string
	appends   bool
	// renamed are the new names by group, namespace, kind and old name.
	renamed map[string]string
}

func ensureNameSubstring(c *call) error {
	var config struct {
		Substring  string      `yaml:"substring"`
		EditMode   string      `yaml:"editMode"`
		Additional []fieldSpec `yaml:"additionalNameFields"`
	}
	given := 1
	err := c.read("EnsureNameSubstring", &config, func(data map[string]string) {
		given = len(data)
		for mode, substring := range data {
			config.EditMode, config.Substring = mode, substring
		}
	}, "prepend", "append")
	if err != nil {
		return err
	}
	if given != 1 {
		return errors.New("functionConfig: data must have exactly one of prepend and append")
	}
	if config.Substring == "" {
		return errors.New("functionConfig: the substring is required")
	}
	if !slices.Contains([]string{"", "prepend", "append"}, config.EditMode) {
		return fmt.Errorf("functionConfig: editMode %q is not supported; use prepend or append", config.EditMode)
	}
	fields, err := withAdditional(nil, config.Additional)
	if err != nil {
		return err
	}
	r := &renamer{call: c, substring: config.Substring, appends: config.EditMode == "append", renamed: map[string]string{}}
	return r.run(fields)
}

func (r *renamer) run(fields []fieldSpec) error {
	for _, item := range r.items {
		if item.isKptfile() || slices.Contains([]string{"CustomResourceDefinition", "Namespace", "APIService"}, item.Kind()) {
			continue
		}
		before, key := item.Name(), dependency(item.Group(), item.Namespace(), item.Kind(), item.Name())
		n := kpt.Get(item.root(), "metadata", "name")
		if kpt.TextOf(n) == "" {
			return fmt.Errorf("%s: metadata.name is required", item)
		}
		if after := r.ensure(before); after != before {
			r.renamed[key] = after
			setString(n, after)
		}
		err := eachText(item, fields, func(n *yaml.Node, _ string) {
			if after := r.ensure(n.Value); after != n.Value {
				setString(n, after)
			}
		})
		if err != nil {
			return err
		}
	}
	for _, item := range r.items {
		r.references(item)
	}
	r.info("changed %d name(s)", len(r.renamed))
	return nil
}

func (r *renamer) ensure(name string) string {
	switch {
	case strings.Contains(name, r.substring):
		return name
	case r.appends:
		return name + r.substring
	}
	return r.substring + name
}

// references changes the references of an object to renamed objects.
func (r *renamer) references(item Item) {
	root, kind, namespace := item.root(), item.Kind(), item.Namespace()
	for _, ref := range references {
		path := ref.path
		if ref.in == pods {
			spec, ok := podSpecs[kind]
			if !ok {
				continue
			}
			path = spec + "/" + path
		} else if ref.in != kind {
			continue
		}
		in := namespace
		if slices.Contains(clusterScoped, ref.to) {
			in = ""
		}
		_ = fieldSpec{parts: utils.PathSplitter(path, "/")}.each(root, yaml.ScalarNode, func(n *yaml.Node) error {
			r.renameNode(n, ref.group, in, ref.to)
			return nil
		})
	}
	switch kind {
	case "HorizontalPodAutoscaler":
		target := kpt.Get(root, "spec", "scaleTargetRef")
		r.renameNode(kpt.Get(target, "name"), kpt.GroupOf(kpt.TextOf(kpt.Get(target, "apiVersion"))), namespace, kpt.TextOf(kpt.Get(target, "kind")))
	case "RoleBinding", "ClusterRoleBinding":
		roleRef := kpt.Get(root, "roleRef")
		if kpt.TextOf(kpt.Get(roleRef, "kind")) == "ClusterRole" {
			namespace = ""
		}
		r.renameNode(kpt.Get(roleRef, "name"), "rbac.authorization.k8s.io", namespace, kpt.TextOf(kpt.Get(roleRef, "kind")))
		for _, subject := range elements(kpt.Get(root, "subjects")) {
			if kpt.TextOf(kpt.Get(subject, "kind")) == "ServiceAccount" {
				r.renameNode(kpt.Get(subject, "name"), "", cmp.Or(kpt.TextOf(kpt.Get(subject, "namespace")), item.Namespace()), "ServiceAccount")
			}
		}
	case "APIService":
		r.renameService(kpt.Get(root, "spec", "service"))
	case "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration":
		for _, webhook := range elements(kpt.Get(root, "webhooks")) {
			r.renameService(kpt.Get(webhook, "clientConfig", "service"))
		}
	case "Role", "ClusterRole":
		r.rules(elements(kpt.Get(root, "rules")), namespace)
	}
	changeDependencies(item, func(group, namespace, kind, name string) (string, string) {
		if after, ok := r.renamed[dependency(group, namespace, kind, name)]; ok {
			return namespace, after
		}
		return namespace, name
	})
}

// rules changes resourceNames in rules about ConfigMaps, Secrets and PersistentVolumes.
func (r *renamer) rules(rules []*yaml.Node, namespace string) {
	for _, rule := range rules {
		for _, resource := range elements(kpt.Get(rule, "resources")) {
			kind, in := "", namespace
			switch kpt.TextOf(kpt.Content(resource)) {
			case "configmaps":
				kind = "ConfigMap"
			case "secrets":
				kind = "Secret"
			case "persistentvolumes":
				kind, in = "PersistentVolume", ""
			}
			for _, name := range elements(kpt.Get(rule, "resourceNames")) {
				r.renameNode(kpt.Content(name), "", in, kind)
			}
		}
	}
}

func (r *renamer) renameService(service *yaml.Node) {
	r.renameNode(kpt.Get(service, "name"), "", kpt.TextOf(kpt.Get(service, "namespace")), "Service")
}

func (r *renamer) renameNode(n *yaml.Node, group, namespace, kind string) {
	if kpt.TextOf(n) == "" {
		return
	}
	if after, ok := r.renamed[dependency(group, namespace, kind, n.Value)]; ok {
		setString(n, after)
	}
}
