package packages

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
)

const (
	draft            = porchv1alpha1.LifecycleDraft
	proposed         = porchv1alpha1.LifecycleProposed
	published        = porchv1alpha1.LifecyclePublished
	deletionProposed = porchv1alpha1.LifecycleDeletionProposed
)

var lifecycles = []porchv1alpha1.PackageRevisionLifecycle{draft, proposed, published, deletionProposed}

// byUpdate and byApproval are the allowed transitions, from the documentation of the API.
var (
	byUpdate = map[porchv1alpha1.PackageRevisionLifecycle][]porchv1alpha1.PackageRevisionLifecycle{
		draft:            {draft, proposed},
		proposed:         {draft, proposed},
		published:        {published, deletionProposed},
		deletionProposed: {published, deletionProposed},
	}
	byApproval = map[porchv1alpha1.PackageRevisionLifecycle][]porchv1alpha1.PackageRevisionLifecycle{
		proposed:         {published, draft},
		published:        {deletionProposed},
		deletionProposed: {published},
	}
)

// TestLifecycle tests all transitions between all lifecycles, with gates met and not met, enforced
// and not enforced, by users with and without the right.
func TestLifecycle(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	e.allow(t, "alice", "starling:package-author")
	e.allow(t, "rob", "starling:package-reviewer")
	lax := e.start(t, "--enforce-gates=false", "--leader-elect=false")
	for _, way := range []struct {
		name   string
		config *rest.Config
		gates  bool
	}{
		{"ThroughTheAggregator", e.config, true},
		{"WithoutGates", lax.config, false},
	} {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			m := &matrix{environment: e, author: newUser(t, impersonate(way.config, "alice")), reviewer: newUser(t, impersonate(way.config, "rob")), gates: way.gates, way: strings.ToLower(way.name)}
			for _, from := range lifecycles {
				for _, ready := range []bool{true, false} {
					if !ready && from != draft && from != proposed {
						continue // nothing can become unready there
					}
					for _, to := range lifecycles {
						m.step(t, from, to, ready)
					}
					m.deletion(t, from, ready)
					m.files(t, from, ready)
				}
			}
		})
	}
}

type matrix struct {
	*environment
	author, reviewer *user
	gates            bool
	way              string
	n                int
}

// at creates a revision with a lifecycle whose gates are met or not.
func (m *matrix) at(t *testing.T, l porchv1alpha1.PackageRevisionLifecycle, ready bool) *porchv1alpha1.PackageRevision {
	t.Helper()
	m.n++
	pr := m.revision("upstream", fmt.Sprintf("%s-%d", m.way, m.n), "v1")
	pr.Spec.ReadinessGates = []porchv1alpha1.ReadinessGate{{ConditionType: "Scanned"}}
	pr.Status.Conditions = []porchv1alpha1.Condition{{Type: "Scanned", Status: porchv1alpha1.ConditionTrue, Reason: "Clean"}}
	pr = m.move(t, m.make(t, pr), l)
	if ready {
		return pr
	}
	i := slices.IndexFunc(pr.Status.Conditions, func(c porchv1alpha1.Condition) bool { return c.Type == "Scanned" })
	pr.Status.Conditions[i] = porchv1alpha1.Condition{Type: "Scanned", Status: porchv1alpha1.ConditionFalse, Reason: "Found", Message: "a hole"}
	return must[*porchv1alpha1.PackageRevision](t)(m.admin.revisions(m.namespace).Update(t.Context(), pr, metav1.UpdateOptions{}))
}

