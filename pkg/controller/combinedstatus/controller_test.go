package combinedstatus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/tools/cache"
	fcache "k8s.io/client-go/tools/cache/testing"
	"k8s.io/utils/clock"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/combine"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/objref"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
	"github.com/starlinghq/starling/pkg/dynamicinformer"
	"github.com/starlinghq/starling/pkg/statusreports"
	"github.com/starlinghq/starling/pkg/writer"
)

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// hub is a WDS and an ITS, in memory.
type hub struct {
	t    *testing.T
	seed uint64
	// rnd belongs to the test, luck to the mutex.
	rnd, luck *rand.Rand

	index *match.Index
	// policies are the UIDs of the policies.
	policies map[string]types.UID
	sources  map[string]*fcache.FakeControllerSource

	mu sync.Mutex
	// combined and collectors are what the WDS holds.
	combined   map[string]*controlv1alpha1.CombinedStatus
	collectors map[string]*controlv1alpha1.StatusCollector
	reports    map[statusreports.Key]*statusreports.Report
	controller *Controller // the one that runs
	count      int
	// writes counts those that were accepted, failing is how many of a hundred are not.
	writes, failing int
	// unwatched: the watch does not show what is written.
	unwatched bool
	// unknown is a cluster whose reports are not known.
	unknown string
}

func (h *hub) next() string {
	h.count++
	return fmt.Sprint(h.count)
}

// Get implements Reports.
func (h *hub) Get(ref objref.Ref, _ types.UID, cluster string) (*statusreports.Report, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if cluster == h.unknown {
		return nil, false
	}
	r, ok := h.reports[statusreports.Key{Ref: ref, Cluster: cluster}]
	if !ok {
		return nil, true
	}
	return r, true
}

// Version implements Reports.
func (h *hub) Version(ref objref.Ref, uid types.UID, cluster string) (string, bool) {
	r, known := h.Get(ref, uid, cluster)
	if r != nil {
		return r.Version, true
	}
	return "", known
}

func (h *hub) fails(t writer.Target) error {
	if h.luck.IntN(100) < h.failing {
		return apierrors.NewInternalError(errors.New("no luck with " + t.String()))
	}
	return nil
}

// Create implements Writer.
func (h *hub) Create(_ context.Context, t writer.Target, obj any, _ string) (*metav1.PartialObjectMetadata, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.fails(t); err != nil {
		return nil, err
	}
	key := t.Namespace + "/" + t.Name
	if h.combined[key] != nil {
		return nil, apierrors.NewAlreadyExists(t.Resource.GroupResource(), t.Name)
	}
	cs := obj.(*controlv1alpha1.CombinedStatus).DeepCopy()
	cs.UID = types.UID("cs-" + h.next())
	return h.store(key, cs), nil
}

// Update implements Writer.
func (h *hub) Update(_ context.Context, t writer.Target, obj any, _ string) (*metav1.PartialObjectMetadata, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.fails(t); err != nil {
		return nil, err
	}
	key, cs := t.Namespace+"/"+t.Name, obj.(*controlv1alpha1.CombinedStatus).DeepCopy()
	switch current := h.combined[key]; {
	case current == nil:
		return nil, apierrors.NewNotFound(t.Resource.GroupResource(), t.Name)
	case current.ResourceVersion != cs.ResourceVersion:
		return nil, apierrors.NewConflict(t.Resource.GroupResource(), t.Name, errors.New("it changed"))
	}
	return h.store(key, cs), nil
}

// store is called with the mutex held.
func (h *hub) store(key string, cs *controlv1alpha1.CombinedStatus) *metav1.PartialObjectMetadata {
	h.writes++
	change := h.sources["combined"].Modify
	switch {
	case h.combined[key] == nil && h.unwatched:
		change = h.sources["combined"].AddDropWatch
	case h.combined[key] == nil:
		change = h.sources["combined"].Add
	}
	change(cs) // which gives it its version
	h.combined[key] = cs
	return &metav1.PartialObjectMetadata{ObjectMeta: *cs.ObjectMeta.DeepCopy()}
}

// Delete implements Writer.
func (h *hub) Delete(_ context.Context, t writer.Target, uid types.UID, _ string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.fails(t); err != nil {
		return err
	}
	key := t.Namespace + "/" + t.Name
	current := h.combined[key]
	if current == nil || current.UID != uid {
		return apierrors.NewNotFound(t.Resource.GroupResource(), t.Name)
	}
	h.writes++
	delete(h.combined, key)
	h.sources["combined"].Delete(current.DeepCopy())
	return nil
}

