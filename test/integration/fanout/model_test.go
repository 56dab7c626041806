package fanout

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	configv1alpha2 "github.com/starlinghq/starling/api/config/v1alpha2"
	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/pkg/core/packages/binding"
	"github.com/starlinghq/starling/test/testenv"
)

// modelTime is how long operations run, without the checks in between. $STARLING_MODEL overrides
// it, $STARLING_SEED the seed.
const modelTime = 20 * time.Second

// TestModel: two sets over a handful of Repositories and clusters, some of which come and go;
// labels, lists, upstreams, injected objects, drafts edited by hand, approvals, deletions by hand,
// and a controller that is killed at any time. Whenever all this rests, there is what the oracle
// wants, and nothing that it wanted all along was ever deleted; what is published is carried to its
// cluster, and nothing that was once carried is taken back.
func TestModel(t *testing.T) {
	duration, seed := modelTime, uint64(1)
	if text := os.Getenv("STARLING_MODEL"); text != "" {
		var err error
		if duration, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	if text := os.Getenv("STARLING_SEED"); text != "" {
		if _, err := fmt.Sscan(text, &seed); err != nil {
			t.Fatal(err)
		}
	}
	m := newModel(t, seed)
	const steps, rounds = 20, 2 // of steps with a rest after them, and of those at least; each has its crash
	spent := time.Duration(0)
	for round := 0; round < rounds || spent < duration; round++ {
		begin := time.Now()
		crash := m.rnd.IntN(steps)
		for i := range steps {
			if i == crash {
				m.crash()
			}
			m.step()
		}
		spent += time.Since(begin)
		m.settle()
	}
	t.Logf("seed %d: %v", seed, m.done)
	if len(m.done) < 5 {
		t.Errorf("little was tried: %v", m.done)
	}
}

// pkg is a downstream package.
type pkg struct{ repository, name string }

func (p pkg) String() string { return p.repository + "/" + p.name }

// model has the operations that were done, and the state that they must lead to.
type model struct {
	*world
	rnd  *rand.Rand
	done map[string]int

	number       int                          // of the newest upstream revision
	repositories map[string]map[string]string // labels by name, also of clusters that have left
	clusters     map[string]bool              // whether a cluster is there; it has a Repository then, or had one when it left
	waits        map[string]bool              // clusters that left, while their hub waits
	waited       map[string]bool              // clusters that left, and whose hub waits or waited
	published    map[string]bool              // Repositories in which something was published
	// past are the labels that the Repository of a cluster which left may have: all since the last
	// rest.
	past     map[string][]map[string]string
	list     []string          // the Repositories of the set "list"
	injected map[string]string // values by Repository
	edits    map[pkg][]*edit

	mu sync.Mutex // guards what watches write and read
	// mayGo are packages that nobody wanted at some time since the last rest, or whose
	// PackageVariant or draft somebody deleted.
	mayGo map[pkg]bool
	// gone says what was deleted since, of what package.
	gone map[string]pkg
	// seen are the newest objects that watches have shown, by resource and name.
	seen map[string]string
	// lost are Bindings that were deleted.
	lost []string
	// news has one for each change that a watch has shown.
	news chan struct{}
}

// edit is a key that somebody wrote into a draft.
type edit struct {
	key       string
	published bool
}

func newModel(t *testing.T, seed uint64) *model {
	t.Helper()
	m := &model{
		world: newWorld(t), rnd: rand.New(rand.NewPCG(seed, 7)), done: map[string]int{}, repositories: map[string]map[string]string{},
		list: []string{"r1"}, clusters: map[string]bool{}, waits: map[string]bool{}, waited: map[string]bool{}, published: map[string]bool{}, past: map[string][]map[string]string{}, injected: map[string]string{}, edits: map[pkg][]*edit{}, mayGo: map[pkg]bool{}, gone: map[string]pkg{}, seen: map[string]string{},
		news: make(chan struct{}, 8),
	}
	m.apply(configv1alpha1.Repositories, m.namespace, "{apiVersion: config.porch.kpt.dev/v1alpha1, kind: Repository, metadata: {name: upstream}}")
	for i := range 5 {
		m.relabel(fmt.Sprint("r", i+1), map[string]string{"sites": []string{"yes", "no"}[i%2], "tier": "gold"})
	}
	m.number = 1
	m.publish(1)
	m.apply(configv1alpha2.PackageVariantSets, m.namespace, `
apiVersion: config.porch.kpt.dev/v1alpha2
kind: PackageVariantSet
metadata:
  name: sites
  annotations: {starling.io/removal-block: "off"}
spec:
  upstream: {repo: upstream, package: web, revision: latest}
  targets:
  - repositorySelector: {matchLabels: {sites: "yes"}}
    template:
      packageContext:
        dataExprs: [{key: tier, valueExpr: "repository.labels['tier']"}]
      injectors: [{nameExpr: "'cfg-' + repository.name"}]
      pipeline:
        mutators:
        - {image: set-annotations, name: where, configMapExprs: [{key: where, valueExpr: repository.name}]}
`)
	m.setList("r1")
	m.watchFor(configv1alpha1.PackageVariants, func(obj *unstructured.Unstructured) pkg {
		repository, _, _ := unstructured.NestedString(obj.Object, "spec", "downstream", "repo")
		name, _, _ := unstructured.NestedString(obj.Object, "spec", "downstream", "package")
		return pkg{repository, name}
	})
	m.watchFor(revisions, func(obj *unstructured.Unstructured) pkg {
		r := asRevision(obj)
		return pkg{r.repository, r.pkg}
	})
	// Nothing that was published is ever really deleted here: so no Binding of a package may go,
	// whatever becomes of clusters.
	m.watch(m.client.Resource(controlv1alpha1.Bindings), func(obj *unstructured.Unstructured, deleted bool) {
		m.mu.Lock()
		defer m.mu.Unlock()
		if deleted || obj.GetDeletionTimestamp() != nil {
			m.lost = append(m.lost, obj.GetName())
		}
	})
	m.joinCluster("c1", map[string]string{"sites": "yes", "tier": "gold"})
	m.start()
	m.settle()
	return m
}

// watchFor records the changes of the objects of a resource.
func (m *model) watchFor(resource schema.GroupVersionResource, of func(*unstructured.Unstructured) pkg) {
	m.watch(m.of(resource), func(obj *unstructured.Unstructured, deleted bool) {
		select {
		case m.news <- struct{}{}:
		default:
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		m.seen[resource.Resource+"/"+obj.GetName()] = obj.GetResourceVersion()
		if !deleted && obj.GetDeletionTimestamp() == nil {
			return
		}
		what := resource.Resource + "/" + obj.GetName()
		if resource == revisions {
			what = asRevision(obj).lifecycle + " " + what
		}
		m.gone[what] = of(obj)
	})
}

func (m *model) relabel(name string, labels map[string]string) {
	m.repositories[name] = labels
	text := fmt.Sprintf("{apiVersion: config.porch.kpt.dev/v1alpha1, kind: Repository, metadata: {name: %s, labels: {sites: %q", name, labels["sites"])
	if tier := labels["tier"]; tier != "" {
		text += fmt.Sprintf(", tier: %s", tier)
	}
	m.apply(configv1alpha1.Repositories, m.namespace, text+"}}, spec: {deployment: true}}")
}

// joinCluster creates a cluster with labels, which are those of its Repository.
func (m *model) joinCluster(name string, labels map[string]string) {
	m.join(name, labels)
	m.clusters[name], m.repositories[name] = true, labels
	delete(m.waited, name)
	m.past[name] = append(m.past[name], labels)
}

// deleteCluster deletes a cluster: at once, as if a user had removed it by force, or with a hub
// that waits for what is delivered there.
func (m *model) deleteCluster(name string) {
	m.t.Helper()
	m.clusters[name] = false
	if m.rnd.IntN(2) == 0 {
		m.finalizers(name, `["test/wait"]`)
		m.waits[name], m.waited[name] = true, true
	}
	if err := m.hub.Resource(clusters.ManagedClusters).Delete(m.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		m.t.Fatal(err)
	}
}

// removeFinalizers ends the wait of the hub for a cluster.
func (m *model) removeFinalizers(name string) {
	m.t.Helper()
	if m.waits[name] {
		m.finalizers(name, "null")
		delete(m.waits, name)
	}
}

func (m *model) finalizers(cluster, list string) {
	m.t.Helper()
	patch := []byte(`{"metadata":{"finalizers":` + list + `}}`)
	if _, err := m.hub.Resource(clusters.ManagedClusters).Patch(m.t.Context(), cluster, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		m.t.Fatal(err)
	}
}

// users returns the Repositories that are there and not those of clusters.
func (m *model) users() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(m.repositories)), func(name string) bool { _, is := m.clusters[name]; return is })
}

