package variant_test

import (
	"fmt"
	"maps"
	"math/rand"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/lifecycle"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/upgrade"
	"github.com/starlinghq/starling/pkg/core/packages/variant"
	"github.com/starlinghq/starling/pkg/core/packages/variant/mutation"
	"github.com/starlinghq/starling/test/golden"
)

// world is a small hub: revisions with their files, one PackageVariant, and objects to inject. It
// does with a request what package-server does.
type world struct {
	t         *testing.T
	pv        *configv1alpha1.PackageVariant
	revisions map[string]*storev1alpha1.PackageRevision
	files     map[string]kpt.Files // by name of the revision, and by digest
	objects   map[string]string    // ConfigMaps: a value by name
	trace     []string
	uids      int
	last      *variant.Plan
}

// self is the user name of the controller.
const self = "system:serviceaccount:starling-system:binding-controller"

const upstreamKptfile = "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: web\n"

func newWorld(t *testing.T, spec string) *world {
	t.Helper()
	w := &world{t: t, revisions: map[string]*storev1alpha1.PackageRevision{}, files: map[string]kpt.Files{}, objects: map[string]string{}}
	w.variant(spec)
	w.upstream(1)
	return w
}

func (w *world) variant(spec string) {
	w.t.Helper()
	w.uids++
	w.pv = &configv1alpha1.PackageVariant{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pv", UID: types.UID(fmt.Sprint("pv-", w.uids)), Generation: 1}}
	w.spec(spec)
}

func (w *world) spec(spec string) {
	w.t.Helper()
	w.pv.Generation++
	if !strings.HasPrefix(spec, "upstream:") {
		spec = "upstream: {repo: up, package: web, revision: latest}\n" + spec
	}
	w.pv.Spec = *parse[configv1alpha1.PackageVariantSpec](w.t, spec+"\ndownstream: {repo: edge, package: web}\n")
}

// upstream publishes a revision of the upstream package.
func (w *world) upstream(n int) {
	name := fmt.Sprintf("up.web.w%d", n)
	w.put(name, porchv1alpha1.PackageRevisionSpec{
		RepositoryName: "up", PackageName: "web", WorkspaceName: fmt.Sprintf("w%d", n), Revision: n, Lifecycle: porchv1alpha1.LifecyclePublished,
	}, kpt.Files{
		"Kptfile": upstreamKptfile, "c.yaml": fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\ndata:\n  upstream: \"%d\"\n", n),
		"i.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: i\n  annotations:\n    kpt.dev/config-injection: optional\n",
	})
}

// tag imports a revision of the upstream package from a tag without a number.
func (w *world) tag(tag string, content int) {
	name := "up.web." + strings.ReplaceAll(tag, ".", "-")
	w.upstream(content)
	files := w.files[fmt.Sprintf("up.web.w%d", content)]
	delete(w.revisions, fmt.Sprintf("up.web.w%d", content))
	r := w.put(name, porchv1alpha1.PackageRevisionSpec{
		RepositoryName: "up", PackageName: "web", WorkspaceName: strings.ReplaceAll(tag, ".", "-"), Revision: -1, Lifecycle: porchv1alpha1.LifecyclePublished,
	}, files)
	r.External.Ref = "web/" + tag
}

func (w *world) put(name string, spec porchv1alpha1.PackageRevisionSpec, files kpt.Files) *storev1alpha1.PackageRevision {
	w.uids++
	r := &storev1alpha1.PackageRevision{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(fmt.Sprint("r-", w.uids))}, Spec: spec}
	r.Status.Authors = []string{self}
	w.revisions[name] = r
	w.seal(r, files)
	return r
}

// seal stores files, and copies gates, conditions and lock from the Kptfile to the revision.
func (w *world) seal(r *storev1alpha1.PackageRevision, files kpt.Files) {
	w.t.Helper()
	k, err := kpt.ParseKptfile(files["Kptfile"])
	if err != nil {
		w.t.Fatal(err)
	}
	w.files[r.Name], w.files[files.Digest()], r.Content.Digest = files, files, files.Digest()
	r.Spec.ReadinessGates, r.Status.Conditions = nil, nil
	for _, g := range k.ReadinessGates() {
		r.Spec.ReadinessGates = append(r.Spec.ReadinessGates, porchv1alpha1.ReadinessGate{ConditionType: g.ConditionType})
	}
	for _, c := range k.Conditions() {
		r.Status.Conditions = append(r.Status.Conditions, porchv1alpha1.Condition{Type: c.Type, Status: porchv1alpha1.ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message})
	}
	if lock := k.UpstreamLock(); lock != nil {
		r.Status.UpstreamLock = &porchv1alpha1.Locator{Type: "git", Git: &porchv1alpha1.GitLock{Repo: lock.Git.Repo, Directory: lock.Git.Directory, Ref: lock.Git.Ref, Commit: lock.Git.Commit}}
	}
}

