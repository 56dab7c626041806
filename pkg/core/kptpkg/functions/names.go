package functions

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// podSpecs are where the specs of pods are, by kind.
var podSpecs = map[string]string{
	"Pod": "spec", "PodTemplate": "template/spec", "Deployment": "spec/template/spec", "ReplicaSet": "spec/template/spec",
	"DaemonSet": "spec/template/spec", "StatefulSet": "spec/template/spec", "Job": "spec/template/spec",
	"ReplicationController": "spec/template/spec", "CronJob": "spec/jobTemplate/spec/template/spec",
}

// reference is a field of one kind that names objects of another.
type reference struct {
	to    string // kind
	group string // of the kind that is named
	in    string // kind that has the field; "pods" for all with pods
	path  string
}

const pods = "pods"

// references are the fields that name objects of Kubernetes' own kinds.
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

// clusterScoped are the kinds among them that have no namespace.
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
	if c.configKind() == "EnsureNameSubstring" {
		if err := c.decode("EnsureNameSubstring", &config); err != nil {
			return err
		}
	} else {
		if c.configKind() != "ConfigMap" {
			_, err := c.configRoot("ConfigMap", "EnsureNameSubstring")
			return err
		}
		values, err := c.values("prepend", "append")
		if err != nil {
			return err
		}
		if len(values) != 1 {
			return errors.New("functionConfig: data must have exactly one of prepend and append")
		}
		for mode, substring := range values {
			config.EditMode, config.Substring = mode, substring
		}
	}
	if config.Substring == "" {
		return errors.New("functionConfig: the substring is required")
	}
	if !slices.Contains([]string{"", "prepend", "append"}, config.EditMode) {
		return fmt.Errorf("functionConfig: editMode %q is not supported; supported are prepend, append", config.EditMode)
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
		if notRenamed(item) {
			continue
		}
		before, key := item.Name(), dependency(item.Group(), item.Namespace(), item.Kind(), item.Name())
		n := get(item.root(), "metadata", "name")
		if text(n) == "" {
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

func notRenamed(item Item) bool {
	switch item.Kind() {
	case "CustomResourceDefinition", "Namespace", "APIService":
		return true
	}
	return item.isKptfile()
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

// references changes the names of renamed objects where an object names them.
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
		r.rename(root, path, ref.group, in, ref.to)
	}
	switch kind {
	case "HorizontalPodAutoscaler":
		r.renameIn(get(root, "spec", "scaleTargetRef"), namespace)
	case "RoleBinding", "ClusterRoleBinding":
		roleRef := get(root, "roleRef")
		if text(get(roleRef, "kind")) == "ClusterRole" {
			namespace = ""
		}
		r.renameNode(get(roleRef, "name"), "rbac.authorization.k8s.io", namespace, text(get(roleRef, "kind")))
		r.subjects(get(root, "subjects"), item.Namespace())
	case "APIService":
		service := get(root, "spec", "service")
		r.renameNode(get(service, "name"), "", text(get(service, "namespace")), "Service")
	case "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration":
		if webhooks := get(root, "webhooks"); webhooks != nil && webhooks.Kind == yaml.SequenceNode {
			for _, webhook := range webhooks.Content {
				service := get(webhook, "clientConfig", "service")
				r.renameNode(get(service, "name"), "", text(get(service, "namespace")), "Service")
			}
		}
	case "Role", "ClusterRole":
		r.rules(get(root, "rules"), item)
	}
	changeDependencies(item, func(group, namespace, kind, name string) (string, string) {
		if after, ok := r.renamed[dependency(group, namespace, kind, name)]; ok {
			return namespace, after
		}
		return namespace, name
	})
}

func (r *renamer) subjects(subjects *yaml.Node, namespace string) {
	if subjects == nil || subjects.Kind != yaml.SequenceNode {
		return
	}
	for _, subject := range subjects.Content {
		if text(get(subject, "kind")) != "ServiceAccount" {
			continue
		}
		in := text(get(subject, "namespace"))
		if in == "" {
			in = namespace
		}
		r.renameNode(get(subject, "name"), "", in, "ServiceAccount")
	}
}

// rules changes resourceNames in rules about ConfigMaps, Secrets and PersistentVolumes.
func (r *renamer) rules(rules *yaml.Node, item Item) {
	if rules == nil || rules.Kind != yaml.SequenceNode {
		return
	}
	for _, rule := range rules.Content {
		names := get(rule, "resourceNames")
		resources := get(rule, "resources")
		if names == nil || names.Kind != yaml.SequenceNode || resources == nil || resources.Kind != yaml.SequenceNode {
			continue
		}
		for plural, kind := range map[string]string{"configmaps": "ConfigMap", "secrets": "Secret", "persistentvolumes": "PersistentVolume"} {
			if !slices.ContainsFunc(resources.Content, func(n *yaml.Node) bool { return text(content(n)) == plural }) {
				continue
			}
			for _, name := range names.Content {
				if kind == "PersistentVolume" {
					r.renameNode(content(name), "", "", kind)
				} else {
					r.renameNode(content(name), "", item.Namespace(), kind)
				}
			}
		}
	}
}

// renameIn changes the name in a mapping that also says the kind.
func (r *renamer) renameIn(n *yaml.Node, namespace string) {
	group, _, ok := strings.Cut(text(get(n, "apiVersion")), "/")
	if !ok {
		group = ""
	}
	r.renameNode(get(n, "name"), group, namespace, text(get(n, "kind")))
}

func (r *renamer) rename(root *yaml.Node, path, group, namespace, kind string) {
	_ = fieldSpec{Path: path}.each(root, yaml.ScalarNode, func(n *yaml.Node) error {
		r.renameNode(n, group, namespace, kind)
		return nil
	})
}

func (r *renamer) renameNode(n *yaml.Node, group, namespace, kind string) {
	if text(n) == "" {
		return
	}
	if after, ok := r.renamed[dependency(group, namespace, kind, n.Value)]; ok {
		setString(n, after)
	}
}