// there returns the clusters that are there, or those that are not.
func (m *model) there(there bool) []string {
	return slices.DeleteFunc([]string{"c1", "c2", "c3"}, func(name string) bool { return m.clusters[name] != there })
}

func (m *model) setList(names ...string) {
	m.list = names
	text := "{apiVersion: config.porch.kpt.dev/v1alpha2, kind: PackageVariantSet, metadata: {name: list, annotations: {starling.io/removal-block: 'off'}}, " +
		"spec: {upstream: {repo: upstream, package: web, revision: latest}, targets: [{repositories: ["
	for _, name := range names {
		text += fmt.Sprintf("{name: %s, packageNames: [db, team/web]},", name)
	}
	m.apply(configv1alpha2.PackageVariantSets, m.namespace, text+"]}]}}")
}

// wanted returns the packages that the sets ask for, and of which set all targets can be
// understood.
func (m *model) wanted() (sites, list map[pkg]bool, certain bool) {
	sites, list, certain = map[pkg]bool{}, map[pkg]bool{}, true
	for name, labels := range m.repositories {
		if labels["sites"] == "yes" {
			sites[pkg{name, "web"}] = true
			certain = certain && labels["tier"] != ""
		}
	}
	for _, name := range m.list {
		list[pkg{name, "db"}], list[pkg{name, "team/web"}] = true, true
	}
	return sites, list, certain
}