// reseal writes gates and conditions of the revision into its Kptfile.
func (w *world) reseal(r *storev1alpha1.PackageRevision, gates []porchv1alpha1.ReadinessGate, conditions []porchv1alpha1.Condition) {
	k, err := kpt.ParseKptfile(w.files[r.Name]["Kptfile"])
	if err != nil {
		w.t.Fatal(err)
	}
	var gs []kpt.ReadinessGate
	for _, g := range gates {
		gs = append(gs, kpt.ReadinessGate{ConditionType: g.ConditionType})
	}
	var cs []kpt.Condition
	for _, c := range conditions {
		cs = append(cs, kpt.Condition{Type: c.Type, Status: string(c.Status), Reason: c.Reason, Message: c.Message})
	}
	if err := k.SetReadinessGates(gs); err != nil {
		w.t.Fatal(err)
	}
	if err := k.SetConditions(cs); err != nil {
		w.t.Fatal(err)
	}
	files := maps.Clone(w.files[r.Name])
	files["Kptfile"] = k.String()
	w.seal(r, files)
}

func (w *world) input() *variant.Input {
	in := &variant.Input{
		Variant: w.pv, Self: self, HasRepository: true, Version: w.version,
		Origin: func(lock variant.Lock) *storev1alpha1.PackageRevision {
			for _, r := range w.revisions {
				if slices.Contains(variant.Locks(r), lock) {
					return r
				}
			}
			return nil
		},
		OwnerExists: func(uid types.UID) bool { return uid == "other" },
	}
	for _, r := range w.revisions {
		owned := len(r.Served.OwnerReferences) > 0
		if r.Spec.RepositoryName == "up" {
			in.Upstreams = append(in.Upstreams, r.DeepCopy())
		}
		if d := w.pv.Spec.Downstream; d != nil && r.Spec.RepositoryName == d.Repo && r.Spec.PackageName == d.Package || owned {
			in.Downstreams = append(in.Downstreams, r.DeepCopy())
		}
	}
	return in
}

func (w *world) version(o configv1alpha1.InjectedObject) string { return w.objects[o.Name] }

// reconcile plans once and carries out at most the given number of writes. It reports whether
// nothing was left to do.
func (w *world) reconcile(writes int) bool {
	w.t.Helper()
	in := w.input()
	plan := variant.PlanVariant(in)
	w.last = plan
	for i := range plan.Actions {
		writes--
		if writes < 0 {
			return false
		}
		w.do(&plan.Actions[i])
	}
	if len(plan.Actions) > 0 {
		return false
	}
	rest := true
	injected := slices.Clone(w.pv.Status.Injected)
	status := plan.Status
	for i := range plan.Work {
		work := &plan.Work[i]
		r := w.revisions[work.Revision]
		seen := map[configv1alpha1.InjectedObject]bool{}
		files, err := w.files[r.Name], error(nil)
		if work.To != "" {
			r.Content.Upstream, r.Content.UpstreamDigest = work.To, w.revisions[work.To].Content.Digest
			files, err = mutation.Upgrade(files, w.files[work.From], w.revisions[work.To], w.files[work.To], nil)
		}
		var result *mutation.Result
		if err == nil {
			result, err = mutation.Apply(&mutation.Input{Variant: w.pv, Revision: r.Name, Files: files, Lookup: w.lookup(seen)})
		}
		if err != nil {
			w.trace = append(w.trace, "failed: "+err.Error())
			w.pv.Status = plan.Failed(err)
			return true
		}
		injected = slices.SortedFunc(maps.Keys(seen), func(a, b configv1alpha1.InjectedObject) int { return strings.Compare(a.Name, b.Name) })
		switch {
		case work.DryRun && result.Content:
			status = plan.Waiting(work)
		case work.DryRun:
		case work.Edit != nil && result.Content:
			writes--
			if writes < 0 {
				return false
			}
			w.do(&variant.Action{Verb: variant.Create, Revision: work.Edit.Name, Object: work.Edit})
			rest = false
		case work.Edit == nil && (result.Changed || work.To != ""):
			if work.Begin != nil && (result.Content || work.To != "") {
				writes--
				if writes < 0 {
					return false
				}
				w.do(work.Begin)
			}
			writes--
			if writes < 0 {
				return false
			}
			w.trace = append(w.trace, work.String())
			w.seal(r, result.Files)
			rest = false
		}
	}
	if rest {
		status.Injected = injected
		if len(plan.Work) > 0 && status.Conditions[0].Reason != configv1alpha1.ReasonWaitingForApproval {
			status.Settled = plan.Settled(injected, w.version)
			rest = status.Settled == w.pv.Status.Settled // the write of the status has it planned again
		}
		w.pv.Status = status
	}
	return rest
}