// Patch implements Writer, for the status of StatusCollectors.
func (h *hub) Patch(_ context.Context, t writer.Target, _ types.PatchType, patch []byte, _ string) (*metav1.PartialObjectMetadata, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.fails(t); err != nil {
		return nil, err
	}
	current := h.collectors[t.Name]
	if current == nil {
		return nil, apierrors.NewNotFound(t.Resource.GroupResource(), t.Name)
	}
	var change struct {
		Metadata metav1.ObjectMeta                     `json:"metadata"`
		Status   controlv1alpha1.StatusCollectorStatus `json:"status"`
	}
	if err := json.Unmarshal(patch, &change); err != nil {
		return nil, err
	}
	if change.Metadata.ResourceVersion != current.ResourceVersion {
		return nil, apierrors.NewConflict(t.Resource.GroupResource(), t.Name, errors.New("it changed"))
	}
	h.writes++
	changed := current.DeepCopy()
	changed.Status = change.Status
	h.sources["collectors"].Modify(changed)
	h.collectors[t.Name] = changed
	return &metav1.PartialObjectMetadata{ObjectMeta: changed.ObjectMeta}, nil
}

func newHub(t *testing.T, seed uint64) *hub {
	h := &hub{
		t: t, seed: seed, rnd: rand.New(rand.NewPCG(seed, 3)), luck: rand.New(rand.NewPCG(seed, 4)), index: match.NewIndex(match.Options{}),
		sources:  map[string]*fcache.FakeControllerSource{"combined": fcache.NewFakeControllerSource(), "collectors": fcache.NewFakeControllerSource()},
		combined: map[string]*controlv1alpha1.CombinedStatus{}, collectors: map[string]*controlv1alpha1.StatusCollector{},
		policies: map[string]types.UID{}, reports: map[statusreports.Key]*statusreports.Report{},
	}
	h.index.SetPoliciesKnown()
	h.index.SetClustersKnown()
	for _, gvr := range []schema.GroupVersionResource{configMaps, {Version: "v1", Resource: "namespaces"}} {
		h.index.SetKnown(match.Resource{GroupVersionResource: gvr})
	}
	return h
}

// notify notifies the controller that runs of changes of the index.
func (h *hub) notify(changes match.Changes) {
	if h.controller != nil {
		h.controller.OnChanges(changes)
	}
}

// start starts the controllers, with the content of the hub.
func (h *hub) start() (stop func()) {
	h.t.Helper()
	informer := func(name string, example runtime.Object, indexers cache.Indexers) cache.SharedIndexInformer {
		return cache.NewSharedIndexInformer(h.sources[name], example, 0, indexers)
	}
	found := informer("collectors", &controlv1alpha1.StatusCollector{}, nil)
	kept := informer("combined", &controlv1alpha1.CombinedStatus{}, cache.Indexers{byPair: pairIndex})
	if err := kept.SetTransform(reduce); err != nil {
		h.t.Fatal(err)
	}
	collectors, err := NewCollectors(found, h, clock.RealClock{})
	if err != nil {
		h.t.Fatal(err)
	}
	c, err := New(Config{
		Collections: h.index,
		Resource: func(gr schema.GroupResource) (dynamicinformer.Resource, bool) {
			return dynamicinformer.Resource{GroupVersionResource: configMaps, Kind: "ConfigMap"}, gr == configMaps.GroupResource()
		},
		Gone:    func(schema.GroupResource) bool { return false },
		Reports: h, Collectors: collectors, CombinedStatuses: kept,
		Client: dynamicfake.NewSimpleDynamicClient(runtime.NewScheme()), Writer: h, Clock: clock.RealClock{},
	})
	if err != nil {
		h.t.Fatal(err)
	}
	if h.seed%2 == 1 {
		c.maxCached = 0 // everything is evaluated each time, with the same results
	}
	h.controller = c
	ctx, cancel := context.WithCancel(h.t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = collectors.Run(ctx, 1, c.OnCollector) })
	running.Go(func() { _ = c.Run(ctx, 3) })
	h.notify(match.Changes{Collections: slices.Collect(maps.Keys(h.asked()))}) // as by an index that receives everything
	return func() {
		h.controller = nil
		cancel()
		running.Wait()
	}
}