// recordLists records the packages that are not desired at this moment.
func (m *model) recordLists() {
	sites, list, certain := m.wanted()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range []string{"r1", "r2", "r3", "r4", "r5", "r6", "r7", "c1", "c2", "c3"} {
		_, is := m.clusters[name]
		// What goes with its cluster is a Repository in which there was nothing yet, or nothing but
		// a draft that was deleted.
		mayGo := is && !m.clusters[name] && !m.published[name]
		for _, p := range []pkg{{name, "web"}, {name, "db"}, {name, "team/web"}} {
			if p.name == "web" && (!sites[p] && certain || mayGo || m.repositories[name] == nil) || p.name != "web" && !list[p] {
				m.forget(p)
			}
		}
	}
}

// forget records that a package's PackageVariant and drafts may be deleted, with their edits. The
// caller holds mu.
func (m *model) forget(p pkg) {
	m.mayGo[p] = true
	m.edits[p] = slices.DeleteFunc(m.edits[p], func(e *edit) bool { return !e.published })
}

type operation struct {
	name   string
	weight int
	do     func() error
}

func (m *model) operations() []operation {
	return []operation{
		{"relabel", 4, func() error {
			labels := map[string]string{"sites": m.pick("yes", "no"), "tier": m.pick("gold", "silver", "iron", "")}
			m.relabel(m.pick(m.users()...), labels)
			return nil
		}},
		{"Repository", 2, func() error { // one that comes, or goes
			name := m.pick("r6", "r7")
			if m.repositories[name] == nil {
				m.relabel(name, map[string]string{"sites": m.pick("yes", "yes", "no"), "tier": m.pick("gold", "silver")})
				return nil
			}
			delete(m.repositories, name)
			return m.of(configv1alpha1.Repositories).Delete(m.t.Context(), name, metav1.DeleteOptions{})
		}},
		{"cluster joins", 2, func() error {
			away := m.there(false)
			if len(away) == 0 {
				return errNothing
			}
			name := m.pick(away...)
			m.removeFinalizers(name)
			m.joinCluster(name, map[string]string{"sites": m.pick("yes", "yes", "no"), "tier": m.pick("gold", "silver")})
			return nil
		}},
		{"cluster changes", 2, func() error {
			here := m.there(true)
			if len(here) == 0 {
				return errNothing
			}
			m.joinCluster(m.pick(here...), map[string]string{"sites": m.pick("yes", "yes", "no"), "tier": m.pick("gold", "silver")})
			return nil
		}},
		{"cluster leaves", 1, func() error {
			here := m.there(true)
			if len(here) == 0 {
				return errNothing
			}
			m.deleteCluster(m.pick(here...))
			return nil
		}},
		{"cluster is released", 1, func() error {
			waiting := slices.Sorted(maps.Keys(m.waits))
			if len(waiting) == 0 {
				return errNothing
			}
			m.removeFinalizers(m.pick(waiting...))
			return nil
		}},
		{"publish", 2, func() error {
			m.number++
			m.publish(m.number)
			return nil
		}},
		{"inject", 3, func() error {
			name := m.pick(slices.Sorted(maps.Keys(m.repositories))...)
			value := fmt.Sprint("value", m.rnd.IntN(1000))
			m.injected[name] = value
			m.apply(configMaps, m.namespace, fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: cfg-%s}, data: {value: %s}}", name, value))
			return nil
		}},
		{"change the list", 2, func() error {
			names := []string{m.pick("r1", "r2", "r3")}
			if m.rnd.IntN(2) == 0 {
				names = append(names, m.pick("r4", "r5"))
			}
			m.setList(names...)
			return nil
		}},
		{"edit a draft", 5, m.editDraft},
		{"propose", 5, func() error { return m.moveOne(draft, proposed) }},
		{"approve", 4, func() error { return m.moveOne(proposed, published) }},
		{"reject", 1, func() error { return m.moveOne(proposed, draft) }},
		{"delete a PackageVariant", 1, func() error {
			all := m.all(configv1alpha1.PackageVariants)
			if len(all) == 0 {
				return errNothing
			}
			pv := &all[m.rnd.IntN(len(all))]
			repository, _, _ := unstructured.NestedString(pv.Object, "spec", "downstream", "repo")
			name, _, _ := unstructured.NestedString(pv.Object, "spec", "downstream", "package")
			m.mu.Lock()
			m.forget(pkg{repository, name})
			m.mu.Unlock()
			return m.of(configv1alpha1.PackageVariants).Delete(m.t.Context(), pv.GetName(), metav1.DeleteOptions{})
		}},
		{"delete a draft", 1, func() error {
			r := m.one(draft)
			if r == nil {
				return errNothing
			}
			m.mu.Lock()
			m.forget(pkg{r.repository, r.pkg})
			m.mu.Unlock()
			return m.of(revisions).Delete(m.t.Context(), r.name, metav1.DeleteOptions{})
		}},
		{"another crash", 2, func() error {
			m.crash()
			return nil
		}},
	}
}

