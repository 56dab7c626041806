package ocm

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/starlinghq/starling/pkg/install/manifest"
)

const (
	// AgentDeployment is the name of the Deployment of OCM's agent in NamespaceAgent.
	AgentDeployment = "klusterlet-agent"

	// HubSecret is the name of the Secret in NamespaceAgent with which the agent connects to its
	// hub after it was accepted.
	HubSecret = "hub-kubeconfig-secret" //nolint:gosec // a name

	// bootstrapSecret is the name of the Secret with the kubeconfig of the bootstrap identity.
	bootstrapSecret = "bootstrap-hub-kubeconfig" //nolint:gosec // a name
)

// AgentFlags returns the flags of OCM's agent that do not depend on where it runs.
func AgentFlags(cluster string) []string {
	return []string{
		"--spoke-cluster-name=" + cluster,
		"--workload-source-driver=kube",
		"--hub-kube-api-qps=200", "--hub-kube-api-burst=400",
		// Towards the WEC, where the default is 50: when an object of a work changes, the agent
		// reads all of them. It also reads all objects in each status-sync-interval, and an edit
		// waits for these requests.
		"--kube-api-qps=1000", "--kube-api-burst=2000",
		"--status-sync-interval=30s",
		// How long the agent keeps what it has of works that the hub does not have: after the hub
		// was restored from a backup, an administrator has to look first. OCM's default is an hour.
		"--appliedmanifestwork-eviction-grace-period=720h",
	}
}

// Agent is OCM's agent as it runs in a managed cluster.
type Agent struct {
	// Cluster is the name of the cluster in the hub, ID that of this agent.
	Cluster, ID string
	// Image is that of the program starling.
	Image string
	// Bootstrap is a kubeconfig of the bootstrap identity of the hub.
	Bootstrap []byte
}

// Objects returns the Deployment of the agent and the Secret that it mounts. Klusterlet returns
// what they need.
func (a Agent) Objects() []*unstructured.Unstructured {
	secret := manifest.New("v1", "Secret", NamespaceAgent, bootstrapSecret)
	secret.Object["stringData"] = map[string]any{"kubeconfig": string(a.Bootstrap)}

	labels := map[string]any{"app": AgentDeployment}
	deployment := manifest.New("apps/v1", "Deployment", NamespaceAgent, AgentDeployment)
	deployment.Object["spec"] = map[string]any{
		"replicas": int64(1),
		// Two agents must not act at the same time.
		"strategy": map[string]any{"type": "Recreate"},
		"selector": map[string]any{"matchLabels": labels},
		"template": map[string]any{
			"metadata": map[string]any{"labels": labels},
			"spec":     a.pod(),
		},
	}
	return []*unstructured.Unstructured{secret, deployment}
}

func (a Agent) pod() map[string]any {
	args := []any{
		"klusterlet", "--space=" + a.Cluster, "--",
		"--agent-id=" + a.ID,
		"--bootstrap-kubeconfig=/spoke/bootstrap/kubeconfig",
		"--hub-kubeconfig-dir=/spoke/hub",
		"--workload-source-config=/spoke/hub/kubeconfig",
		"--disable-leader-election",
	}
	for _, flag := range AgentFlags(a.Cluster) {
		args = append(args, flag)
	}
	mount := func(name, path string) any { return map[string]any{"name": name, "mountPath": path} }
	return map[string]any{
		"serviceAccountName": KlusterletAccount.Name,
		"securityContext": map[string]any{
			"runAsNonRoot": true, "seccompProfile": map[string]any{"type": "RuntimeDefault"},
		},
		"containers": []any{map[string]any{
			"name": "agent", "image": a.Image, "args": args,
			"securityContext": map[string]any{
				"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
				"capabilities": map[string]any{"drop": []any{"ALL"}},
			},
			"resources": map[string]any{
				"requests": map[string]any{"cpu": "50m", "memory": "96Mi"},
				"limits":   map[string]any{"memory": "1Gi"},
			},
			"livenessProbe": map[string]any{
				"httpGet":             map[string]any{"path": "/healthz", "port": int64(8443), "scheme": "HTTPS"},
				"initialDelaySeconds": int64(30), "periodSeconds": int64(10), "timeoutSeconds": int64(5),
			},
			"volumeMounts": []any{mount("bootstrap", "/spoke/bootstrap"), mount("hub", "/spoke/hub"), mount("tmp", "/tmp")},
		}},
		"volumes": []any{
			map[string]any{"name": "bootstrap", "secret": map[string]any{"secretName": bootstrapSecret}},
			map[string]any{"name": "hub", "emptyDir": map[string]any{"medium": "Memory"}},
			map[string]any{"name": "tmp", "emptyDir": map[string]any{}},
		},
	}
}