func (w *world) lookup(seen map[configv1alpha1.InjectedObject]bool) mutation.Lookup {
	return func(kind schema.GroupVersionKind, name string) (map[string]any, error) {
		seen[configv1alpha1.InjectedObject{Group: kind.Group, Version: kind.Version, Kind: kind.Kind, Name: name}] = true
		if value := w.objects[name]; value != "" {
			return map[string]any{"data": map[string]any{"injected": value}}, nil
		}
		return nil, nil
	}
}

// do carries out an action, as package-server would; what it would refuse is a failure of the test.
func (w *world) do(a *variant.Action) {
	w.t.Helper()
	w.trace = append(w.trace, a.String())
	r := w.revisions[a.Revision]
	switch a.Verb {
	case variant.AddFinalizer:
		w.pv.Finalizers = append(w.pv.Finalizers, configv1alpha1.PackageVariantFinalizer)
		return
	case variant.RemoveFinalizer:
		w.pv.Finalizers = nil
		return
	case variant.Create:
		w.create(a.Object)
		return
	case variant.Delete:
		if text := lifecycle.CheckDelete(r.Spec.Lifecycle); text != "" {
			w.t.Fatalf("%s: %s\n%s", a, text, strings.Join(w.trace, "\n"))
		}
		delete(w.revisions, r.Name)
		return
	default:
	}
	pr := &porchv1alpha1.PackageRevision{ObjectMeta: *r.ObjectMeta.DeepCopy(), Spec: *r.Spec.DeepCopy(), Status: *r.Status.DeepCopy()}
	pr.OwnerReferences = r.Served.OwnerReferences
	a.Change(pr)
	from, to := r.Spec.Lifecycle, pr.Spec.Lifecycle
	text := lifecycle.CheckUpdate(from, to)
	if a.Verb == variant.Approve {
		text = lifecycle.CheckApproval(from, to)
	}
	if unmet := lifecycle.Unmet(&r.Spec, &r.Status); lifecycle.GatesOf(from, to) && len(unmet) > 0 {
		text = lifecycle.NotReady(unmet)
	}
	if text != "" {
		w.t.Fatalf("%s: %s\n%s", a, text, strings.Join(w.trace, "\n"))
	}
	r.Labels, r.Annotations, r.Served.OwnerReferences = pr.Labels, pr.Annotations, pr.OwnerReferences
	if a.Verb == variant.Begin {
		w.reseal(r, pr.Spec.ReadinessGates, pr.Status.Conditions)
	}
	w.move(r, to)
}

// move changes the lifecycle of a revision, and gives out its number.
func (w *world) move(r *storev1alpha1.PackageRevision, to porchv1alpha1.PackageRevisionLifecycle) {
	r.Spec.Lifecycle = to
	if to == porchv1alpha1.LifecyclePublished && r.Spec.Revision == 0 {
		highest := 0
		for _, other := range w.revisions {
			if other.Spec.RepositoryName == r.Spec.RepositoryName && other.Spec.PackageName == r.Spec.PackageName {
				highest = max(highest, other.Spec.Revision)
			}
		}
		r.Spec.Revision = highest + 1
	}
}