// crash kills the controller and starts another one.
func (m *model) crash() {
	m.t.Helper()
	m.controller.kill()
	m.start()
	m.done["crash"]++
}

// errNothing is returned by an operation that has no object to act on.
var errNothing = errors.New("nothing there")

func (m *model) pick(of ...string) string { return of[m.rnd.IntN(len(of))] }

// step runs a random operation, and gives the controllers some time.
func (m *model) step() {
	m.t.Helper()
	all := m.operations()
	total := 0
	for _, op := range all {
		total += op.weight
	}
	dice := m.rnd.IntN(total)
	for _, op := range all {
		if dice -= op.weight; dice >= 0 {
			continue
		}
		switch err := op.do(); {
		case err == nil:
			m.done[op.name]++
		case errors.Is(err, errNothing), isExpected(err):
		default:
			m.t.Fatalf("%s: %v", op.name, err)
		}
		break
	}
	m.recordLists()
	for range m.rnd.IntN(8) {
		select {
		case <-m.news:
		case <-time.After(time.Second): // there may be nothing to do
			return
		}
	}
}

// one returns a downstream revision with a lifecycle, or nil if there is none.
func (m *model) one(lifecycle string) *revision {
	all := slices.DeleteFunc(m.downstream(), func(r revision) bool { return r.lifecycle != lifecycle })
	if len(all) == 0 {
		return nil
	}
	return &all[m.rnd.IntN(len(all))]
}