// end stops the controllers, and what they watch.
func (h *hub) end(stop func()) {
	stop()
	for _, source := range h.sources {
		source.Shutdown()
	}
}

// report has a cluster report a status of the object a.
func (h *hub) report(cluster string, n int) {
	key := statusreports.Key{Ref: refOf("a"), Cluster: cluster}
	h.mu.Lock()
	h.reports[key] = &statusreports.Report{Report: corestatus.Report{Status: map[string]any{"n": int64(n)}}, Version: h.next()}
	h.mu.Unlock()
	h.controller.OnReport(key)
}

const objectNames, clusterNames, policyNames = "abc", "xyz", "pq"

func refOf(name string) objref.Ref { return objref.New(configMaps.GroupResource(), "n", name) }

// asked returns what the policies ask.
func (h *hub) asked() map[match.Pair]match.Collection {
	asked := map[match.Pair]match.Collection{}
	for _, o := range objectNames {
		for _, p := range policyNames {
			pair := match.Pair{Ref: refOf(string(o)), Policy: string(p)}
			if collection := h.index.Collection(pair); len(collection.Collectors) > 0 {
				asked[pair] = collection
			}
		}
	}
	return asked
}

// want returns what CombinedStatuses there should be, computed by tables that cache nothing.
func (h *hub) want() map[string]string {
	want := map[string]string{}
	for pair, asked := range h.asked() {
		q := combine.Question{Collectors: map[string]*combine.Collector{}, Report: func(cluster string) combine.Report {
			r, _ := h.Get(pair.Ref, "", cluster)
			if r == nil {
				return combine.Report{}
			}
			return combine.Report{Reported: true, Version: r.Version, Status: r.Status, Updated: r.Updated}
		}}
		for _, name := range asked.Collectors {
			if sc := h.collectors[name]; sc != nil {
				if compiled, errs := combine.Compile(&sc.Spec); len(errs) == 0 {
					q.Collectors[name] = compiled
				}
			}
		}
		for _, cluster := range asked.Clusters {
			labels, _ := h.index.ClusterLabels(cluster)
			q.Clusters = append(q.Clusters, combine.Cluster{Name: cluster, Labels: labels})
		}
		var table combine.Table
		results, _, _ := table.Answer(h.t.Context(), q)
		namespace, name := nameOf(pair.Ref, asked.UID, h.policies[pair.Policy])
		want[namespace+"/"+name] = show(h.t, pair, asked.UID, results)
	}
	return want
}

func (h *hub) got() map[string]string {
	h.mu.Lock()
	defer h.mu.Unlock()
	got := map[string]string{}
	for key, cs := range h.combined {
		pair, _ := pairOf(cs)
		owner := types.UID("")
		if len(cs.OwnerReferences) == 1 {
			owner = cs.OwnerReferences[0].UID
		}
		got[key] = show(h.t, pair, owner, cs.Results)
	}
	return got
}