func (w *world) create(pr *porchv1alpha1.PackageRevision) {
	w.t.Helper()
	if w.revisions[pr.Name] != nil {
		w.t.Fatalf("create %s: already exists\n%s", pr.Name, strings.Join(w.trace, "\n"))
	}
	if wrong := append(lifecycle.CheckNames(&pr.Spec), lifecycle.CheckTasks(pr.Spec.Tasks)...); len(wrong) > 0 {
		w.t.Fatalf("create %s: %q", pr.Name, wrong)
	}
	var files kpt.Files
	var content storev1alpha1.Content
	var conflicts []porchv1alpha1.Condition
	var err error
	switch task := pr.Spec.Tasks[0]; {
	case task.Clone != nil:
		for _, r := range w.revisions {
			if r.Spec.RepositoryName == pr.Spec.RepositoryName && r.Spec.PackageName == pr.Spec.PackageName {
				w.t.Fatalf("clone to a package that already exists\n%s", strings.Join(w.trace, "\n"))
			}
		}
		from := task.Clone.Upstream.UpstreamRef.Name
		files, err = upgrade.Follow(w.files[from], w.revisions[from], path.Base(pr.Spec.PackageName), "")
		content = w.revisions[from].Content
		content.Upstream, content.UpstreamDigest = from, content.Digest
	case task.Edit != nil:
		files = w.files[w.published(task.Edit.Source.Name)]
		content = w.revisions[task.Edit.Source.Name].Content
	default:
		u := task.Upgrade
		var merged *upgrade.Merged
		original := w.files[w.published(u.OldUpstream.Name)]
		if local := w.revisions[u.LocalPackageRevisionRef.Name].Content; local.Upstream == u.OldUpstream.Name {
			original = w.files[local.UpstreamDigest]
		}
		content.Upstream, content.UpstreamDigest = u.NewUpstream.Name, w.revisions[w.published(u.NewUpstream.Name)].Content.Digest
		if merged, err = upgrade.Merge(u.Strategy, original, w.revisions[w.published(u.NewUpstream.Name)], w.files[u.NewUpstream.Name], w.files[w.published(u.LocalPackageRevisionRef.Name)], nil); err == nil {
			files = merged.Files
			if c := merged.Conflicts(); c != nil {
				conflicts = append(conflicts, *c)
			}
		}
	}
	if err != nil {
		w.t.Fatal(err)
	}
	r := w.put(pr.Name, pr.Spec, files)
	r.Content.Upstream, r.Content.UpstreamDigest = content.Upstream, content.UpstreamDigest
	r.Labels, r.Annotations, r.Served.OwnerReferences = pr.Labels, pr.Annotations, pr.OwnerReferences
	w.reseal(r, pr.Spec.ReadinessGates, slices.Concat(pr.Status.Conditions, conflicts))
}

func (w *world) published(name string) string {
	if r := w.revisions[name]; r == nil || !r.Spec.Lifecycle.Published() {
		w.t.Fatalf("%s is not published\n%s", name, strings.Join(w.trace, "\n"))
	}
	return name
}

// settle reconciles until there is nothing to do.
func (w *world) settle() {
	w.t.Helper()
	for range 20 {
		if w.reconcile(1000) {
			return
		}
	}
	w.t.Fatalf("it does not come to rest:\n%s", strings.Join(w.trace, "\n"))
}

// downstream returns the newest revision of the downstream package in a lifecycle, nil if there is
// none.
func (w *world) downstream(at porchv1alpha1.PackageRevisionLifecycle) *storev1alpha1.PackageRevision {
	var found *storev1alpha1.PackageRevision
	for _, r := range sorted(w.revisions) {
		if r.Spec.RepositoryName == "edge" && r.Spec.PackageName != "db" && r.Spec.Lifecycle == at && (found == nil || r.Spec.Revision > found.Spec.Revision) {
			found = r
		}
	}
	return found
}

func sorted(m map[string]*storev1alpha1.PackageRevision) []*storev1alpha1.PackageRevision {
	var all []*storev1alpha1.PackageRevision
	for _, name := range slices.Sorted(maps.Keys(m)) {
		all = append(all, m[name])
	}
	return all
}

const (
	draft     = porchv1alpha1.LifecycleDraft
	proposed  = porchv1alpha1.LifecycleProposed
	published = porchv1alpha1.LifecyclePublished
	deletion  = porchv1alpha1.LifecycleDeletionProposed
)

