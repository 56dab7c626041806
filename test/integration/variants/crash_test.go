package variants

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/pkg/controller/variants"
	"github.com/starlinghq/starling/test/testenv"
)

// victim starts a binding-controller that kills itself at a point, and returns what waits for that.
func victim(t *testing.T, point string) (wait func()) {
	t.Helper()
	binary, err := testenv.Binary()
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	cmd := exec.Command(filepath.Join(filepath.Dir(binary), "binding-controller"), "--controllers=packages", "--leader-elect=false",
		"--wds-kubeconfig="+testenv.Shared(t).Kubeconfig(), "--wds-context="+wds)
	cmd.Env = append(os.Environ(), "STARLING_KILL_AT="+point)
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	return func() {
		t.Helper()
		select {
		case <-ended:
			if cmd.ProcessState.Success() || cmd.ProcessState.Exited() {
				t.Fatalf("it ended by itself:\n%s", &log)
			}
		case <-time.After(soon):
			_ = cmd.Process.Kill()
			<-ended
			t.Fatalf("%s was not reached:\n%s", point, &log)
		}
	}
}

// counts is how many revisions of a package are at a point of their lives.
type counts = map[porchv1alpha1.PackageRevisionLifecycle]int

// TestKilledBetweenWrites: a controller is killed after each kind of write. The next one goes on from there: nothing is lost, nothing is there
// twice, and it ends as it would have.
func TestKilledBetweenWrites(t *testing.T) {
	e := newEnvironment(t)
	v1 := e.publish(t, "catalog", "web", "v1", "", map[string]string{"a.yaml": configMap("a", "upstream", "one")})
	v2 := e.publish(t, "catalog", "web", "v2", v1, map[string]string{"a.yaml": configMap("a", "upstream", "two")})
	point := func(namespace string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: " + namespace + ", annotations: {kpt.dev/config-injection: required}}\n"
	}
	bad := e.publish(t, "catalog", "bad", "v1", "", map[string]string{"a.yaml": point("a"), "b.yaml": point("b")})
	pv := func(name, revision, more string) string {
		return wants(name, "package: web, revision: "+revision, name, more)
	}
	// cases say what is there before, what happens then, and what is to come of it.
	type outcome struct {
		counts   counts
		upstream string // "" if the PackageVariant is gone
		state    configv1alpha1.VariantState
		reason   string // of Ready, if it is not
	}
	drafted := outcome{counts{draft: 1}, v1, configv1alpha1.VariantDraft, ""}
	made := func(name string) { e.create(t, pv(name, "1", "")) }
	released := func(more string) func(string) {
		return func(name string) {
			e.create(t, pv(name, "1", more))
			e.ready(t, name, v1, configv1alpha1.VariantDraft)
			e.move(t, e.only(t, "edge", name, draft).Name, published)
			e.replace(t, pv(name, "2", more))
			e.ready(t, name, v2, configv1alpha1.VariantDraft)
		}
	}
	deleted := func(name string) {
		if err := e.variants().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	asked := func(name string) { e.create(t, asking(name, "always", "package: web, revision: 1", "")) }
	for _, c := range []struct {
		point         string
		before, event func(name string)
		want          outcome
	}{
		{"variants/add-finalizer", nil, made, drafted},
		{"variants/create", nil, made, drafted},
		{"variants/files", nil, made, drafted},
		{"variants/status", nil, made, drafted},
		{"variants/begin", func(name string) {
			made(name)
			e.ready(t, name, v1, configv1alpha1.VariantDraft)
		}, func(name string) { e.replace(t, pv(name, "2", "")) }, outcome{counts{draft: 1}, v2, configv1alpha1.VariantDraft, ""}},
		{
			"variants/failed", nil, func(name string) { e.create(t, wants(name, "package: bad, revision: 1", name, "")) },
			outcome{counts{draft: 1}, bad, configv1alpha1.VariantDraft, configv1alpha1.ReasonError},
		},
		{
			"variants/adopt", func(name string) { e.draft(t, "edge", name, "mine", "", nil) },
			func(name string) { e.create(t, pv(name, "1", "adoptionPolicy: adoptExisting")) }, drafted,
		},
		{"variants/release", released("deletionPolicy: orphan"), deleted, outcome{counts: counts{draft: 1, published: 1}}},
		{"variants/delete", released(""), deleted, outcome{counts: counts{deletion: 1}}},
		{"variants/propose-deletion", released(""), deleted, outcome{counts: counts{deletion: 1}}},
		{"variants/remove-finalizer", released(""), deleted, outcome{counts: counts{deletion: 1}}},
		{"variants/restore", func(name string) {
			released("")(name)
			e.delete(t, name)
		}, func(name string) { e.create(t, pv(name, "2", "")) }, outcome{counts{published: 1, draft: 1}, v2, configv1alpha1.VariantDraft, ""}},
		{"variants/propose", nil, asked, outcome{counts{published: 1}, v1, configv1alpha1.VariantPublished, ""}},
		{"variants/approve", nil, asked, outcome{counts{published: 1}, v1, configv1alpha1.VariantPublished, ""}},
	} {
		t.Run(strings.TrimPrefix(c.point, "variants/"), func(t *testing.T) {
			if !slices.Contains(variants.Points(), c.point) {
				t.Fatal("there is no such point")
			}
			name := strings.TrimPrefix(c.point, "variants/")
			if c.before != nil {
				stop := e.run(t)
				c.before(name)
				e.quiet(t)
				stop()
			}
			wait := victim(t, c.point)
			c.event(name)
			wait()
			stop := e.run(t)
			defer stop()
			all := e.lifecycles(t, name, c.want.counts)
			switch {
			case c.want.upstream == "":
				testenv.Eventually(t, soon, func() (bool, string) {
					_, err := e.variants().Get(t.Context(), name, metav1.GetOptions{})
					return err != nil, "the PackageVariant is still there"
				})
				if o := owners(e.list(t, "edge", name)); o != "" {
					t.Errorf("owners: %s", o)
				}
			case c.want.reason != "":
				e.condition(t, name, configv1alpha1.ConditionReady, c.want.reason)
			default:
				e.ready(t, name, c.want.upstream, c.want.state)
			}
			e.quiet(t)
			// It stays so.
			for revision, pr := range e.lifecycles(t, name, c.want.counts) {
				if was := all[revision]; was == nil || was.UID != pr.UID {
					t.Errorf("%s is another", revision)
				}
			}
			// What is done with the rest of it is not seen by the next case.
			if c.want.upstream != "" {
				e.replaceDeletion(t, name)
				e.delete(t, name)
			}
		})
	}
	covered := 14
	if n := len(variants.Points()); n != covered {
		t.Errorf("%d points, of which %d are tried", n, covered)
	}
}

// replaceDeletion has a PackageVariant leave all that it made.
func (e *environment) replaceDeletion(t *testing.T, name string) {
	t.Helper()
	if _, err := e.variants().Patch(t.Context(), name, "application/merge-patch+json", []byte(`{"spec":{"deletionPolicy":"orphan"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}
