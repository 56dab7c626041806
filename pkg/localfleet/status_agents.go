package localfleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/starlinghq/starling/pkg/install/manifest"
	"github.com/starlinghq/starling/pkg/install/ocm"
)

const (
	// addonSecret is the Secret in which OCM's agent stores the hub credentials of the status
	// add-on.
	addonSecret = "addon-status-hub-kubeconfig" //nolint:gosec // a name
	// addonAccount is the add-on's identity in the WEC. The add-on's manifests create it.
	addonAccount = "status-agent-sa"

	// A WEC whose agent does not run is checked every second, because a user who has just accepted
	// it waits. The others are checked every five minutes, because OCM renews their certificates.
	agentInterval = time.Second
	renewInterval = 5 * time.Minute
	agentTimeout  = 10 * time.Second

	// parallelAgents limits the number of WECs that are synced at the same time.
	parallelAgents = 8
)

// statusAgents starts the status agent of each WEC when OCM has accepted the WEC and has issued the
// agent's credentials, however long that takes. In a cluster with nodes, kubelets do this.
type statusAgents struct {
	fleet      *Fleet
	supervisor *Supervisor
	// synced is when each WEC was synced last, logged the problem of each WEC that was logged last.
	synced map[string]time.Time
	logged map[string]string
}

// runStatusAgents runs until ctx ends.
func (f *Fleet) runStatusAgents(ctx context.Context, s *Supervisor) {
	a := &statusAgents{fleet: f, supervisor: s, synced: map[string]time.Time{}, logged: map[string]string{}}
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.clock.After(agentInterval):
			a.sync(ctx)
		}
	}
}

func (a *statusAgents) sync(ctx context.Context) {
	state, _, err := loadState(a.fleet.layout)
	if err != nil {
		a.logProblem(ctx, "", err)
		return
	}
	a.fleet.state = state
	running := map[string]bool{}
	for _, s := range a.supervisor.Status() {
		c := s.Component
		if c.Program() != programStatusAgent || slices.Contains(state.ITS, c.Space()) {
			continue
		}
		if !state.Controllers || state.WEC(c.Space()) == nil {
			a.supervisor.Remove(c.Name)
			continue
		}
		running[c.Space()] = true
	}
	if !state.Controllers {
		return
	}
	var group errgroup.Group
	group.SetLimit(parallelAgents)
	problems := make([]error, len(state.WECs))
	for i, w := range state.WECs {
		if running[w.Name] && a.fleet.clock.Since(a.synced[w.Name]) < renewInterval {
			continue
		}
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, agentTimeout)
			defer cancel()
			problems[i] = a.syncWEC(ctx, w.Name, running[w.Name])
			return nil
		})
	}
	_ = group.Wait() // never fails
	for i, w := range state.WECs {
		if problems[i] == nil {
			a.synced[w.Name] = a.fleet.clock.Now()
		}
		a.logProblem(ctx, w.Name, problems[i])
	}
}

// logProblem logs the problem of a WEC unless it was logged last.
func (a *statusAgents) logProblem(ctx context.Context, wec string, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && a.logged[wec] != text {
		klog.FromContext(ctx).Info("Cannot start status agent; will retry", "cluster", wec, "reason", text)
	}
	a.logged[wec] = text
}

var errNoCredentials = errors.New("OCM has not issued the credentials of the status add-on yet")

// syncWEC writes the files that the agent of a WEC needs, and starts it.
func (a *statusAgents) syncWEC(ctx context.Context, wec string, running bool) error {
	f := a.fleet
	kube, err := kubernetes.NewForConfig(f.adminConfig(wec))
	if err != nil {
		return err
	}
	secret, err := kube.CoreV1().Secrets(ocm.NamespaceAddonAgent).Get(ctx, addonSecret, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return errNoCredentials
	}
	if err != nil {
		return fmt.Errorf("get Secret %q: %w", addonSecret, err)
	}
	if err := f.writeAddonFiles(wec, secret); err != nil {
		return err
	}
	if running {
		return nil
	}
	if err := f.writeTokenKubeconfig(ctx, wec, programStatusAgent, manifest.Account{Namespace: ocm.NamespaceAddonAgent, Name: addonAccount}); err != nil {
		return err
	}
	return a.supervisor.Ensure(f.controller(wec, programStatusAgent, "agent", //nolint:contextcheck // the process outlives this call
		"--cluster-name="+wec,
		"--hub-kubeconfig="+filepath.Join(f.addonDir(wec), "kubeconfig"),
		"--wec-kubeconfig="+f.layout.ComponentKubeconfig(wec, programStatusAgent),
	))
}

// addonDir is the directory of the agent's hub credentials. Its files are those that a pod would
// mount.
func (f *Fleet) addonDir(wec string) string {
	return filepath.Join(f.layout.Space(wec), "addon-status")
}

var addonFiles = []string{"cluster-name", "tls.crt", "tls.key", "kubeconfig"}

// writeAddonFiles writes the keys of the Secret as files, and the kubeconfig last, because it
// refers to the others.
func (f *Fleet) writeAddonFiles(wec string, secret *corev1.Secret) error {
	for _, name := range addonFiles {
		if len(secret.Data[name]) == 0 {
			return errNoCredentials
		}
	}
	for _, name := range addonFiles {
		file := filepath.Join(f.addonDir(wec), name)
		if old, err := os.ReadFile(file); err == nil && bytes.Equal(old, secret.Data[name]) {
			continue
		}
		if err := writeFile(file, secret.Data[name]); err != nil {
			return err
		}
	}
	return nil
}