func (m *model) editDraft() error {
	r := m.one(draft)
	if r == nil {
		return errNothing
	}
	obj, files, err := m.files(r.name)
	if err != nil {
		return err
	}
	p, key := pkg{r.repository, r.pkg}, fmt.Sprintf("edit-%d", m.rnd.IntN(1e9))
	before, after, found := strings.Cut(files["upstream.yaml"], "\ndata:\n")
	if !found {
		return errNothing
	}
	files["upstream.yaml"] = before + "\ndata:\n  " + key + ": mine\n" + after
	if err := m.write(obj, files); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.mayGo[p] { // else the draft may be on its way out
		m.edits[p] = append(m.edits[p], &edit{key: key})
	}
	return nil
}

func (m *model) moveOne(from, to string) error {
	r := m.one(from)
	if r == nil || !r.ready && to != draft {
		return errNothing
	}
	return m.promote(r, to)
}

// promote changes the lifecycle of a revision, and records what is published with it.
func (m *model) promote(r *revision, to string) error {
	if err := m.move(r, to); err != nil || to != published {
		return err
	}
	_, files, err := m.files(r.name)
	if err != nil {
		return err
	}
	m.published[r.repository] = true
	for _, e := range m.edits[pkg{r.repository, r.pkg}] {
		e.published = e.published || strings.Contains(files["upstream.yaml"], e.key)
	}
	return nil
}

// settle makes the sets certain, approves what is ready until the state is the one that the oracle
// expects, and checks what was deleted in between.
func (m *model) settle() {
	m.t.Helper()
	for name, labels := range m.repositories {
		if labels["tier"] == "" { // no cluster's
			m.relabel(name, map[string]string{"sites": labels["sites"], "tier": "gold"})
		}
	}
	m.recordLists()
	testenv.Eventually(m.t, patience, func() (bool, string) {
		m.controller.isRunning(m.t)
		for _, r := range m.downstream() {
			to := map[string]string{draft: proposed, proposed: published}[r.lifecycle]
			if to == "" || !r.ready {
				continue
			}
			if err := m.promote(&r, to); err != nil && !isExpected(err) {
				m.t.Fatalf("%s to %s: %v", r.name, to, err)
			}
		}
		wrong := m.problems()
		return len(wrong) == 0, strings.Join(wrong, "\n") + "\nsee the log of the controller:\n" + tail(m.controller.read(m.t))
	})
	m.catchUp()
	m.mu.Lock()
	defer m.mu.Unlock()
	for what, p := range m.gone {
		repository := p.repository
		if !m.mayGo[p] || strings.HasPrefix(what, published) || strings.HasPrefix(what, deletionProposed) || repository == upstreamRepository {
			m.t.Errorf("%s of %s was deleted", what, p)
		}
	}
	if len(m.lost) > 0 {
		m.t.Errorf("Bindings were deleted: %v", m.lost)
	}
	if m.t.Failed() {
		m.t.FailNow()
	}
	m.past = map[string][]map[string]string{}
	for name := range m.clusters {
		if labels := m.repositories[name]; labels != nil {
			m.past[name] = append(m.past[name], labels)
		}
	}
	m.gone, m.mayGo = map[string]pkg{}, map[pkg]bool{}
}

func tail(log string) string {
	lines := strings.Split(log, "\n")
	return strings.Join(lines[max(0, len(lines)-30):], "\n")
}

