package feedback

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/health"
	"github.com/starlinghq/starling/pkg/core/inventory"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/packing"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/transform"
	"github.com/starlinghq/starling/pkg/transport/placement"
	"github.com/starlinghq/starling/pkg/transport/plugin"
)

// TestReadings: in any history, and at any time, the status that is put together from what was said
// before is the one that an evaluation of everything gives, to the letter.
func TestReadings(t *testing.T) {
	evaluated := 0
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) { evaluated += newHistory(t, seed).run(60) })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if evaluated == 0 {
		t.Error("no status was put together from what was said before")
	}
}

// randomHistory changes a fleet at random.
type randomHistory struct {
	*fleet
	t       *testing.T
	random  *rand.Rand
	p       *placement.Placement
	works   map[string]*plan.Work
	objects []objref.Ref

	incremental history
	missing     missingCopies
	old         controlv1alpha1.BindingStatus
	kept        int
}

// The name of one cluster is the beginning of that of another one: they sort otherwise with what
// follows.
var allClusters = []string{"a", "a-b", "b", "c", "d", "e", "f"}

func newHistory(t *testing.T, seed uint64) *randomHistory {
	r := &randomHistory{
		t: t, random: rand.New(rand.NewPCG(seed, 0)), works: map[string]*plan.Work{}, missing: missingCopies{},
		objects: append(deployments(4), settings, password, web),
	}
	answers := rand.New(rand.NewPCG(seed, 1)) // of the one worker
	r.fleet = newFleet(t, func(a *plan.Action) (plugin.Receipt, error) {
		switch answers.IntN(4) {
		case 0:
			return plugin.Receipt{}, plugin.ErrStale
		case 1:
			return plugin.Receipt{}, errors.New("no room")
		}
		return plugin.Receipt{UID: a.UID, Generation: a.Generation + 1}, nil
	})
	return r
}

func (r *randomHistory) run(steps int) (kept int) {
	defer r.stop()
	r.place(allClusters[:3], r.objects...)
	if r.random.IntN(4) > 0 {
		r.OnReports(plugin.ReportsRead)
	}
	for _, cluster := range allClusters {
		if r.random.IntN(4) > 0 {
			r.OnDestination(cluster, &plugin.Destination{Accepted: true})
			r.change(cluster)
		}
	}
	r.OnSynced()
	for range steps {
		r.change(pick(r.random, allClusters))
		if r.random.IntN(3) == 0 {
			time.Sleep(time.Duration(r.random.Int64N(int64(15 * time.Second))))
		}
		if r.random.IntN(2) == 0 {
			synctest.Wait() // or deliveries are under way
			r.compare()
		}
	}
	return r.kept
}

func pick[T any](random *rand.Rand, of []T) T { return of[random.IntN(len(of))] }

// some returns some of all, in their order.
func some[T any](random *rand.Rand, all []T) []T {
	return slices.DeleteFunc(slices.Clone(all), func(T) bool { return random.IntN(4) == 0 })
}

func (r *randomHistory) place(at []string, refs ...objref.Ref) { r.p = r.fleet.place(at, refs...) }

// change changes something, mostly at one cluster.
func (r *randomHistory) change(cluster string) {
	switch r.random.IntN(20) {
	case 0:
		r.place(some(r.random, allClusters), some(r.random, r.objects)...)
	case 1:
		r.OnDestination(cluster, pick(r.random, []*plugin.Destination{nil, {}, {Accepted: true}, {Accepted: true, Candidate: inventory.Candidate{}}}))
	case 2:
		r.OnReports(pick(r.random, []plugin.Reports{plugin.ReportsUnread, plugin.ReportsRead, plugin.ReportsRead, plugin.ReportsNone}))
	case 3:
		r.OnPartial(cluster, r.random.IntN(2) == 0)
	case 4, 5, 6, 7, 8, 9:
		r.OnReport(cluster, pick(r.random, r.objects), pick(r.random, []*plugin.Report{
			nil,
			{},
			{},
			{Verdict: health.Verdict{State: health.Progressing, Message: fmt.Sprint(r.random.IntN(3))}},
			{Verdict: health.Verdict{State: health.Unhealthy, Message: "out of quota"}},
			{Source: "u1"},
			{Source: "u1", Gone: true},
			{Gone: true},
		}))
	default:
		r.changeWork(cluster)
	}
}

