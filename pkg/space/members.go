package space

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
)

const (
	// addonSecret is where OCM's agent puts the hub credentials that the status add-on gets.
	addonSecret = "addon-status-hub-kubeconfig" //nolint:gosec // a name
	// addonAccount is the add-on's identity in the WEC, which arrives there with the add-on.
	addonAccount = "status-agent-sa"

	// A WEC whose agent does not run yet is looked at often, for a user who has just accepted it is
	// waiting; the others now and then, for OCM renews their certificates.
	memberInterval = time.Second
	renewInterval  = 5 * time.Minute
	memberTimeout  = 10 * time.Second
)

// members starts the status agent of each WEC when OCM has accepted the WEC and given the agent its
// credentials, however long that takes. Where containers run, a kubelet does this.
type members struct {
	fleet      *Fleet
	supervisor *Supervisor
	last       map[string]time.Time
	told       map[string]string
}

// watchMembers runs until ctx ends.
func (f *Fleet) watchMembers(ctx context.Context, s *Supervisor) {
	m := &members{fleet: f, supervisor: s, last: map[string]time.Time{}, told: map[string]string{}}
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.clock.After(memberInterval):
			m.sync(ctx)
		}
	}
}

func (m *members) sync(ctx context.Context) {
	state, err := loadState(m.fleet.layout)
	if err != nil {
		m.tell(ctx, "", err)
		return
	}
	m.fleet.state = state
	running := map[string]bool{}
	for _, s := range m.supervisor.Status() {
		c := s.Component
		if c.Program() != programStatusAgent || slices.Contains(state.ITS, c.Space()) {
			continue
		}
		if !state.Controllers || state.WEC(c.Space()) == nil {
			m.supervisor.Remove(c.Name)
			continue
		}
		running[c.Space()] = true
	}
	if !state.Controllers {
		return
	}
	var group errgroup.Group
	group.SetLimit(parallelApply)
	problems := make([]error, len(state.WECs))
	for i, w := range state.WECs {
		if running[w.Name] && m.fleet.clock.Since(m.last[w.Name]) < renewInterval {
			continue
		}
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, memberTimeout)
			defer cancel()
			problems[i] = m.syncWEC(ctx, w.Name, running[w.Name])
			return nil
		})
	}
	_ = group.Wait() // never fails
	for i, w := range state.WECs {
		if problems[i] == nil {
			m.last[w.Name] = m.fleet.clock.Now()
		}
		m.tell(ctx, w.Name, problems[i])
	}
}

// tell logs a problem once.
func (m *members) tell(ctx context.Context, wec string, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && m.told[wec] != text {
		klog.FromContext(ctx).Info("The status agent of a cluster waits", "cluster", wec, "reason", text)
	}
	m.told[wec] = text
}

var errNoCredentials = errors.New("OCM has given no credentials to the status add-on yet")

// syncWEC writes what the agent needs and makes it run.
func (m *members) syncWEC(ctx context.Context, wec string, running bool) error {
	f := m.fleet
	kube, err := kubernetes.NewForConfig(f.adminConfig(wec))
	if err != nil {
		return err
	}
	secret, err := kube.CoreV1().Secrets(namespaceAddonAgent).Get(ctx, addonSecret, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return errNoCredentials
	}
	if err != nil {
		return fmt.Errorf("read the credentials of the status add-on: %w", err)
	}
	if err := f.writeAddonFiles(wec, secret); err != nil {
		return err
	}
	if running {
		return nil
	}
	if err := f.writeTokenKubeconfig(ctx, wec, programStatusAgent, account{namespaceAddonAgent, addonAccount}); err != nil {
		return err
	}
	c, err := f.statusAgent(wec)
	if err != nil {
		return err
	}
	return m.supervisor.Ensure(&c) //nolint:contextcheck // the process outlives this look at its cluster
}

// addonDir is where the agent's hub credentials lie, as a pod would see them.
func (f *Fleet) addonDir(wec string) string {
	return filepath.Join(f.layout.Space(wec), "addon-status")
}

var addonFiles = []string{"cluster-name", "tls.crt", "tls.key", "kubeconfig"}

// writeAddonFiles writes the keys of the Secret as files, the kubeconfig last: it names the others.
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

// statusAgent describes the status agent of a WEC.
func (f *Fleet) statusAgent(wec string) (Component, error) {
	return f.own(wec, programStatusAgent, "agent",
		"--cluster-name="+wec,
		"--hub-kubeconfig="+filepath.Join(f.addonDir(wec), "kubeconfig"),
		"--wec-kubeconfig="+f.layout.ComponentKubeconfig(wec, programStatusAgent),
	)
}

// waitStatusAgent waits until the supervisor has started the agent of a WEC and it is ready.
func (f *Fleet) waitStatusAgent(ctx context.Context, client *supervisorClient, wec string) error {
	return f.waitReady(ctx, client, componentName(wec, programStatusAgent))
}
