package pace

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const second = time.Second

var (
	start = time.Unix(1000, 0)
	wide  = Limit{Interval: time.Nanosecond, Burst: 1 << 30}
)

// TestTake: who may have an event, and how long others wait.
func TestTake(t *testing.T) {
	type call struct {
		at   time.Duration
		name string
		rest bool
		want time.Duration
	}
	few := Limit{Interval: second, Burst: 2}
	for name, tc := range map[string]struct {
		each, all Limit
		spaced    time.Duration
		calls     []call
		left      int
	}{
		"BurstThenOneASecond": {each: Limit{second, 3}, all: wide, left: 1, calls: []call{
			{name: "a"},
			{name: "a"},
			{name: "a"},
			{name: "a", want: second},
			{at: second - 1, name: "a", want: 1},
			{at: second, name: "a"},
			{at: second, name: "a", want: second},
			{at: 3 * second, name: "a"},
			{at: 3 * second, name: "a"},
			{at: 3 * second, name: "a", want: second},
		}},
		"NoMoreThanTheBurst": {each: few, all: wide, left: 1, calls: []call{
			{name: "a"},
			{at: time.Hour, name: "a"},
			{at: time.Hour, name: "a"},
			{at: time.Hour, name: "a", want: second},
		}},
		"NamesDoNotLimitEachOther": {each: Limit{second, 1}, all: wide, left: 2, calls: []call{
			{name: "a"},
			{name: "b"},
			{name: "a", want: second},
			{name: "b", want: second},
		}},
		"ForgottenWhenFull": {each: few, all: wide, calls: []call{
			{name: "a"},
			{at: second / 4, name: "a"},
			{at: second / 2, name: "a", rest: true, want: 3 * second / 2},
			{at: 2 * second, name: "a", rest: true},
			{at: 2 * second, name: "unknown", rest: true},
		}},
		"AllInLine": {each: wide, all: few, left: 5, calls: []call{
			{name: "a"},
			{name: "b"},
			{name: "c", want: second},
			{name: "d", want: 2 * second},
			{name: "e", want: 3 * second},
			{name: "d", want: 2 * second}, // it keeps its turn
			{at: second, name: "d", want: second},
			{at: second, name: "c"},
			{at: second, name: "c", want: 3 * second}, // behind e
			{at: 2 * second, name: "d"},
			{at: 3 * second, name: "e"},
			{at: 4 * second, name: "c"},
		}},
		"WhoLeavesKeepsNobody": {each: few, all: few, left: 4, calls: []call{
			{name: "a"},
			{name: "b"},
			{name: "c", want: second},
			{name: "d", want: 2 * second},
			{name: "c", rest: true},
			{at: 2 * second, name: "new"}, // there is a token for d, too
			{at: 2 * second, name: "newer", want: second},
			{at: 2 * second, name: "d"},
			{at: 3 * second, name: "newer"},
			{at: 9 * second, name: "a", rest: true},
		}},
		"TheLineStartsAgain": {each: few, all: few, left: 3, calls: []call{
			{name: "a"},
			{name: "b"},
			{name: "c", want: second},
			{name: "c", rest: true},
			{name: "d", want: second},
		}},
		"SpareOnesAreSpaced": {each: Limit{second, 1}, all: Limit{second, 100}, spaced: second / 20, left: 1, calls: []call{
			{name: "a"},
			{name: "a", want: second / 20},
			{at: second / 10, name: "a"},
			{at: second / 10, name: "a", want: second / 20},
			{at: second - 1, name: "a"},
			{at: second - 1, name: "a", want: 1}, // it has its own token
			{at: second, name: "a"},
		}},
		"SpareOnesLeaveTheRest": {each: Limit{second, 1}, all: Limit{second, 20}, spaced: 1, left: 20, calls: append([]call{
			{name: "a"},
			{at: 1, name: "a"},
			{at: 2, name: "a", want: second - 2},
			{at: second, name: "a"},
		}, func() (rest []call) {
			for i := range 18 { // those who come once
				rest = append(rest, call{at: second, name: fmt.Sprint(i)})
			}
			return append(rest, call{at: second, name: "late", want: second})
		}()...)},
		"TooLateForItsTurn": {each: wide, all: few, left: 6, calls: []call{
			{name: "a"},
			{name: "b"},
			{name: "c", want: second},
			{name: "d", want: 2 * second},
			{name: "e", want: 3 * second},
			{name: "f", want: 4 * second},
			{at: time.Minute, name: "c"},
			{at: time.Minute, name: "d"},
			{at: time.Minute, name: "e", want: second},
			{at: time.Minute, name: "f", want: 2 * second},
			{at: time.Minute + second, name: "f", want: second},
			{at: time.Minute + second, name: "e"},
			{at: time.Minute + 2*second, name: "f"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p := New(tc.each, tc.all, tc.spaced)
			for i, c := range tc.calls {
				do := p.Take
				if c.rest {
					do = p.Rest
				}
				if got := do(c.name, start.Add(c.at)); got != c.want {
					t.Errorf("call %d, %+v: wait %s", i, c, got)
				}
			}
			if p.Len() != tc.left {
				t.Errorf("keeps %d names, want %d", p.Len(), tc.left)
			}
		})
	}
}

func TestPerSecond(t *testing.T) {
	got := []Limit{PerSecond(20, 1000), PerSecond(0.5, 1), PerSecond(1e12, 3)}
	want := []Limit{{50 * time.Millisecond, 1000}, {2 * second, 1}, {1, 3}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
}

// object has a content that changes, and a copy of it that is written. Its next sync is at a time,
// or not due.
type object struct {
	content, written int
	due              time.Time
}

// TestAnySequence plays objects that change at random times against a Pace, as a controller with a
// queue does: a sync after each change, and after each wait. No window has more events than the
// limits allow, every last change is written, and in the end nothing is kept.
func TestAnySequence(t *testing.T) {
	for seed := range uint64(100) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			each := Limit{Interval: second, Burst: 1 + random.IntN(5)}
			all := Limit{Interval: time.Duration(1+random.IntN(400)) * time.Millisecond, Burst: 1 + random.IntN(20)}
			late := time.Duration(random.IntN(3)) * time.Duration(random.IntN(2000)) * time.Millisecond
			spaced := time.Duration(random.IntN(2)) * second / 20
			p := New(each, all, spaced)
			objects := make([]object, 1+random.IntN(30))
			events := map[string][]time.Time{}
			sync := func(i int, now time.Time) {
				o, name := &objects[i], fmt.Sprint(i)
				o.due = time.Time{}
				wait := p.Rest
				if o.content != o.written {
					wait = p.Take
				}
				left := wait(name, now)
				switch {
				case left < 0:
					t.Fatalf("wait of %s", left)
				case left > 0:
					o.due = now.Add(left)
				case o.content != o.written:
					o.written = o.content
					events[name] = append(events[name], now)
					events[""] = append(events[""], now)
					o.due = now // Rest says when again
				}
			}
			now, end := start, start.Add(time.Minute)
			for step := 0; ; step++ {
				if step > 100000 {
					t.Fatal("does not end")
				}
				// The next change or the next sync, whichever is first.
				next := -1
				for i := range objects {
					if due := objects[i].due; !due.IsZero() && (next < 0 || due.Before(objects[next].due)) {
						next = i
					}
				}
				change := now.Add(time.Duration(random.ExpFloat64() * float64(second) / 8))
				if change.Before(end) && (next < 0 || change.Before(objects[next].due)) {
					now = change
					i := random.IntN(len(objects))
					objects[i].content++
					if random.IntN(10) == 0 {
						objects[i].content = objects[i].written // as it was
					}
					sync(i, now)
					continue
				}
				if next < 0 {
					break
				}
				now = later(now, objects[next].due)
				if late > 0 && random.IntN(20) == 0 {
					now = now.Add(time.Duration(random.Int64N(int64(late)))) // all workers are busy
				}
				sync(next, now)
			}
			for i, o := range objects {
				if o.content != o.written {
					t.Errorf("the last change of %d is not written", i)
				}
			}
			if p.Len() != 0 {
				t.Errorf("keeps %d names", p.Len())
			}
			for name, at := range events {
				limit := each
				if name == "" {
					limit = all
				}
				for i := range at {
					for j := i; j < len(at); j++ {
						allowed := limit.Burst + int(at[j].Sub(at[i])/limit.Interval)
						if name != "" && spaced > 0 {
							allowed += 1 + int(at[j].Sub(at[i])/spaced)
						}
						if j-i+1 > allowed {
							t.Fatalf("%q: %d events in %s, allowed are %d", name, j-i+1, at[j].Sub(at[i]), allowed)
						}
					}
				}
			}
		})
	}
}