// changeWork replaces a work by another one.
func (r *randomHistory) changeWork(cluster string) {
	name := fmt.Sprintf("uid-%d-%d", packing.WaveSecond, r.random.IntN(2))
	key := cluster + "/" + name
	before := r.works[key]
	if before != nil && r.random.IntN(8) == 0 {
		delete(r.works, key)
		r.OnWork(before, nil)
		return
	}
	after := &plan.Work{
		Mailbox: cluster, Name: name, UID: types.UID(key), BindingUID: "uid", Binding: "binding", Wave: packing.WaveSecond,
		Generation: 1 + r.random.Int64N(3), Begun: true, Deleting: r.random.IntN(10) == 0,
	}
	if r.random.IntN(10) == 0 {
		after.Foreign = plan.WDS{UID: "2", Name: "two"}
	}
	now := time.Now()
	for _, ref := range some(r.random, r.objects) {
		item := plan.Item{Ref: ref, Hash: transform.Hash{1}, Size: 10, State: plan.Applied, Reported: true, Since: now.Add(time.Duration(r.random.IntN(60)-50) * time.Second).Unix()}
		item.Source = pick(r.random, []types.UID{"", "u1", "u2"})
		switch r.random.IntN(8) {
		case 0:
			item.State = plan.State(r.random.IntN(4))
			item.Reason, item.Message = "AppliedManifestFailed", pick(r.random, []string{"no way", "namespaces \"web\" not found"})
		case 1:
			item.Hash = transform.Hash{2}
		case 2:
			item.Observe = r.random.IntN(4) == 0
		}
		after.Items = append(after.Items, item)
	}
	if r.random.IntN(10) == 0 {
		after.Items = append(after.Items, slices.Repeat([]plan.Item{{Ref: settings, Size: 200}}, 2200)...)
	}
	r.works[key] = after
	r.OnWork(before, after)
}

// compare compares the status from what was said before with that from everything.
func (r *randomHistory) compare() {
	r.t.Helper()
	now := time.Now()
	progress := r.reporter.config.Deliveries.Progress(r.p)
	for i := range progress.Destinations {
		d := &progress.Destinations[i]
		if said := r.incremental.readings[d.Name]; said.holds(d.Version, now) {
			r.kept++
		}
	}
	in := r.reporter.situationOf(r.p, &progress, &r.incremental, now)
	got, v := decideStatus(&r.old, in)

	everything := r.reporter.config.Deliveries.Progress(r.p)
	current := missingCopies{}
	var all []destination
	for i := range everything.Destinations {
		d := &everything.Destinations[i]
		r.reporter.config.Deliveries.Observe(d, r.p)
		all = append(all, destination{
			Destination: *d, wants: r.p.Desired.Wants,
			missingSince: func(ref objref.Ref, applied time.Time) time.Time {
				return r.missing.since(current, copyKey{d.Name, ref}, applied, now, now.Before(r.reporter.started.Add(startUp)))
			},
		})
	}
	want, recheck := statusOfAll(&r.old, in, all)
	if diff := cmp.Diff(want, got); diff != "" {
		r.t.Errorf("status (-everything +put together):\n%s", diff)
	}
	if v.recheck != recheck {
		r.t.Errorf("recheck after %s, want %s", v.recheck, recheck)
	}
	said := missingCopies{}
	for name, reading := range r.incremental.readings {
		for ref, since := range reading.missing {
			said[copyKey{name, ref}] = since
		}
	}
	if diff := cmp.Diff(current, said); diff != "" {
		r.t.Errorf("missing reports (-everything +put together):\n%s", diff)
	}
	r.old, r.missing = got, current
}

// TestListing: of texts in any order, in any parts, the first ones are kept, and all are counted.
func TestListing(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for range 1000 {
		var all []string
		var got names
		for range random.IntN(5) {
			var part []string
			for range random.IntN(8) {
				part = append(part, fmt.Sprint(random.IntN(20)))
			}
			all = append(all, part...)
			got.add(namesOf(part...))
		}
		if want := allNames(all); got.String() != want {
			t.Fatalf("%q of %q, want %q", got, all, want)
		}
	}
}
