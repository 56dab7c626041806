// Package pace decides when something that happens again and again, under many names, may happen
// next: soon if it was rare so far, at a limited rate if not. It has no clock: callers pass the
// time, which does not go back.
package pace

import "time"

// Limit allows Burst events at once, and one more in each Interval after that. Both are positive.
// It is a token bucket: it holds at most Burst tokens, gets one in each Interval, and each event
// takes one. In a time t there are at most Burst + t/Interval events.
type Limit struct {
	Interval time.Duration
	Burst    int
}

// PerSecond returns a Limit of that many events per second.
func PerSecond(rate float64, burst int) Limit {
	return Limit{Interval: max(1, time.Duration(float64(time.Second)/rate)), Burst: burst}
}

// A bucket is the time at which it has all its tokens again. So one that has them needs no memory:
// it is any time in the past, and the zero time.

// wait returns how long a bucket has no token, 0 if it has one.
func (l Limit) wait(full, now time.Time) time.Duration {
	return max(0, max(0, full.Sub(now))-time.Duration(l.Burst-1)*l.Interval)
}

// tokens returns the number of tokens in a bucket.
func (l Limit) tokens(full, now time.Time) int {
	missing := max(0, full.Sub(now))
	return l.Burst - int((missing+l.Interval-1)/l.Interval)
}

// take returns the bucket with one token less.
func (l Limit) take(full, now time.Time) time.Time { return later(full, now).Add(l.Interval) }

// Pace limits the events of each name, and those of all names together. Names that may not have an
// event because of the others wait in line, so that each gets its turn. A name that has used its
// own tokens may have further events from what all names together leave unused. It is not safe for
// concurrent use.
//
// It keeps something about a name while events of the name are limited or it waits in line, until
// Rest. The cost of a call does not depend on the number of names.
type Pace struct {
	each, all Limit
	// own are the buckets of the names, and shared is that of all.
	own    map[string]time.Time
	shared time.Time
	// spaced is the least time before an event that its name has no token for, 0 if there are none;
	// latest are the times of the latest events.
	spaced time.Duration
	latest map[string]time.Time
	// turns are the times at which the names in line may take a token of the shared bucket; last is
	// the latest of them.
	turns map[string]time.Time
	last  time.Time
}

// New returns a Pace with a Limit for each name, and one for all names together. If spaced is not
// 0, a name may exceed its Limit, with that time between two events, as long as the shared bucket
// is nearly full. So a few busy names use the rate of all. They leave the burst to what happens
// once, and many busy names get what their own Limit allows.
func New(each, all Limit, spaced time.Duration) *Pace {
	return &Pace{each: each, all: all, spaced: spaced, own: map[string]time.Time{}, turns: map[string]time.Time{}, latest: map[string]time.Time{}}
}

// Take counts an event of the name and returns 0, if the event may happen now. Otherwise it returns
// how long to wait before the next Take.
func (p *Pace) Take(name string, now time.Time) time.Duration {
	if wait := p.each.wait(p.own[name], now); wait > 0 {
		return p.takeSpare(name, now, wait)
	}
	turn, waits := p.turns[name]
	if waits && turn.After(now) {
		return turn.Sub(now)
	}
	delete(p.turns, name)
	wait := p.all.wait(p.shared, now)
	// The tokens that are there belong to the names in line. A name that comes too late for its
	// turn may find none, because a bucket loses what it cannot hold. Then it waits for another
	// one.
	if wait > 0 || !waits && p.all.tokens(p.shared, now) <= len(p.turns) {
		p.turns[name] = p.nextTurn(now, wait)
		return p.turns[name].Sub(now)
	}
	p.own[name] = p.each.take(p.own[name], now)
	p.take(name, now)
	return 0
}

func (p *Pace) take(name string, now time.Time) {
	p.shared = p.all.take(p.shared, now)
	if p.spaced > 0 {
		p.latest[name] = now
	}
}

// sparePart is the part of the shared bucket that is for names that have no token of their own.
const sparePart = 10

// takeSpare is Take for a name that has a token only after a wait.
func (p *Pace) takeSpare(name string, now time.Time, wait time.Duration) time.Duration {
	if p.spaced == 0 || p.all.tokens(p.shared, now) <= p.all.Burst-max(1, p.all.Burst/sparePart) {
		return wait
	}
	if early := p.spaced - now.Sub(p.latest[name]); early > 0 {
		return min(wait, early)
	}
	p.take(name, now)
	return 0
}

// nextTurn returns the turn after all others: the time of the next token if there are none.
func (p *Pace) nextTurn(now time.Time, wait time.Duration) time.Time {
	if len(p.turns) == 0 {
		p.last = now.Add(wait)
	} else {
		p.last = later(p.last, now).Add(p.all.Interval)
	}
	return p.last
}

// Rest says that no event of the name is due: it leaves the line. Rest returns when to call it
// again so that the name is forgotten, 0 if it is.
func (p *Pace) Rest(name string, now time.Time) time.Duration {
	delete(p.turns, name)
	left := p.own[name].Sub(now)
	if left > 0 {
		return left
	}
	delete(p.own, name)
	delete(p.latest, name)
	return 0
}

// Len returns the number of names of which something is kept.
func (p *Pace) Len() int {
	n := len(p.own)
	for name := range p.turns {
		if _, counted := p.own[name]; !counted {
			n++
		}
	}
	return n
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