func show(t *testing.T, pair match.Pair, owner types.UID, results []controlv1alpha1.NamedStatusCombination) string {
	t.Helper()
	text, err := json.MarshalIndent(results, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%v of %s %s", pair, owner, strings.ReplaceAll(string(text), "[]", "null"))
}

func pick(rnd *rand.Rand, from string) string { return string(from[rnd.IntN(len(from))]) }

// step makes one change of the world.
func (h *hub) step() string {
	rnd := h.rnd
	switch rnd.IntN(12) {
	case 0, 1:
		name := pick(rnd, policyNames)
		if h.policies[name] == "" || rnd.IntN(8) == 0 { // new, or replaced by another of that name
			h.policies[name] = types.UID(fmt.Sprintf("policy-%d", rnd.Uint32()))
		}
		clause := controlv1alpha1.DownsyncPolicyClause{DownsyncObjectTest: controlv1alpha1.DownsyncObjectTest{ObjectNames: []string{pick(rnd, objectNames), pick(rnd, objectNames)}}}
		for range rnd.IntN(3) {
			clause.StatusCollectors = append(clause.StatusCollectors, pick(rnd, "123"))
		}
		spec := &controlv1alpha1.BindingPolicySpec{
			ClusterSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"site": pick(rnd, "ab")}}},
			Downsync:         []controlv1alpha1.DownsyncPolicyClause{clause},
		}
		compiled, errs := match.Compile(spec)
		if compiled == nil {
			h.t.Fatal(errs)
		}
		h.notify(h.index.SetPolicyUID(name, h.policies[name]))
		h.notify(h.index.SetPolicy(name, compiled))
		return "set policy " + name
	case 2:
		name := pick(rnd, policyNames)
		delete(h.policies, name)
		h.notify(h.index.DeletePolicy(name))
		return "delete policy " + name
	case 3:
		name := pick(rnd, objectNames)
		if rnd.IntN(3) == 0 {
			h.notify(h.index.DeleteObject(refOf(name)))
			return "delete object " + name
		}
		h.mu.Lock()
		version := h.next()
		h.mu.Unlock()
		h.notify(h.index.SetObject(match.Resource{GroupVersionResource: configMaps, Kind: "ConfigMap"}, &metav1.ObjectMeta{
			Namespace: "n", Name: name, UID: types.UID(fmt.Sprintf("object-%s-%d", name, rnd.IntN(2))), ResourceVersion: version,
		}))
		return "set object " + name
	case 4:
		name := pick(rnd, clusterNames)
		if rnd.IntN(4) == 0 {
			h.notify(h.index.DeleteCluster(name))
			return "delete cluster " + name
		}
		h.notify(h.index.SetCluster(name, map[string]string{"site": pick(rnd, "ab"), "l": pick(rnd, "uv")}))
		return "set cluster " + name
	case 5:
		return h.changeCollector(pick(rnd, "123"))
	case 6:
		return h.spoil()
	default:
		key := statusreports.Key{Ref: refOf(pick(rnd, objectNames)), Cluster: pick(rnd, clusterNames)}
		h.mu.Lock()
		if rnd.IntN(5) == 0 {
			delete(h.reports, key)
		} else {
			h.reports[key] = &statusreports.Report{
				Report: corestatus.Report{Status: map[string]any{"n": int64(rnd.IntN(4))}}, Version: h.next(), Updated: time.Unix(int64(rnd.IntN(9)), 0),
			}
		}
		h.mu.Unlock()
		h.controller.OnReport(key)
		return "report of " + key.String()
	}
}

func (h *hub) changeCollector(name string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	current := h.collectors[name]
	if current != nil && h.rnd.IntN(4) == 0 {
		delete(h.collectors, name)
		h.sources["collectors"].Delete(current.DeepCopy())
		return "delete collector " + name
	}
	sc := &controlv1alpha1.StatusCollector{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("collector-" + h.next())}}
	change := h.sources["collectors"].Add
	if current != nil {
		sc = current.DeepCopy()
		change = h.sources["collectors"].Modify
	}
	sc.Generation++
	sc.Spec = controlv1alpha1.StatusCollectorSpec{Limit: int64(1 + h.rnd.IntN(3))}
	if h.rnd.IntN(5) == 0 {
		sc.Spec.Filter = new(controlv1alpha1.Expression("mistake"))
	}
	if h.rnd.IntN(2) == 0 {
		sc.Spec.Select = []controlv1alpha1.NamedExpression{{Name: "c", Def: "inventory"}, {Name: "n", Def: "returned.status.n"}}
	} else {
		sc.Spec.CombinedFields = []controlv1alpha1.NamedAggregator{{Name: "s", Type: "SUM", Subject: new(controlv1alpha1.Expression("returned.?status.?n"))}}
	}
	change(sc)
	h.collectors[name] = sc
	return "set collector " + name
}

// spoil edits or deletes a CombinedStatus, as somebody might by hand.
func (h *hub) spoil() string {
	synctest.Wait() // an object is edited only after its creator knows it
	h.mu.Lock()
	defer h.mu.Unlock()
	keys := slices.Sorted(maps.Keys(h.combined))
	if len(keys) == 0 {
		return "nothing to spoil"
	}
	key := keys[h.rnd.IntN(len(keys))]
	spoiled := h.combined[key].DeepCopy()
	switch h.rnd.IntN(5) {
	case 0:
		delete(h.combined, key)
		h.sources["combined"].Delete(spoiled)
		return "deleted " + key
	case 1:
		spoiled.Results = nil
	case 2:
		spoiled.Labels = nil
	case 3:
		metav1.SetMetaDataLabel(&spoiled.ObjectMeta, controlv1alpha1.LabelSubjectName, pick(h.rnd, objectNames))
	case 4:
		spoiled.OwnerReferences = nil
	}
	h.sources["combined"].Modify(spoiled)
	h.combined[key] = spoiled
	return "spoiled " + key
}