// TestOneObject: an object that changes all the time is written once a second after the burst, and
// its last change within a second. One that changes now and then is written at once.
func TestOneObject(t *testing.T) {
	p := New(Limit{Interval: second, Burst: 5}, wide, 0)
	var writes []time.Duration
	var wait time.Duration
	for at := time.Duration(0); at < 10*second; at += 10 * time.Millisecond {
		if wait = p.Take("a", start.Add(at)); wait == 0 {
			writes = append(writes, at)
		}
	}
	want := []time.Duration{0, 10e6, 20e6, 30e6, 40e6, 1e9, 2e9, 3e9, 4e9, 5e9, 6e9, 7e9, 8e9, 9e9}
	if diff := cmp.Diff(want, writes); diff != "" {
		t.Errorf("written at (-want +got):\n%s", diff)
	}
	if wait <= 0 || wait > second {
		t.Errorf("the last change waits %s", wait)
	}
	for at := time.Minute; at < time.Hour; at += second {
		if wait := p.Take("a", start.Add(at)); wait != 0 {
			t.Fatalf("a change in a second waits %s", wait)
		}
	}
}

// TestFair: of more objects than the limit of all allows, each is written in its turn, also those
// that changed once.
func TestFair(t *testing.T) {
	const objects = 200
	all := Limit{Interval: 50 * time.Millisecond, Burst: 10}
	p := New(Limit{Interval: second, Burst: 5}, all, second/20)
	due := make([]time.Duration, objects)
	last := make([]time.Duration, objects)
	calls, writes := 0, 0
	const long = 60 * second
	for at := time.Duration(0); at < long; at += 10 * time.Millisecond {
		for i := range objects {
			if due[i] > at {
				continue
			}
			calls++
			wait := p.Take(fmt.Sprint(i), start.Add(at))
			if wait > 0 {
				due[i] = at + wait
				continue
			}
			writes++
			if gap := at - last[i]; gap > objects*all.Interval+second {
				t.Fatalf("object %d waited %s", i, gap)
			}
			last[i] = at
		}
	}
	if most := all.Burst + int(long/all.Interval); writes > most || writes < most-10 {
		t.Errorf("%d writes, the limit is %d", writes, most)
	}
	if calls > 3*writes+objects {
		t.Errorf("%d calls for %d writes", calls, writes)
	}
}

