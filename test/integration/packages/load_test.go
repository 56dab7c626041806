package packages

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
)

// loadTime is how long random clients work; $STARLING_LOAD says otherwise.
const loadTime = 15 * time.Second

// TestRandomClients: independent clients work on a few packages through two replicas. One of them
// is killed repeatedly between two of its writes. Acknowledged writes exist, numbers are unique,
// and nothing unused remains.
func TestRandomClients(t *testing.T) {
	e := newEnvironment(t)
	duration := loadTime
	if text := os.Getenv("STARLING_LOAD"); text != "" {
		var err error
		if duration, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	var second victim
	second.replace(t, e)
	ctx, cancel := context.WithTimeout(t.Context(), duration)
	defer cancel()
	var working sync.WaitGroup
	const clients = 6
	all := make([]*client, clients)
	for i := range all {
		c := &client{environment: e, id: i, rnd: rand.New(rand.NewPCG(uint64(i), 7)), acknowledged: map[string]string{}, second: &second}
		all[i] = c
		working.Go(func() {
			for ctx.Err() == nil {
				c.act(ctx, t)
			}
		})
	}
	kills := 0
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-second.now().ended:
			kills++
			second.replace(t, e)
		}
	}
	working.Wait()
	second.now().kill()
	done := 0
	for _, c := range all {
		done += c.done
		for name, want := range c.acknowledged {
			prr, err := e.admin.resources(e.namespace).Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				t.Errorf("client %d: %s, which was acknowledged: %v", c.id, name, err)
				continue
			}
			if got := prr.Spec.Resources["note.yaml"]; got != want {
				t.Errorf("client %d: %s has %q, acknowledged was %q", c.id, name, got, want)
			}
		}
	}
	t.Logf("%d operations, %d kills", done, kills)
	if done < clients || kills == 0 {
		t.Errorf("%d operations, %d kills: too few", done, kills)
	}
	e.checkConsistent(t, true)
	revisions := e.storedRevisions(t, e.namespace)
	seen := map[string]string{}
	for i := range revisions {
		cr := &revisions[i]
		if cr.Spec.Revision == 0 {
			continue
		}
		key := fmt.Sprintf("%s/%s/v%d", cr.Spec.RepositoryName, cr.Spec.PackageName, cr.Spec.Revision)
		if other := seen[key]; other != "" {
			t.Errorf("%s and %s are both %s", other, cr.Name, key)
		}
		seen[key] = cr.Name
	}
}

// victim is the replica that is killed.
type victim struct {
	mu      sync.Mutex
	replica *replica
	user    *user
	n       int
}

func (v *victim) replace(t *testing.T, e *environment) {
	t.Helper()
	writes := slices.Sorted(maps.Values(crashPoints))
	v.n++
	r := e.startAndKill(t, writes[v.n%len(writes)], "--leader-elect=false", "--collect-every=1s")
	v.mu.Lock()
	defer v.mu.Unlock()
	v.replica, v.user = r, newUser(t, r.config)
}

func (v *victim) now() *replica {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.replica
}

func (v *victim) asUser() *user {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.user
}

// client runs random operations. Its drafts are its own; all clients share the packages.
type client struct {
	*environment
	id     int
	rnd    *rand.Rand
	second *victim
	n      int
	done   int
	// acknowledged has the acknowledged content of the revisions that only this client changes.
	acknowledged map[string]string
}

func (c *client) act(ctx context.Context, t *testing.T) {
	u := c.admin
	if c.rnd.IntN(2) == 0 {
		u = c.second.asUser()
	}
	err := c.operation(ctx, u)
	if err == nil {
		c.done++
		return
	}
	if status, answered := errors.AsType[*apierrors.StatusError](err); answered && ctx.Err() == nil {
		switch {
		case apierrors.IsConflict(err), apierrors.IsInvalid(err), apierrors.IsForbidden(err), apierrors.IsNotFound(err), apierrors.IsAlreadyExists(err):
		default:
			t.Errorf("client %d: %v: %v", c.id, status.ErrStatus.Reason, err)
		}
	}
}