// problems returns the differences between the current and the expected state.
func (m *model) problems() []string {
	var wrong []string
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	wrong = append(wrong, m.repositoryProblems()...)
	sites, list, _ := m.wanted()
	wanted := maps.Clone(sites)
	maps.Copy(wanted, list)

	for _, set := range m.all(configv1alpha2.PackageVariantSets) {
		if !isReady(&set) {
			say("PackageVariantSet %s: %v", set.GetName(), set.Object["status"])
		}
	}
	variants := map[pkg]int{}
	for _, pv := range m.all(configv1alpha1.PackageVariants) {
		repository, _, _ := unstructured.NestedString(pv.Object, "spec", "downstream", "repo")
		name, _, _ := unstructured.NestedString(pv.Object, "spec", "downstream", "package")
		p := pkg{repository, name}
		variants[p]++
		if m.retained(p, wanted) {
			continue
		}
		if !wanted[p] {
			say("PackageVariant %s of %s is there", pv.GetName(), p)
			continue
		}
		state, _, _ := unstructured.NestedString(pv.Object, "status", "state")
		if state != published || !isReady(&pv) {
			say("PackageVariant %s is %q: %v", pv.GetName(), state, pv.Object["status"])
		}
	}
	last := map[pkg]*revision{}
	for _, r := range m.downstream() {
		p := pkg{r.repository, r.pkg}
		switch {
		case r.lifecycle == draft, r.lifecycle == proposed:
			say("%s is %s, ready %t", r.name, r.lifecycle, r.ready)
		case !wanted[p] && r.lifecycle != deletionProposed && !m.retained(p, wanted):
			say("%s is %s, and is not desired", r.name, r.lifecycle)
		}
		if last[p] == nil || last[p].number < r.number {
			last[p] = &r
		}
	}
	for _, r := range last {
		if r.lifecycle != published && r.lifecycle != deletionProposed {
			continue
		}
		if text := m.bindingProblem(r); text != "" {
			say("%s", text)
		}
	}
	for p := range wanted {
		if variants[p] != 1 {
			say("%s has %d PackageVariants", p, variants[p])
		}
		r := last[p]
		if r == nil || r.lifecycle != published {
			say("%s has nothing published last: %+v", p, r)
			continue
		}
		_, files, err := m.files(r.name)
		if err != nil {
			say("%s: %v", r.name, err)
			continue
		}
		want := func(file, text string, times int) {
			if n := strings.Count(files[file], text); n != times {
				say("%s: %s has %q %d times, want %d:\n%s", r.name, file, text, n, times, files[file])
			}
		}
		want("upstream.yaml", fmt.Sprintf("  number: \"%d\"\n", m.number), 1)
		for _, e := range m.edits[p] {
			want("upstream.yaml", e.key, 1)
		}
		want("upstream.yaml", "where: "+p.repository, map[bool]int{true: 1, false: 0}[sites[p]])
		if !sites[p] {
			continue
		}
		want("package-context.yaml", "tier: "+m.repositories[p.repository]["tier"], 1)
		want("Kptfile", "PackageVariant.", 1)
		if value := m.injected[p.repository]; value != "" {
			want("injected.yaml", "value: "+value+"\n", 1)
		}
	}
	return wrong
}

// retained reports whether a package may stay although it is not desired: a label change deselected
// its cluster, and the cluster left before that took effect. The packages of a cluster that left
// stay in its Repository.
func (m *model) retained(p pkg, wanted map[pkg]bool) bool {
	there, is := m.clusters[p.repository]
	return is && !there && !wanted[p]
}

