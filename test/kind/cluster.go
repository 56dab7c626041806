package kindtest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
	"sigs.k8s.io/kind/pkg/cluster"
	"sigs.k8s.io/kind/pkg/cluster/nodeutils"
)

// ImageVariable is the environment variable with the image of nodes.
const ImageVariable = "STARLING_KIND_IMAGE"

// patience is how long a cluster may take until it is Ready. It takes half a minute on an idle
// machine.
const patience = 5 * time.Minute

// Cluster is a cluster of kind.
type Cluster struct {
	// Name is the name of the cluster.
	Name string
	// Config connects to the API server as an administrator. Copy it before you change it.
	Config *rest.Config
	// Kubeconfig is a file with the same credentials.
	Kubeconfig string

	provider *cluster.Provider
}

// Create creates a cluster, and deletes it when the test ends. A cluster of this name that an
// earlier run left is deleted first. If the test fails, the logs of the cluster are written before.
// It blocks until the node is Ready. config may be nil; Create adds to it what the machine needs.
// It skips the test if there is no image of nodes.
func Create(t testing.TB, name string, config *v1alpha4.Cluster) *Cluster {
	t.Helper()
	image := os.Getenv(ImageVariable)
	if image == "" {
		t.Skip("it needs a container engine and an image of kind's nodes: run `make e2e-kind`, or set " + ImageVariable)
	}
	c := &Cluster{
		Name:       name,
		Kubeconfig: filepath.Join(t.TempDir(), "kubeconfig"),
		provider:   cluster.NewProvider(cluster.ProviderWithDocker(), cluster.ProviderWithLogger(logger{t})),
	}
	if err := c.provider.Delete(name, c.Kubeconfig); err != nil {
		t.Fatalf("delete the cluster of an earlier run: %v", err)
	}
	t.Cleanup(func() { c.end(t) })
	err := c.provider.Create(name,
		cluster.CreateWithV1Alpha4Config(withPatches(config)),
		cluster.CreateWithNodeImage(image),
		cluster.CreateWithKubeconfigPath(c.Kubeconfig),
		cluster.CreateWithRetain(true), // until its logs are written
		cluster.CreateWithWaitForReady(patience))
	if err != nil {
		t.Fatalf("create cluster %q: %v", name, err)
	}
	if c.Config, err = clientcmd.BuildConfigFromFlags("", c.Kubeconfig); err != nil {
		t.Fatal(err)
	}
	c.waitForNode(t)
	return c
}

// withPatches returns a copy of a configuration, with what old and restricted hosts need.
func withPatches(config *v1alpha4.Cluster) *v1alpha4.Cluster {
	if config == nil {
		config = &v1alpha4.Cluster{}
	}
	config = config.DeepCopy()
	config.KubeadmConfigPatches = append(config.KubeadmConfigPatches,
		// Some hosts have cgroup v1 only.
		"kind: KubeletConfiguration\nfailCgroupV1: false\n",
		// A container may not set these. Zero leaves them as they are.
		"kind: KubeProxyConfiguration\nconntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}\n")
	return config
}

// Node returns the name of the only node, and of its container.
func (c *Cluster) Node() string { return c.Name + "-control-plane" }

// Server returns the URL of the API server for pods of other clusters. Its certificate has this
// name.
func (c *Cluster) Server() string { return "https://" + c.Node() + ":6443" }

// LoadArchive loads images into the node, from an archive for `docker load`. Pods that use them
// need the pull policy IfNotPresent or Never.
func (c *Cluster) LoadArchive(t testing.TB, file string) {
	t.Helper()
	nodes, err := c.provider.ListInternalNodes(c.Name)
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range nodes {
		if err := loadArchive(file, func(archive *os.File) error { return nodeutils.LoadImageArchive(node, archive) }); err != nil {
			t.Fatalf("load %s into %s: %v", file, node, err)
		}
	}
}

func loadArchive(file string, load func(*os.File) error) error {
	archive, err := os.Open(file)
	if err != nil {
		return err
	}
	defer archive.Close()
	return load(archive)
}

// WriteLogs writes the logs of the node and of all its pods into a directory.
func (c *Cluster) WriteLogs(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := c.provider.CollectLogs(c.Name, dir); err != nil {
		// The assembled image does not have all commands that kind calls.
		return fmt.Errorf("some logs of cluster %q are missing: %w", c.Name, err)
	}
	return nil
}

// Delete deletes the cluster and its volumes.
func (c *Cluster) Delete() error {
	if err := c.provider.Delete(c.Name, c.Kubeconfig); err != nil {
		return fmt.Errorf("delete cluster %q: %w", c.Name, err)
	}
	return nil
}

// end writes the logs if the test failed, and deletes the cluster.
func (c *Cluster) end(t testing.TB) {
	t.Helper()
	if t.Failed() {
		dir := filepath.Join(os.TempDir(), "starling-kind", c.Name)
		if err := c.WriteLogs(dir); err != nil {
			t.Logf("write logs: %v", err)
		}
		t.Logf("logs of cluster %q are in %s", c.Name, dir)
	}
	if err := c.Delete(); err != nil {
		t.Error(err)
	}
}