// TestRandomHistories: whatever happens in whatever order, with writes that fail and caches that
// lag, in the end there is what there should be; then nothing is written, nor by a restart; and
// nothing goes on after the end.
func TestRandomHistories(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	for seed := range uint64(25) {
		synctest.Test(t, func(t *testing.T) {
			h := newHub(t, seed)
			stop := h.start()
			for round := range 12 {
				var history []string
				h.mu.Lock()
				h.failing = 20
				h.mu.Unlock()
				for range 1 + h.rnd.IntN(12) {
					history = append(history, h.step())
					if h.rnd.IntN(3) == 0 {
						time.Sleep(time.Duration(h.rnd.IntN(400)) * time.Millisecond)
					}
				}
				h.mu.Lock()
				h.failing = 0
				h.mu.Unlock()
				time.Sleep(2 * time.Minute) // longer than any back-off
				synctest.Wait()
				if diff := cmp.Diff(h.want(), h.got()); diff != "" {
					t.Fatalf("seed %d round %d: after %q (-want +got):\n%s", seed, round, history, diff)
				}
				h.idle(seed, round, "it goes on")
				h.checkCached()
				if round%4 == 3 {
					stop()
					stop = h.start()
					h.idle(seed, round, "the restart wrote")
				}
			}
			for name, sc := range h.collectors {
				_, errs := combine.Compile(&sc.Spec)
				if sc.Status.ObservedGeneration != sc.Generation || !slices.Equal(sc.Status.Errors, errs) {
					t.Errorf("seed %d: collector %s at generation %d has status %v, want errors %q", seed, name, sc.Generation, sc.Status, errs)
				}
			}
			stop()
			for _, source := range h.sources {
				source.Shutdown()
			}
		})
	}
}

// checkCached checks that what is cached is counted right, and within the limit.
func (h *hub) checkCached() {
	h.t.Helper()
	h.controller.mu.Lock()
	defer h.controller.mu.Unlock()
	sum := 0
	for _, s := range h.controller.states {
		sum += s.size
		if s.size != s.table.Size()+s.object.size {
			h.t.Errorf("seed %d: %d bytes are counted of %d", h.seed, s.size, s.table.Size()+s.object.size)
		}
	}
	if sum != h.controller.cached || sum > h.controller.maxCached {
		h.t.Errorf("seed %d: %d bytes are cached, %d are counted, at most %d may be", h.seed, sum, h.controller.cached, h.controller.maxCached)
	}
}

func (h *hub) idle(seed uint64, round int, what string) {
	h.t.Helper()
	h.mu.Lock()
	before := h.writes
	h.mu.Unlock()
	time.Sleep(2 * time.Minute)
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.writes != before {
		h.t.Fatalf("seed %d round %d: %s: %d writes", seed, round, what, h.writes-before)
	}
}

// place makes an object, a policy that delivers it to a cluster, and a StatusCollector.
func (h *hub) place() {
	h.notify(h.index.SetObject(match.Resource{GroupVersionResource: configMaps}, &metav1.ObjectMeta{Namespace: "n", Name: "a", UID: "o"}))
	h.notify(h.index.SetCluster("x", nil))
	h.policies["p"] = "policy"
	compiled, _ := match.Compile(&controlv1alpha1.BindingPolicySpec{
		ClusterSelectors: []metav1.LabelSelector{{}},
		Downsync: []controlv1alpha1.DownsyncPolicyClause{{
			DownsyncObjectTest: controlv1alpha1.DownsyncObjectTest{ObjectNames: []string{"*"}},
			DownsyncModulation: controlv1alpha1.DownsyncModulation{StatusCollectors: []string{"1"}},
		}},
	})
	h.notify(h.index.SetPolicyUID("p", "policy"))
	h.notify(h.index.SetPolicy("p", compiled))
	sc := &controlv1alpha1.StatusCollector{ObjectMeta: metav1.ObjectMeta{Name: "1", Generation: 1}}
	sc.Spec.Select = []controlv1alpha1.NamedExpression{{Name: "n", Def: "returned.?status.?n"}}
	h.mu.Lock()
	h.sources["collectors"].Add(sc)
	h.collectors["1"] = sc
	h.mu.Unlock()
}