// repositoryProblems says what is wrong with the Repositories of clusters, and takes note of what
// became of those whose cluster left.
func (m *model) repositoryProblems() (wrong []string) {
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	used := map[string]bool{}
	for _, r := range m.downstream() {
		used[r.repository] = true
	}
	for name, there := range m.clusters {
		obj, err := m.of(configv1alpha1.Repositories).Get(m.t.Context(), name, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			m.t.Fatal(err)
		}
		switch {
		case err != nil && there:
			say("cluster %s has no Repository", name)
		case err != nil:
			if used[name] || m.published[name] {
				say("the Repository of cluster %s is gone, and something is in it", name)
			} else {
				delete(m.repositories, name)
			}
		case there && (!maps.Equal(obj.GetLabels(), m.repositories[name]) || condition(obj, "Detached") == "True"):
			say("the Repository of cluster %s has %v %v, want %v", name, obj.GetLabels(), obj.Object["status"], m.repositories[name])
		case there:
		case condition(obj, "Detached") != "True" || !used[name]:
			say("the Repository of cluster %s, which left, has %v, and used is %t", name, obj.Object["status"], used[name])
		case !slices.ContainsFunc(m.past[name], func(labels map[string]string) bool { return maps.Equal(labels, obj.GetLabels()) }):
			say("the Repository of cluster %s, which left, has labels %v, of %v", name, obj.GetLabels(), m.past[name])
		default:
			m.repositories[name] = obj.GetLabels() // the controller need not have seen the last ones
		}
	}
	return wrong
}

// bindingProblem returns what is wrong with the Binding of a package whose last revision is
// published or proposed for deletion.
func (m *model) bindingProblem(r *revision) string {
	there, is := m.clusters[r.repository]
	name := binding.Name(binding.Package{Namespace: m.namespace, Repository: r.repository, Name: r.pkg})
	b, err := m.client.Resource(controlv1alpha1.Bindings).Get(m.t.Context(), name, metav1.GetOptions{})
	switch {
	case err != nil && !apierrors.IsNotFound(err):
		m.t.Fatal(err)
	case err != nil && there:
		return fmt.Sprintf("%s of a cluster has no Binding", r.name)
	case err != nil:
		return "" // of no cluster, or of one that had left before
	case !is:
		return fmt.Sprintf("%s is of no cluster, and has a Binding", r.name)
	}
	packages, _, _ := unstructured.NestedSlice(b.Object, "spec", "workload", "packages")
	destinations, _, _ := unstructured.NestedSlice(b.Object, "spec", "destinations")
	carries := len(packages) == 1 && packages[0].(map[string]any)["name"] == r.name
	goes := len(destinations) == 1 && destinations[0].(map[string]any)["clusterId"] == r.repository
	// A hub that waits is answered; whether it still waited when somebody looked is not known.
	if !carries || !goes && (!m.waited[r.repository] || len(destinations) > 0) || m.waits[r.repository] && len(destinations) > 0 {
		return fmt.Sprintf("the Binding of %s carries %v to %v", r.name, packages, destinations)
	}
	return ""
}

func condition(obj *unstructured.Unstructured, kind string) string {
	conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	for _, c := range conditions {
		if c, _ := c.(map[string]any); c["type"] == kind {
			status, _ := c["status"].(string)
			return status
		}
	}
	return ""
}

func isReady(obj *unstructured.Unstructured) bool {
	return condition(obj, "Ready") == "True"
}

// catchUp waits until the watches have shown all that has happened.
func (m *model) catchUp() {
	m.t.Helper()
	touch := fmt.Appendf(nil, `{"metadata":{"annotations":{"touched":"%d"}}}`, m.rnd.Int64())
	for resource, name := range map[schema.GroupVersionResource]string{
		revisions: upstreamName(1), configv1alpha1.PackageVariants: m.all(configv1alpha1.PackageVariants)[0].GetName(),
	} {
		obj, err := m.of(resource).Patch(m.t.Context(), name, types.MergePatchType, touch, metav1.PatchOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			m.t.Fatal(err)
		}
		testenv.Eventually(m.t, patience, func() (bool, string) {
			m.mu.Lock()
			defer m.mu.Unlock()
			// Somebody else may have written afterwards.
			order, err := resourceversion.CompareResourceVersion(m.seen[resource.Resource+"/"+name], obj.GetResourceVersion())
			return err == nil && order >= 0, "the watch of " + resource.Resource + " is behind"
		})
	}
}