// say adds an event and the resulting state to the trace.
func (w *world) say(what string) {
	w.trace = append(w.trace, "# "+what)
	w.settle()
	for _, r := range sorted(w.revisions) {
		if r.Spec.RepositoryName == "up" {
			continue
		}
		c := w.files[r.Name]["c.yaml"]
		_, data, _ := strings.Cut(c, "\ndata:\n")
		var injected string
		if _, text, ok := strings.Cut(w.files[r.Name]["i.yaml"], "injected: "); ok {
			injected = " injected=" + strings.SplitN(text, "\n", 2)[0]
		}
		w.trace = append(w.trace, fmt.Sprintf("  %s %s v%d owned=%t [%s]%s", r.Name, r.Spec.Lifecycle, r.Spec.Revision, len(r.Served.OwnerReferences) > 0, strings.Join(strings.Fields(data), " "), injected))
	}
	s := w.pv.Status
	for _, c := range s.Conditions {
		w.trace = append(w.trace, fmt.Sprintf("  %s=%s/%s %s", c.Type, c.Status, c.Reason, c.Message))
	}
	w.trace = append(w.trace, fmt.Sprintf("  state=%s waitsFor=%q targets=%d", s.State, s.WaitsFor, len(s.DownstreamTargets)))
}

// edit changes a draft by hand.
func (w *world) edit(r *storev1alpha1.PackageRevision, old, text string) {
	files := maps.Clone(w.files[r.Name])
	files["c.yaml"] = strings.Replace(files["c.yaml"], old, text, 1)
	w.seal(r, files)
}

