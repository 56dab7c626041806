package workagent

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	workv1 "open-cluster-management.io/api/work/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/transform"
	"github.com/starlinghq/starling/pkg/works"
	"github.com/starlinghq/starling/test/agentmodel"
	"github.com/starlinghq/starling/test/testenv"
)

// TestModel does the same to OCM's agent and to the model with which package plan is tested: one
// work, which goes through the states that matter. After each look, both clusters have the same
// objects with the same owners, and both agents have the same account and report the same.
//
// It shows what an object does that the agent cannot read, since the cluster does not serve its
// kind or does not let the agent: what left the work stays, and what came is reported, and not
// recorded. If that leaves before the sibling can be read again, it stays in the cluster forever.
func TestModel(t *testing.T) {
	site := testenv.Name(t)
	s := &scenes{T: t, site: site, real: newAgent(t, site, "agent-"+site), model: agentmodel.New()}
	s.allow("agent-"+site, "configmaps")
	orphan, withdrawn := plan.Options{Orphan: true}, plan.Options{Observe: true}
	const widget, secret = "widgets/w", "secrets/s"

	s.look("a and b come", "a", "b")
	s.look("b leaves", "a")
	s.look("a kind that is not served comes, and a leaves, and c comes", "c", widget)
	s.look("c leaves", "d", widget)
	s.look("d leaves, and what is not served", "e")
	s.want("c stays forever: it was never recorded", "c")

	s.look("what the agent may not read comes, and e leaves, and f comes", "f", secret)
	s.with("f", withdrawn)
	s.look("f is withdrawn", "f", secret)
	s.look("what the agent may not read leaves", "f")
	s.want("f was recorded while it was withdrawn", "f")
	s.look("f leaves", "g")

	s.look("h comes", "g", "h")
	s.with("h", orphan)
	s.edit("g", "h") // the agent is away
	s.look("h was to be orphaned, and leaves, while the agent was away", "g")
	s.want("h is deleted: the agent has not seen that it is to stay")
	s.with("g", orphan)
	s.look("g is to be orphaned", "g")
	s.look("g leaves", "i")
	s.want("g stays: the agent has seen that", "g")

	s.with("i", plan.Options{CreateOnly: true, Orphan: true})
	s.look("i is released", "i")
	s.with("i", plan.Options{})
	s.look("i is owned again", "i")
	s.look("i leaves", "k")
	s.refuse("k")
	s.look("an edit of k is refused", "k", "l")
	s.look("k leaves", "l")
}

// scenes are what happens to one work, in reality and in the model.
type scenes struct {
	*testing.T
	site    string
	real    *realAgent
	model   *agentmodel.Cluster
	options map[string]plan.Options
	refused map[string]bool
	names   map[string]bool // all that were ever in the work
	// left are what the model knows of the objects that left the work.
	work *plan.Work
}

// allow lets the agent do everything with these resources, and with its accounts.
func (s *scenes) allow(user string, resources ...string) {
	s.Helper()
	all := []string{"*"}
	rbac := s.real.kube.RbacV1()
	_, err := rbac.ClusterRoles().Create(s.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: resources, Verbs: all}},
	}, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	_, err = rbac.ClusterRoleBindings().Create(s.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
	}, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
}

// with sets the options of an object.
func (s *scenes) with(name string, o plan.Options) {
	if s.options == nil {
		s.options = map[string]plan.Options{}
	}
	s.options[name] = o
}

// refuse makes the cluster refuse all edits of an object.
func (s *scenes) refuse(name string) {
	s.Helper()
	_, err := s.real.kube.CoreV1().ConfigMaps(s.site).Patch(s.Context(), name, types.MergePatchType, []byte(`{"immutable":true}`), metav1.PatchOptions{})
	if err != nil {
		s.Fatal(err)
	}
	s.refused = map[string]bool{name: true}
}

// item returns an object of the work.
func (s *scenes) item(name string) (item plan.Item, raw []byte) {
	ref, kind, version, content := objref.Ref{Resource: "configmaps", Namespace: s.site, Name: name}, "ConfigMap", "v1", "1"
	switch name {
	case "widgets/w":
		ref, kind, version = objref.Ref{Group: "example.com", Resource: "widgets", Namespace: s.site, Name: "w"}, "Widget", "example.com/v1"
	case "secrets/s":
		ref.Resource, ref.Name, kind = "secrets", "s", "Secret"
	}
	if s.refused[name] {
		content = "2"
	}
	object := map[string]any{
		"apiVersion": version, "kind": kind, "metadata": map[string]any{"namespace": ref.Namespace, "name": ref.Name},
		"data": map[string]any{"a": content},
	}
	options := s.options[name]
	if options.Observe {
		delete(object, "data")
		object["metadata"].(map[string]any)["annotations"] = map[string]any{controlv1alpha1.AnnotationWithdrawn: "true"} //nolint:forcetypeassert // it was set above
	}
	raw, err := json.Marshal(object)
	if err != nil {
		s.Fatal(err)
	}
	return plan.Item{Ref: ref, Kind: kind, Hash: transform.HashOf(raw), Options: options, Withdrawn: options.Observe}, raw
}