// step tries one transition by both users, on the object and on its subresource.
func (m *matrix) step(t *testing.T, from, to porchv1alpha1.PackageRevisionLifecycle, ready bool) {
	t.Helper()
	for _, approval := range []bool{false, true} {
		ways, may, mayNot := byUpdate, m.author, m.reviewer
		if approval {
			ways, may, mayNot = byApproval, m.reviewer, m.author
		}
		name := fmt.Sprintf("%s to %s, approval %t, ready %t", from, to, approval, ready)
		pr := m.at(t, from, ready)
		try := func(u *user) (*porchv1alpha1.PackageRevision, error) {
			wanted := pr.DeepCopy()
			wanted.Spec.Lifecycle = to
			if approval {
				return u.approve(t.Context(), wanted)
			}
			return u.revisions(m.namespace).Update(t.Context(), wanted, metav1.UpdateOptions{})
		}
		if _, err := try(mayNot); !apierrors.IsForbidden(err) {
			t.Errorf("%s: by a user without the right: %v", name, err)
		}
		gated := m.gates && !ready && (from == draft && to == proposed || from == proposed && to == published)
		leads := slices.Contains(ways[from], to)
		got, err := try(may)
		switch {
		case leads && !gated:
			if err != nil {
				t.Errorf("%s: refused: %v", name, err)
				continue
			}
			m.check(t, name, pr, got, from, to)
			continue
		case err == nil:
			t.Errorf("%s: allowed", name)
		case leads && (!strings.Contains(err.Error(), "Scanned") || !strings.Contains(err.Error(), "a hole")):
			t.Errorf("%s: the refusal does not name gate and condition: %v", name, err)
		case !apierrors.IsInvalid(err):
			t.Errorf("%s: refused as %v", name, err)
		case approval && from == draft && !strings.Contains(err.Error(), "cannot approve package with Draft lifecycle value; only Proposed packages can be approved"):
			t.Errorf("%s: refused as %v", name, err)
		}
		now := must[*porchv1alpha1.PackageRevision](t)(m.admin.revisions(m.namespace).Get(t.Context(), pr.Name, metav1.GetOptions{}))
		if now.ResourceVersion != pr.ResourceVersion {
			t.Errorf("%s: refused, and yet written", name)
		}
	}
}

// check checks the result of a step that was allowed.
func (m *matrix) check(t *testing.T, name string, before, got *porchv1alpha1.PackageRevision, from, to porchv1alpha1.PackageRevisionLifecycle) {
	t.Helper()
	if got.Spec.Lifecycle != to || got.UID != before.UID {
		t.Errorf("%s: is at %s", name, got.Spec.Lifecycle)
	}
	if wantNumber := to.Published(); (got.Spec.Revision == 1) != wantNumber || (got.Labels[porchv1alpha1.LatestRevisionLabel] == "true") != wantNumber {
		t.Errorf("%s: revision %d, labels %v", name, got.Spec.Revision, got.Labels)
	}
	if from == proposed && to == published && (got.Status.PublishedBy != "rob" || got.Status.PublishedAt.IsZero()) {
		t.Errorf("%s: published by %q at %v", name, got.Status.PublishedBy, got.Status.PublishedAt)
	}
}

func (m *matrix) deletion(t *testing.T, from porchv1alpha1.PackageRevisionLifecycle, ready bool) {
	t.Helper()
	name := fmt.Sprintf("delete at %s, ready %t", from, ready)
	pr := m.at(t, from, ready)
	if err := m.reviewer.revisions(m.namespace).Delete(t.Context(), pr.Name, metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("%s: by a user without the right: %v", name, err)
	}
	err := m.author.revisions(m.namespace).Delete(t.Context(), pr.Name, metav1.DeleteOptions{})
	switch {
	case from == published && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "must be proposed for deletion")):
		t.Errorf("%s: %v", name, err)
	case from != published && err != nil:
		t.Errorf("%s: %v", name, err)
	}
	_, err = m.admin.revisions(m.namespace).Get(t.Context(), pr.Name, metav1.GetOptions{})
	if gone := apierrors.IsNotFound(err); gone == (from == published) {
		t.Errorf("%s: afterwards %v", name, err)
	}
}

func (m *matrix) files(t *testing.T, from porchv1alpha1.PackageRevisionLifecycle, ready bool) {
	t.Helper()
	name := fmt.Sprintf("files at %s, ready %t", from, ready)
	pr := m.at(t, from, ready)
	prr := must[*porchv1alpha1.PackageRevisionResources](t)(m.reviewer.resources(m.namespace).Get(t.Context(), pr.Name, metav1.GetOptions{}))
	prr.Spec.Resources["new.yaml"] = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: new\n"
	if _, err := m.reviewer.resources(m.namespace).Update(t.Context(), prr, metav1.UpdateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("%s: by a user without the right: %v", name, err)
	}
	_, err := m.author.resources(m.namespace).Update(t.Context(), prr, metav1.UpdateOptions{})
	if from == draft && err != nil || from != draft && (err == nil || !strings.Contains(err.Error(), "package must be Draft")) {
		t.Errorf("%s: %v", name, err)
	}
}