// TestTrace: the actions of some stories. A change of behavior is a change of these files.
func TestTrace(t *testing.T) {
	for name, story := range map[string]func(w *world){
		"life": func(w *world) {
			w.say("it is made")
			w.edit(w.downstream(draft), "\ndata:\n", "\ndata:\n  local: mine\n")
			w.say("somebody edits the draft")
			w.upstream(2)
			w.say("the upstream moves while there is a draft")
			w.move(w.downstream(draft), proposed)
			w.upstream(3)
			w.say("it moves again while the draft is proposed")
			w.move(w.downstream(proposed), published)
			w.say("the draft is approved")
			w.move(w.downstream(draft), published)
			w.say("so is the next")
			w.spec("labels: {a: b}\npipeline: {mutators: [{image: set-labels:v0.1, configMap: {x: y}}]}")
			w.say("a function is wanted")
			w.move(w.downstream(draft), published)
			w.say("it is approved, too")
		},
		"injection": func(w *world) {
			w.spec("injectors: [{name: east}]")
			w.say("the object to inject does not exist")
			w.objects["east"] = "one"
			w.say("it comes")
			w.move(w.downstream(draft), published)
			w.say("the draft is approved")
			w.objects["east"] = "two"
			w.say("the object changes")
			w.move(w.downstream(draft), proposed)
			w.objects["east"] = "three"
			w.say("it changes while the draft is proposed")
			w.move(w.downstream(proposed), draft)
			w.say("the draft is rejected")
		},
		"approval": func(w *world) {
			w.pv.Annotations = map[string]string{configv1alpha1.AnnotationApprovalPolicy: configv1alpha1.ApprovalInitial}
			w.say("the first is approved by itself")
			w.upstream(2)
			w.say("the second waits")
			w.pv.Annotations[configv1alpha1.AnnotationApprovalPolicy] = configv1alpha1.ApprovalAlways
			w.say("all are approved by themselves")
			w.upstream(3)
			w.say("also this one")
		},
		"moved tag": func(w *world) {
			w.settle()
			w.edit(w.downstream(draft), "\ndata:\n", "\ndata:\n  local: mine\n")
			up := w.revisions["up.web.w1"]
			up.External.Moved = "c01dbee"
			w.say("the tag of the upstream is moved")
			accept := func(content string) {
				up.External.Moved = ""
				files := maps.Clone(w.files[up.Name])
				files["c.yaml"] = fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\ndata:\n  upstream: %q\n", "1, moved to "+content)
				w.seal(up, files)
			}
			accept("one")
			w.say("it is accepted while there is a draft")
			w.move(w.downstream(draft), published)
			w.say("the draft is approved")
			accept("two")
			w.say("another move is accepted")
			w.move(w.downstream(draft), published)
			accept("three")
			w.upstream(2)
			w.say("and another one, when there is a newer upstream")
		},
		"deletion": func(w *world) {
			w.pv.Annotations = map[string]string{configv1alpha1.AnnotationApprovalPolicy: configv1alpha1.ApprovalInitial}
			w.settle()
			w.upstream(2)
			w.say("one is published, one is a draft")
			w.pv.DeletionTimestamp = &metav1.Time{}
			w.say("the PackageVariant is deleted")
			w.variant("")
			w.say("it is made again")
			w.pv.Spec.DeletionPolicy = configv1alpha1.DeletionPolicyOrphan
			w.pv.DeletionTimestamp = &metav1.Time{}
			w.say("it is deleted, and leaves all")
			w.variant("")
			w.say("it is made again, and finds what is not its own")
			w.spec("adoptionPolicy: adoptExisting")
			w.say("it may adopt that")
		},
		"downstream": func(w *world) {
			w.settle()
			w.move(w.downstream(draft), published)
			w.pv.Spec.Downstream.Package = "other"
			w.say("another downstream is wanted")
			w.move(w.downstream(draft), published)
			r := w.downstream(published)
			w.move(r, deletion)
			w.say("somebody proposes its deletion")
		},
		"others": func(w *world) {
			w.settle()
			w.move(w.downstream(draft), published)
			files := w.files[w.downstream(published).Name]
			human := porchv1alpha1.PackageRevisionSpec{RepositoryName: "edge", PackageName: "web", WorkspaceName: "human", Lifecycle: published, Revision: 2}
			w.edit(w.put("edge.web.human", human, files), "\ndata:\n", "\ndata:\n  local: mine\n")
			w.say("somebody publishes a revision by hand")
			human.WorkspaceName, human.Lifecycle, human.Revision = "idea", draft, 0
			w.put("edge.web.idea", human, files)
			w.upstream(2)
			w.say("somebody has a draft, and the upstream moves: what was published by hand is what it is merged into")
			w.revisions["edge.web.human"].Spec.Lifecycle = deletion
			w.say("somebody proposes to delete a revision that is not of the PackageVariant, which leaves it alone")
		},
		"versions": func(w *world) {
			delete(w.revisions, "up.web.w1")
			w.tag("v1.9.0", 9)
			w.say("the upstream has a tag without a number")
			w.move(w.downstream(draft), published)
			w.tag("v1.10.0", 10)
			w.say("there is a higher version")
			w.move(w.downstream(draft), published)
			w.tag("v1.9.1", 91)
			w.tag("v2.0.0-rc.1", 20)
			w.say("there are a lower version and a pre-release")
			w.spec("upstream: {repo: up, package: web, revision: v2.0.0-rc.1}")
			w.say("the pre-release is wanted")
		},
		"withdrawn": func(w *world) {
			w.pv.Annotations = map[string]string{configv1alpha1.AnnotationApprovalPolicy: configv1alpha1.ApprovalAlways}
			w.upstream(2)
			w.say("it follows the latest revision")
			w.move(w.revisions["up.web.w2"], deletion)
			w.say("the deletion of that revision is proposed")
			w.upstream(3)
			w.say("there is a newer one")
			w.move(w.revisions["up.web.w3"], deletion)
			delete(w.revisions, "up.web.w3")
			w.say("that one is deleted, although it is in use")
		},
		"trouble": func(w *world) {
			w.spec("packageContext: {data: {a: b}}")
			w.say("there is no package context")
			w.spec("")
			w.say("none is wanted")
			w.move(w.downstream(draft), published)
			delete(w.revisions, "up.web.w1")
			w.say("the upstream is deleted")
			w.upstream(2)
			w.say("another comes")
			w.pv.Spec.Downstream = nil
			w.say("the PackageVariant is broken")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "")
			story(w)
			golden.Compare(t, "TestTrace/"+name, strings.Join(w.trace, "\n")+"\n")
		})
	}
}