func (c *client) operation(ctx context.Context, u *user) error {
	packageName := fmt.Sprintf("shared-%d", c.rnd.IntN(2))
	list, err := u.revisions(c.namespace).List(ctx, metav1.ListOptions{FieldSelector: "spec.packageName=" + packageName})
	if err != nil {
		return err
	}
	var all, publishedOnes []porchv1alpha1.PackageRevision
	for _, pr := range list.Items {
		all = append(all, pr)
		if pr.Spec.Lifecycle.Published() {
			publishedOnes = append(publishedOnes, pr)
		}
	}
	if len(all) == 0 || c.rnd.IntN(6) == 0 {
		return c.begin(ctx, u, packageName, publishedOnes)
	}
	pr := &all[c.rnd.IntN(len(all))]
	switch dice := c.rnd.IntN(10); {
	case dice < 2:
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{"client":"%d"}}}`, c.id)
		_, err := u.revisions(c.namespace).Patch(ctx, pr.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	case dice < 4:
		return c.edit(ctx, u, pr)
	case dice == 9:
		if len(all) < 4 {
			return nil
		}
		err := u.revisions(c.namespace).Delete(ctx, pr.Name, metav1.DeleteOptions{})
		return err
	}
	switch pr.Spec.Lifecycle {
	case draft:
		pr.Spec.Lifecycle = proposed
	case proposed:
		pr.Spec.Lifecycle = published
		_, err := u.approve(ctx, pr)
		return err
	case published:
		if len(publishedOnes) < 3 {
			return nil
		}
		pr.Spec.Lifecycle = deletionProposed
	default:
		return u.revisions(c.namespace).Delete(ctx, pr.Name, metav1.DeleteOptions{})
	}
	_, err = u.revisions(c.namespace).Update(ctx, pr, metav1.UpdateOptions{})
	return err
}

// begin creates a revision of the shared package, or a draft of the client's own package.
func (c *client) begin(ctx context.Context, u *user, packageName string, from []porchv1alpha1.PackageRevision) error {
	c.n++
	workspace := fmt.Sprintf("c%d-%d", c.id, c.n)
	if c.rnd.IntN(3) == 0 {
		pr, err := u.create(ctx, c.revision("downstream", workspace, "own"))
		if err != nil {
			return err
		}
		return c.edit(ctx, u, pr)
	}
	pr := c.revision("upstream", packageName, workspace)
	if len(from) > 0 {
		pr.Spec.Tasks = []porchv1alpha1.Task{task(porchv1alpha1.TaskTypeEdit, from[c.rnd.IntN(len(from))].Name)}
	}
	_, err := u.create(ctx, pr)
	return err
}

// edit writes a file into a draft. For an own draft, it records an acknowledged write, and removes
// the record if the result is not known.
func (c *client) edit(ctx context.Context, u *user, pr *porchv1alpha1.PackageRevision) error {
	prr, err := u.resources(c.namespace).Get(ctx, pr.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	own := pr.Spec.RepositoryName == "downstream"
	text := fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: note\ndata:\n  n: \"%d-%d\"\n", c.id, c.rnd.IntN(1e9))
	prr.Spec.Resources["note.yaml"] = text
	delete(c.acknowledged, pr.Name)
	_, err = u.resources(c.namespace).Update(ctx, prr, metav1.UpdateOptions{})
	if err == nil && own {
		c.acknowledged[pr.Name] = text
	}
	return err
}

// TestConflictingCreations: several packages that exclude each other are created concurrently,
// through two replicas. At most one exists afterwards: the one whose creation succeeded.
func TestConflictingCreations(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	ctx := t.Context()
	first := e.move(t, e.make(t, e.revision("upstream", "base", "v1")), published)
	replicas := []*user{e.admin, newUser(t, e.start(t, "--leader-elect=false").config)}
	for round := range 8 {
		name := fmt.Sprintf("p%d", round)
		var wanted []*porchv1alpha1.PackageRevision
		for _, of := range []struct{ packageName, workspace string }{{name, "v1"}, {name, "v2"}, {name, "v3"}, {name + "/inside", "v1"}, {name + "/inside", "v2"}} {
			pr := e.revision("downstream", of.packageName, of.workspace)
			pr.Spec.Tasks = []porchv1alpha1.Task{task(porchv1alpha1.TaskTypeClone, first.Name)}
			wanted = append(wanted, pr)
		}
		began := time.Now()
		var mu sync.Mutex
		succeeded := map[string]bool{}
		var group errgroup.Group
		for i, pr := range wanted {
			group.Go(func() error {
				made, err := replicas[i%len(replicas)].create(ctx, pr)
				switch {
				case apierrors.IsInvalid(err):
				case err != nil:
					return err
				default:
					mu.Lock()
					defer mu.Unlock()
					succeeded[made.Name] = true
				}
				return nil
			})
		}
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
		there := map[string]bool{}
		for _, cr := range e.storedRevisions(t, e.namespace) {
			if cr.Spec.PackageName == name || cr.Spec.PackageName == name+"/inside" {
				there[cr.Name] = true
			}
		}
		if !maps.Equal(succeeded, there) || len(there) > 1 {
			t.Errorf("%v exist, and the creation of %v succeeded", there, succeeded)
		}
		// A request whose watch is late lists instead, and then all may be undone.
		const patience = 2 * time.Second
		if took := time.Since(began); len(there) == 0 && took < patience {
			t.Errorf("none exists, after %s", took)
		}
	}
}