// TestBusyObjects: a few objects that change ten times a second are written at each change, and
// many in their turns. An object that changes once is written at once while others are busy, and so
// are hundreds.
func TestBusyObjects(t *testing.T) {
	for name, tc := range map[string]struct {
		busy int
		// late is how many of ten changes wait.
		late int
	}{
		"One":  {1, 0},
		"Two":  {2, 0},
		"Many": {30, 9},
	} {
		t.Run(name, func(t *testing.T) {
			all := PerSecond(20, 1000)
			p := New(Limit{Interval: second, Burst: 5}, all, second/20)
			changes, late, events := 0, 0, 0
			const from, long = 10 * second, 60 * second
			for at := time.Duration(0); at < long; at += second / 10 {
				for i := range tc.busy {
					wait := p.Take(fmt.Sprint(i), start.Add(at))
					if wait == 0 {
						events++
					}
					if at >= from {
						changes++
						if wait > 0 {
							late++
						}
					}
				}
			}
			if late > changes*tc.late/10 {
				t.Errorf("%d of %d changes wait", late, changes)
			}
			if most := int(long/all.Interval) + tc.busy*5 + all.Burst; events > most {
				t.Errorf("%d events, at most %d", events, most)
			}
			if tc.busy > 20 {
				return // their own limits use all
			}
			for i := range 800 {
				if wait := p.Take(fmt.Sprintf("once-%d", i), start.Add(long)); wait > 0 {
					t.Fatalf("object %d that changes once waits %s", i, wait)
				}
			}
		})
	}
}
