package access

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// key is where a kubeconfig is.
type key struct{ namespace, secret, key string }

// defaultKey is the key of a kubeconfig in a Secret.
const defaultKey = "kubeconfig"

// ofControlPlane returns where the kubeconfig of a ControlPlane is. If it is not ready, it returns
// what is missing.
func ofControlPlane(plane *unstructured.Unstructured) (k key, missing string) {
	ready, reason := readiness(plane)
	ref, _, _ := unstructured.NestedStringMap(plane.Object, "status", "secretRef")
	// We run in the hosting cluster. An older KubeFlex has only one key.
	k = key{ref["namespace"], ref["name"], ref["inClusterKey"]}
	if k.key == "" {
		k.key = ref["key"]
	}
	switch {
	case !ready:
		return key{}, fmt.Sprintf("ControlPlane %q is not ready: %s", plane.GetName(), reason)
	case k.namespace == "" || k.secret == "" || k.key == "":
		return key{}, fmt.Sprintf("ControlPlane %q does not name a Secret with its kubeconfig in status.secretRef", plane.GetName())
	}
	return k, ""
}

// readiness returns whether a ControlPlane is ready, and if it is not, why.
func readiness(plane *unstructured.Unstructured) (ready bool, reason string) {
	conditions, _, _ := unstructured.NestedSlice(plane.Object, "status", "conditions")
	for _, c := range conditions {
		condition, _ := c.(map[string]any)
		if condition["type"] != "Ready" {
			continue
		}
		text, _ := condition["message"].(string)
		if text == "" {
			text, _ = condition["reason"].(string)
		}
		return condition["status"] == "True", text
	}
	return false, "KubeFlex has not reported on it"
}

// read returns the kubeconfig in a Secret.
func read(secret *corev1.Secret, k key) (*rest.Config, error) {
	text, ok := secret.Data[k.key]
	if !ok || len(text) == 0 {
		return nil, fmt.Errorf("it has no key %q with a kubeconfig; its keys are %s", k.key, strings.Join(slices.Sorted(maps.Keys(secret.Data)), ", "))
	}
	config, err := clientcmd.Load(text)
	if err != nil {
		return nil, fmt.Errorf("its key %q is not a kubeconfig", k.key) // the error may contain what is in it
	}
	context := config.Contexts[config.CurrentContext]
	if context == nil {
		return nil, fmt.Errorf("the kubeconfig in its key %q has no current context", k.key)
	}
	// Files and commands would be those of the image, which has none.
	if user := config.AuthInfos[context.AuthInfo]; user != nil {
		if user.Exec != nil {
			return nil, fmt.Errorf("the kubeconfig in its key %q runs command %q: use one with a token or a client certificate", k.key, user.Exec.Command)
		}
		for _, file := range []string{user.ClientCertificate, user.ClientKey, user.TokenFile} {
			if file != "" {
				return nil, refersTo(k, file)
			}
		}
	}
	cluster := config.Clusters[context.Cluster]
	if cluster == nil || cluster.Server == "" {
		return nil, fmt.Errorf("the kubeconfig in its key %q has no server for its current context", k.key)
	}
	if cluster.CertificateAuthority != "" {
		return nil, refersTo(k, cluster.CertificateAuthority)
	}
	out, err := clientcmd.NewDefaultClientConfig(*config, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("the kubeconfig in its key %q is not valid: %w", k.key, err)
	}
	return out, nil
}

func refersTo(k key, file string) error {
	return fmt.Errorf("the kubeconfig in its key %q refers to file %q: use one with the content of the file, as `kubectl config view --flatten` prints it", k.key, file)
}