// TestVariantModel: upstreams, objects, the PackageVariant and people do what they like in any
// order, and writes are cut off anywhere. No revision is made twice, nothing of others is touched,
// nothing published goes, and no edit by hand is lost; in the end the package is what it should be.
func TestVariantModel(t *testing.T) {
	for seed := range int64(25) {
		rnd := rand.New(rand.NewSource(seed))
		w := newWorld(t, "injectors: [{name: east}]")
		upstream, edits := 1, 0
		foreign := w.put("edge.db.x", porchv1alpha1.PackageRevisionSpec{RepositoryName: "edge", PackageName: "db", WorkspaceName: "x", Lifecycle: draft}, w.files["up.web.w1"])
		untouched := foreign.DeepCopy()
		mutator := ""
		for range 40 {
			switch rnd.Intn(8) {
			case 0:
				upstream++
				w.upstream(upstream)
			case 1:
				w.objects["east"] = fmt.Sprint("value", rnd.Intn(3))
			case 2:
				mutator = fmt.Sprint("image", rnd.Intn(3))
				w.spec("injectors: [{name: east}]\npipeline: {mutators: [{image: " + mutator + "}]}")
			case 3:
				if r := w.downstream(draft); r != nil && r.Spec.PackageName == "web" {
					edits++
					w.edit(r, "\ndata:\n", fmt.Sprintf("\ndata:\n  edit%d: mine\n", edits))
				}
			case 4:
				for _, r := range sorted(w.revisions) {
					if ready := len(lifecycle.Unmet(&r.Spec, &r.Status)) == 0; r.Spec.PackageName == "web" && r.Spec.Lifecycle == draft && ready {
						w.move(r, proposed)
					}
				}
			case 5, 6:
				if r := w.downstream(proposed); r != nil {
					w.move(r, []porchv1alpha1.PackageRevisionLifecycle{draft, published}[rnd.Intn(2)])
				}
			case 7:
				w.pv.Status = configv1alpha1.PackageVariantStatus{} // the write of it was lost
			}
			before := publishedOf(w)
			w.reconcile(rnd.Intn(4))
			for name, digest := range before {
				if r := w.revisions[name]; r == nil || r.Content.Digest != digest || r.Spec.Lifecycle != published {
					t.Fatalf("seed %d: %s is not what was published\n%s", seed, name, strings.Join(w.trace, "\n"))
				}
			}
			open := 0
			for _, r := range w.revisions {
				if r.Spec.RepositoryName == "edge" && r.Spec.PackageName == "web" && !r.Spec.Lifecycle.Published() {
					open++
				}
			}
			if open > 1 {
				t.Fatalf("seed %d: %d drafts\n%s", seed, open, strings.Join(w.trace, "\n"))
			}
		}
		// Everything is approved until nothing more comes.
		for range 6 {
			w.settle()
			for _, at := range []porchv1alpha1.PackageRevisionLifecycle{draft, proposed} {
				if r := w.downstream(at); r != nil && r.Spec.PackageName == "web" {
					w.move(r, published)
				}
			}
		}
		w.settle()
		trace := len(w.trace)
		w.settle()
		if len(w.trace) != trace || len(w.last.Work) > 0 {
			t.Fatalf("seed %d: it is not at rest\n%s", seed, strings.Join(w.trace, "\n"))
		}
		files := w.files[w.downstream(published).Name]
		var wrong []string
		want := func(file, text string) {
			if !strings.Contains(files[file], text) {
				wrong = append(wrong, fmt.Sprintf("%s lacks %q", file, text))
			}
		}
		want("c.yaml", fmt.Sprintf("upstream: \"%d\"", upstream))
		for i := range edits {
			want("c.yaml", fmt.Sprintf("edit%d: mine", i+1))
		}
		if value := w.objects["east"]; value != "" {
			want("i.yaml", "injected: "+value)
		}
		if mutator != "" {
			want("Kptfile", "image: "+mutator)
		}
		if strings.Count(files["Kptfile"], "PackageVariant.pv.") > 1 {
			wrong = append(wrong, "functions twice")
		}
		if len(wrong) > 0 || w.pv.Status.State != configv1alpha1.VariantPublished {
			t.Fatalf("seed %d: %q, state %s\n%s\n%s", seed, wrong, w.pv.Status.State, strings.Join(w.trace, "\n"), files["c.yaml"])
		}
		if diff := cmp.Diff(untouched, w.revisions["edge.db.x"]); diff != "" {
			t.Fatalf("seed %d: what is not its own was changed:\n%s", seed, diff)
		}
	}
}

func publishedOf(w *world) map[string]string {
	out := map[string]string{}
	for name, r := range w.revisions {
		if r.Spec.Lifecycle == published {
			out[name] = r.Content.Digest
		}
	}
	return out
}
