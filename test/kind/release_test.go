package kindtest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
)

const (
	releaseName = "starling"
	// namespace is that of the release in the hosting cluster.
	namespace = "starling"
	// installPatience is how long an installation may take. Pods wait for Secrets with a growing
	// delay.
	installPatience = 10 * time.Minute
)

// release is the release of the chart "starling" in a cluster, as helm has it.
type release struct {
	cluster *Cluster
	config  *action.Configuration
	chart   *chart.Chart
}

func newRelease(t *testing.T, c *Cluster) *release {
	t.Helper()
	loaded, err := loader.Load("../../charts/starling")
	if err != nil {
		t.Fatal(err)
	}
	flags := genericclioptions.NewConfigFlags(false)
	ns := namespace
	flags.KubeConfig, flags.Namespace = &c.Kubeconfig, &ns
	r := &release{cluster: c, chart: loaded, config: &action.Configuration{}}
	if err := r.config.Init(flags, namespace, "secret", func(string, ...any) {}); err != nil {
		t.Fatal(err)
	}
	return r
}

// install does what `helm install --wait --wait-for-jobs` does.
func (r *release) install(t *testing.T, values map[string]any) {
	t.Helper()
	install := action.NewInstall(r.config)
	install.ReleaseName, install.Namespace, install.CreateNamespace = releaseName, namespace, true
	install.Wait, install.WaitForJobs, install.Timeout = true, true, installPatience
	if _, err := install.RunWithContext(t.Context(), r.chart, values); err != nil {
		t.Fatalf("helm install: %v%s", err, r.problems(t))
	}
}

// upgrade does what `helm upgrade --wait --wait-for-jobs` does.
func (r *release) upgrade(t *testing.T, values map[string]any) {
	t.Helper()
	upgrade := action.NewUpgrade(r.config)
	upgrade.Namespace = namespace
	upgrade.Wait, upgrade.WaitForJobs, upgrade.Timeout = true, true, installPatience
	if _, err := upgrade.RunWithContext(t.Context(), releaseName, r.chart, values); err != nil {
		t.Fatalf("helm upgrade: %v%s", err, r.problems(t))
	}
}

// uninstall does what `helm uninstall --wait` does.
func (r *release) uninstall(t *testing.T) {
	t.Helper()
	uninstall := action.NewUninstall(r.config)
	uninstall.Wait, uninstall.Timeout, uninstall.DeletionPropagation = true, installPatience, "foreground"
	if _, err := uninstall.Run(releaseName); err != nil {
		t.Fatalf("helm uninstall: %v", err)
	}
}

// problems returns what does not run, and the end of its logs.
func (r *release) problems(t *testing.T) string {
	t.Helper()
	pods := r.cluster.Client(t).CoreV1().Pods(namespace)
	list, err := pods.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		return "\n" + err.Error()
	}
	var out strings.Builder
	for _, pod := range list.Items {
		for _, s := range pod.Status.ContainerStatuses {
			if s.Ready || (s.State.Terminated != nil && s.State.Terminated.ExitCode == 0) {
				continue
			}
			lines := int64(5)
			log, err := pods.GetLogs(pod.Name, &corev1.PodLogOptions{Container: s.Name, TailLines: &lines}).DoRaw(t.Context())
			if err != nil {
				log = []byte(err.Error())
			}
			fmt.Fprintf(&out, "\npod %s, container %s: %s\n%s", pod.Name, s.Name, text(s.State), log)
		}
	}
	return out.String()
}
