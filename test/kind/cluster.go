package kindtest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
	"sigs.k8s.io/kind/pkg/cluster"
	"sigs.k8s.io/kind/pkg/cluster/nodes"
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
// It blocks until the node is Ready and has the images of these archives. It skips the test if
// there is no image of nodes.
func Create(t testing.TB, name string, archives ...string) *Cluster {
	t.Helper()
	return CreateAll(t, []string{name}, archives...)[0]
}

// CreateAll creates several clusters side by side, as Create does.
func CreateAll(t testing.TB, names []string, archives ...string) []*Cluster {
	t.Helper()
	image := os.Getenv(ImageVariable)
	if image == "" {
		t.Skip("it needs a container engine and an image of kind's nodes: run `make e2e-kind`, or set " + ImageVariable)
	}
	clusters := make([]*Cluster, len(names))
	var group errgroup.Group
	for i, name := range names {
		c := &Cluster{
			Name:       name,
			Kubeconfig: filepath.Join(t.TempDir(), "kubeconfig"),
			provider:   cluster.NewProvider(cluster.ProviderWithDocker(), cluster.ProviderWithLogger(logger{t})),
		}
		clusters[i] = c
		t.Cleanup(func() { c.end(t) })
		group.Go(func() error {
			if err := c.create(image, archives); err != nil {
				return fmt.Errorf("create cluster %q: %w", name, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, c := range clusters {
		c.waitForNode(t)
	}
	return clusters
}

// create creates the cluster and loads the archives.
func (c *Cluster) create(image string, archives []string) error {
	if err := c.Delete(); err != nil { // of an earlier run
		return err
	}
	err := c.provider.Create(c.Name,
		cluster.CreateWithV1Alpha4Config(configuration()),
		cluster.CreateWithNodeImage(image),
		cluster.CreateWithKubeconfigPath(c.Kubeconfig),
		cluster.CreateWithRetain(true), // until its logs are written
		cluster.CreateWithWaitForReady(patience))
	if err != nil {
		return err
	}
	if c.Config, err = clientcmd.BuildConfigFromFlags("", c.Kubeconfig); err != nil {
		return err
	}
	for _, archive := range archives {
		if err := c.load(archive); err != nil {
			return fmt.Errorf("load %s: %w", archive, err)
		}
	}
	return nil
}

// configuration is that of a cluster, with what old and restricted hosts need.
func configuration() *v1alpha4.Cluster {
	return &v1alpha4.Cluster{KubeadmConfigPatches: []string{
		// Some hosts have cgroup v1 only.
		"kind: KubeletConfiguration\nfailCgroupV1: false\n",
		// A container may not set these. Zero leaves them as they are.
		"kind: KubeProxyConfiguration\nconntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}\n",
	}}
}

// Node returns the name of the only node, and of its container.
func (c *Cluster) Node() string { return c.Name + "-control-plane" }

// Server returns the URL of the API server for pods of other clusters. Its certificate has this
// name.
func (c *Cluster) Server() string { return "https://" + c.Node() + ":6443" }

// load loads images into the node, from an archive for `docker load`. Pods that use them need the
// pull policy IfNotPresent or Never.
func (c *Cluster) load(file string) error {
	node, err := c.node()
	if err != nil {
		return err
	}
	archive, err := os.Open(file)
	if err != nil {
		return err
	}
	defer archive.Close()
	return nodeutils.LoadImageArchive(node, archive)
}

// Tag gives an image that the node has another tag as well.
func (c *Cluster) Tag(t testing.TB, image name.Tag, tag string) {
	t.Helper()
	node, err := c.node()
	if err != nil {
		t.Fatal(err)
	}
	// The node's containerd has the whole names.
	const registry = "docker.io/"
	from, to := registry+image.RepositoryStr()+":"+image.TagStr(), registry+image.RepositoryStr()+":"+tag
	if err := nodeutils.ReTagImage(node, from, to); err != nil {
		t.Fatalf("tag %s in cluster %q: %v", from, c.Name, err)
	}
}

func (c *Cluster) node() (nodes.Node, error) {
	list, err := c.provider.ListInternalNodes(c.Name)
	if err != nil {
		return nil, err
	}
	if len(list) != 1 {
		return nil, fmt.Errorf("cluster %q has %d nodes, want 1", c.Name, len(list))
	}
	return list[0], nil
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