// TestDeletionThatTheWatchMissed: what was written and deleted while a watch was interrupted is in
// no event. It is re-created.
func TestDeletionThatTheWatchMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub(t, 1)
		h.unwatched = true
		stop := h.start()
		defer func() { h.end(stop) }()
		h.place()
		time.Sleep(time.Second)
		synctest.Wait()
		h.mu.Lock()
		if len(h.combined) != 1 {
			t.Fatalf("%d CombinedStatuses, want one", len(h.combined))
		}
		for key, cs := range h.combined {
			h.sources["combined"].DeleteDropWatch(cs.DeepCopy())
			delete(h.combined, key)
		}
		h.unwatched = false
		h.mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		if diff := cmp.Diff(h.want(), h.got()); diff != "" {
			t.Errorf("after it was deleted (-want +got):\n%s", diff)
		}
	})
}

// TestDebounce: a change is written at once after a quiet time, at most twice a second under churn,
// and the last state is always written.
func TestDebounce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub(t, 1)
		stop := h.start()
		defer func() { h.end(stop) }()
		h.place()
		time.Sleep(time.Minute)
		synctest.Wait()

		report := func(n int) { h.report("x", n) }
		shown := func() string {
			h.mu.Lock()
			defer h.mu.Unlock()
			for _, cs := range h.combined {
				if v := cs.Results[0].Rows[0].Columns[0]; v.Number != nil {
					return *v.Number
				}
			}
			return "none"
		}
		report(1)
		synctest.Wait() // no time passes
		if got := shown(); got != "1" {
			t.Errorf("at once there is %s", got)
		}
		before := h.writes
		for i := range 1000 {
			report(2 + i)
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got, writes := shown(), h.writes-before; got != "1001" || writes < 15 || writes > 21 {
			t.Errorf("after ten seconds of churn there is %s, by %d writes", got, writes)
		}
	})
}

// TestEvaluationThatTakesTooLong: its value is not known, the StatusCollector says so, and what was
// written stays until it is known.
func TestEvaluationThatTakesTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub(t, 2)
		stop := h.start()
		defer func() { h.end(stop) }()
		h.place()
		time.Sleep(time.Minute)
		synctest.Wait()
		before := h.got()

		h.controller.setTimeLimit(-time.Second)
		h.report("x", 7)
		time.Sleep(time.Second)
		synctest.Wait()
		if diff := cmp.Diff(before, h.got()); diff != "" {
			t.Errorf("what is not known was written (-want +got):\n%s", diff)
		}
		errs := h.collectors["1"].Status.Errors
		if len(errs) != 1 || !strings.Contains(errs[0], "not evaluated within") {
			t.Errorf("status.errors: %q", errs)
		}

		h.controller.setTimeLimit(time.Minute)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if diff := cmp.Diff(h.want(), h.got()); diff != "" {
			t.Errorf("when it is evaluated (-want +got):\n%s", diff)
		}
		if errs := h.collectors["1"].Status.Errors; len(errs) > 0 {
			t.Errorf("status.errors: %q", errs)
		}
	})
}

// setTimeLimit replaces the limit of one evaluation.
func (c *Controller) setTimeLimit(limit time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timeLimit = limit
}

// TestUnknownClusterStopsNoOther: the row of one cluster is not known, and those of others go on;
// after a restart, what is stored stays whole until it is known.
func TestUnknownClusterStopsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub(t, 2)
		stop := h.start()
		defer func() { h.end(stop) }()
		h.place()
		h.notify(h.index.SetCluster("y", nil))
		report := func(cluster string, n int, unknown string) {
			t.Helper()
			h.mu.Lock()
			h.unknown = unknown
			h.mu.Unlock()
			h.report(cluster, n)
			time.Sleep(time.Second)
			synctest.Wait()
		}
		shows := func(what, want string) {
			t.Helper()
			got := ""
			for _, cs := range h.combined {
				for _, r := range cs.Results[0].Rows {
					if v := r.Columns[0]; v.Number != nil {
						got += *v.Number + " "
					} else {
						got += "- "
					}
				}
				for _, e := range cs.Results[0].RowErrors {
					got += "unknown: " + e.WEC.ClusterID
				}
			}
			if got != want {
				t.Errorf("%s: %q, want %q", what, got, want)
			}
		}
		report("x", 1, "")
		report("y", 2, "")
		shows("known", "1 2 ")
		report("x", 3, "y")
		shows("y is unknown, x reports", "3 2 unknown: y")
		stop()
		stop = h.start()
		report("x", 4, "y")
		shows("after a restart", "3 2 unknown: y")
		report("y", 5, "")
		shows("known again", "4 5 ")
	})
}