// edit writes the work.
func (s *scenes) edit(names ...string) {
	s.Helper()
	work := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: "w", Finalizers: []string{workv1.ManifestWorkFinalizer}}}
	client := s.real.hub.WorkV1().ManifestWorks(s.site)
	write := func(ctx context.Context, w *workv1.ManifestWork) (*workv1.ManifestWork, error) {
		return client.Create(ctx, w, metav1.CreateOptions{})
	}
	if s.work != nil {
		var err error
		if work, err = client.Get(s.Context(), "w", metav1.GetOptions{}); err != nil {
			s.Fatal(err)
		}
		write = func(ctx context.Context, w *workv1.ManifestWork) (*workv1.ManifestWork, error) {
			return client.Update(ctx, w, metav1.UpdateOptions{})
		}
	}
	var entries []plan.Entry
	var items []plan.Item
	var manifests []workv1.Manifest
	if s.names == nil {
		s.names = map[string]bool{}
	}
	for _, name := range names {
		s.names[name] = true
		item, raw := s.item(name)
		var manifest workv1.Manifest
		manifest.Raw = raw
		manifests = append(manifests, manifest)
		items, entries = append(items, item), append(entries, plan.Entry{Ref: item.Ref, Kind: item.Kind, Options: item.Options})
	}
	work.Spec = works.Remainder(entries)
	work.Spec.Workload.Manifests = manifests
	work.Annotations = map[string]string{controlv1alpha1.AnnotationKinds: works.Kinds(entries)}
	work, err := write(s.Context(), work)
	if err != nil {
		s.Fatal(err)
	}
	s.work = &plan.Work{Name: "w", UID: "w", Generation: work.Generation, Items: items}
}

// look writes the work, lets both agents look at it, and compares.
func (s *scenes) look(what string, names ...string) {
	s.Helper()
	s.edit(names...)
	client, accounts := s.real.hub.WorkV1().ManifestWorks(s.site), s.real.wec.WorkV1().AppliedManifestWorks()
	account := "hub-" + s.site + "-w"
	if own, err := accounts.Get(s.Context(), account, metav1.GetOptions{}); err == nil {
		if err := s.real.accounts.Informer().GetStore().Add(own); err != nil {
			s.Fatal(err)
		}
	}
	work, err := client.Get(s.Context(), "w", metav1.GetOptions{})
	if err == nil {
		err = s.real.works.Informer().GetStore().Add(work)
	}
	if err != nil {
		s.Fatal(err)
	}
	if err := s.real.Sync(s.Context(), s.real.SyncContext(), "w"); err != nil {
		s.Logf("%s: OCM's agent: %v", what, err)
	}
	_, reported := s.model.Sync(s.work, agentmodel.Accounted, func(ref objref.Ref) agentmodel.Obstacle {
		switch {
		case ref.Resource == "widgets":
			return agentmodel.NotServed
		case ref.Resource == "secrets":
			return agentmodel.Forbidden
		case s.refused[ref.Name]:
			return agentmodel.Refused
		}
		return agentmodel.None
	})

	var want, got []string
	for name := range s.names {
		item, _ := s.item(name)
		if o := s.model.Objects[item.Ref]; o != nil {
			want = append(want, fmt.Sprintf("%s, owned %t, listed %t", name, o.Owners["w"], s.model.Lists("w")[item.Ref]))
		}
	}
	for i := range reported.Items {
		want = append(want, stateOf(&reported.Items[i]))
	}
	own, err := accounts.Get(s.Context(), account, metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	list, err := s.real.kube.CoreV1().ConfigMaps(s.site).List(s.Context(), metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	for i := range list.Items {
		o := &list.Items[i]
		if !s.names[o.Name] {
			continue // each namespace has one of its own
		}
		listed := slices.ContainsFunc(own.Status.AppliedResources, func(r workv1.AppliedManifestResourceMeta) bool { return r.UID == string(o.UID) })
		owned := slices.ContainsFunc(o.OwnerReferences, func(r metav1.OwnerReference) bool { return r.UID == own.UID })
		got = append(got, fmt.Sprintf("%s, owned %t, listed %t", o.Name, owned, listed))
	}
	if work, err = client.Get(s.Context(), "w", metav1.GetOptions{}); err != nil {
		s.Fatal(err)
	}
	for _, item := range works.Read(work, works.NewManifests(100)).Items {
		got = append(got, stateOf(&item))
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		s.Errorf("%s: (-the model +OCM's agent):\n%s", what, diff)
	}
}

// stateOf returns what an agent reported of an object.
func stateOf(item *plan.Item) string {
	return fmt.Sprintf("%s/%s reported %d, not served %t, unread %t", item.Ref.Resource, item.Ref.Name, item.State, item.NotServed(), item.Unread())
}

// want checks which objects that are not in the work any more are in the cluster.
func (s *scenes) want(what string, names ...string) {
	s.Helper()
	left := map[string]bool{}
	for ref := range s.model.Objects {
		if !slices.ContainsFunc(s.work.Items, func(i plan.Item) bool { return i.Ref == ref && !i.Withdrawn }) {
			left[ref.Name] = true
		}
	}
	for _, name := range names {
		if !left[name] {
			s.Errorf("%s: there are only %v", what, slices.Sorted(maps.Keys(left)))
		}
	}
}
