package rollout

import (
	"cmp"
	"maps"
	"slices"
	"time"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/foresight"
	"github.com/starlinghq/starling/pkg/core/foresight/explain"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/transform"
)

// Settle is how long a failure must last that may still be about an earlier edit: one that the
// cluster has not reported of this content, or of which a controller there may not have seen it
// yet. That something has arrived is never concluded from time.
const Settle = 3 * time.Second

// Patience is how long something may be unknown: an API server may be away for a moment.
const Patience = 15 * time.Second

// Tracker follows an edit, from one look at the facts to the next. It is not safe for concurrent
// use.
type Tracker struct {
	goal Stage
	// contents are those of the objects at the first look.
	contents map[objref.Ref]contentID
	// generations are those of the policies at the first look.
	generations map[string]contentID
	// since says since when a link of a copy is as it is.
	since map[copyKey]moment
	// done are the objects of which all copies have reached the goal, with their clusters, sorted.
	done map[objref.Ref][]string
}

// contentID identifies an edit.
type contentID struct {
	uid        string
	generation int64
	// hash is that of an object as it is read in a version of its API; "" for a policy.
	version string
	hash    transform.Hash
}

// same reports whether the edit is the same one. An object has another hash in each version: of two
// versions, the generations are compared.
func (c contentID) same(other contentID) bool {
	if c.version == other.version && c.version != "" {
		c.generation, other.generation = 0, 0 // it also counts what is not delivered
	} else {
		c.hash, other.hash, c.version, other.version = transform.Hash{}, transform.Hash{}, "", ""
	}
	return c == other
}

type moment struct {
	link  string
	state foresight.State
	at    time.Time
}

// NewTracker returns a Tracker that waits for a stage.
func NewTracker(goal Stage) *Tracker {
	return &Tracker{
		goal: goal, contents: map[objref.Ref]contentID{}, generations: map[string]contentID{}, since: map[copyKey]moment{}, done: map[objref.Ref][]string{},
	}
}

// Done reports whether all copies of an object have reached the goal: it need not be looked at any
// more, unless it gains a cluster.
func (t *Tracker) Done(ref objref.Ref) bool {
	_, done := t.done[ref]
	return done
}

// look is one look at the facts.
type look struct {
	*Tracker

	now    time.Time
	status *Status
	late   *late
	// clusters are those of all copies. Seen are the copies of which a link was noted.
	clusters map[string]bool
	seen     map[copyKey]bool
	// leave are the copies that are being removed.
	leave map[copyKey]bool
	// gained are the objects that were Done, and are not since they have gained clusters.
	gained map[objref.Ref]gain
}

// gain has the clusters in which an object was Done, and those that it gained.
type gain struct{ done, clusters []string }

// Look returns how far the rollout is.
func (t *Tracker) Look(now time.Time, facts *Facts) *Status {
	l := &look{
		Tracker: t, now: now, status: &Status{Goal: t.goal}, late: &late{all: map[string]*Late{}}, clusters: map[string]bool{}, seen: map[copyKey]bool{}, leave: map[copyKey]bool{},
		gained: map[objref.Ref]gain{},
	}
	listed := map[objref.Ref]bool{}
	for _, p := range facts.Policies {
		l.policy(p)
		for ref := range p.Listed() {
			listed[ref] = true
		}
	}
	// An object that is also named is judged once, with all its policies.
	slices.SortStableFunc(facts.Objects, func(a, b *explain.Object) int { return cmp.Compare(a.Policy, b.Policy) })
	looked := map[objref.Ref]bool{}
	for _, o := range facts.Objects {
		listed[o.Ref] = true
		if !looked[o.Ref] {
			l.object(o)
		}
		looked[o.Ref] = true
		delete(l.gained, o.Ref)
	}
	for ref, gain := range l.gained { // the next look has them
		l.status.Objects++
		for _, cluster := range gain.done {
			l.count(cluster, l.goal)
		}
		for _, cluster := range gain.clusters {
			l.count(cluster, None)
			l.late.add(ref.String(), cluster, Waiting, &foresight.Link{
				Name: explain.LinkCluster, State: foresight.Waiting, Text: "cluster " + cluster + " was added after the object had arrived in the others",
			})
		}
	}
	l.status.Leaving = len(l.leave)
	for ref, clusters := range t.done {
		if !listed[ref] {
			continue // a policy has lost it meanwhile: it is leaving
		}
		l.status.Objects++
		for _, cluster := range clusters {
			l.count(cluster, l.goal)
		}
	}
	for key := range t.since {
		if !l.seen[key] {
			delete(t.since, key)
		}
	}
	return l.finish()
}

// count counts a copy at a stage.
func (l *look) count(cluster string, stage Stage) {
	s := l.status
	l.clusters[cluster] = true
	s.Copies++
	for _, is := range []struct {
		stage Stage
		n     *int
	}{{Delivered, &s.Delivered}, {Applied, &s.Applied}, {Healthy, &s.Healthy}} {
		if stage.atLeast(is.stage) && l.goal.atLeast(is.stage) {
			*is.n++
		}
	}
}

// policy judges what a policy has in common for all its objects.
func (l *look) policy(p *explain.Policy) {
	subject, ref := "BindingPolicy "+p.Name, objref.New(controlv1alpha1.BindingPolicies.GroupResource(), "", p.Name)
	if policy := p.Selection.Value.Policy; policy != nil {
		is := contentID{uid: string(policy.UID), generation: policy.Generation}
		if was, known := l.generations[p.Name]; known && !was.same(is) {
			l.superseded(subject)
		} else {
			l.generations[p.Name] = is
		}
	}
	if first := foresight.First(p.Common()); first != nil {
		l.judge(copyKey{ref: ref}, subject, first, false)
	}
	destinations := p.Destinations()
	for ref := range p.Listed() {
		l.gains(ref, destinations)
	}
	for cluster, refs := range p.Leaving() {
		for _, ref := range refs {
			l.leaving(ref, cluster)
		}
	}
	l.removalKnown(ref, subject, &p.Fleet)
}

// gains makes an object not Done any more if there are clusters which it has to reach, too.
func (l *look) gains(ref objref.Ref, clusters []string) {
	done, known := l.done[ref]
	if !known || slices.Equal(done, clusters) {
		return
	}
	more := slices.DeleteFunc(slices.Clone(clusters), func(cluster string) bool {
		_, reached := slices.BinarySearch(done, cluster)
		return reached
	})
	if len(more) > 0 {
		delete(l.done, ref)
		l.gained[ref] = gain{done: done, clusters: more}
	}
}

// removalKnown reports whether it is known what leaves clusters: it is not if mailboxes could not
// be read.
func (l *look) removalKnown(ref objref.Ref, subject string, fleet *explain.Fleet) bool {
	unread := fleet.UnreadMailboxes()
	if unread == "" {
		return true
	}
	l.judge(copyKey{ref: ref, removal: true}, subject, &foresight.Link{
		Name: explain.LinkRemoved, State: foresight.Unknown, Text: "whether it is being removed from clusters is unknown: " + unread,
	}, false)
	return false
}

func (l *look) leaving(ref objref.Ref, cluster string) {
	key := copyKey{ref: ref, cluster: cluster}
	if l.leave[key] {
		return // its policy has said so
	}
	l.leave[key] = true
	l.late.add(ref.String(), cluster, Waiting, &foresight.Link{
		Name: explain.LinkRemoved, State: foresight.Waiting, Text: "cluster " + cluster + " has not reported yet that it is removed",
	})
}

func (l *look) superseded(subject string) {
	l.late.add(subject, "", Failed, &foresight.Link{
		Name: explain.LinkExists, State: foresight.Broken,
		Text: subject + " was changed again or re-created while it was waited for: whether the edit before arrives is not known any more", Fix: []string{"Wait for it again."},
	})
}

// object judges the copies of an object.
func (l *look) object(o *explain.Object) {
	subject, ways := o.Ref.String(), o.Ways()
	l.gains(o.Ref, slices.Sorted(maps.Keys(ways.Clusters)))
	if l.Done(o.Ref) {
		return
	}
	if live := o.Live.Value; live != nil {
		is := contentID{uid: string(live.GetUID()), generation: live.GetGeneration(), version: o.Version}
		if content, err := transform.Standard().Apply(o.Ref, live.DeepCopy().Object); err == nil {
			is.hash = content.Content()
		}
		if was, known := l.contents[o.Ref]; known && !was.same(is) {
			l.superseded(subject)
			return
		}
		l.contents[o.Ref] = is
	}
	done := true
	common := func(link *foresight.Link) {
		l.judge(copyKey{ref: o.Ref}, subject, link, false)
		done = false
	}
	if first := foresight.First(ways.Links); first != nil {
		common(first)
	}
	for i := range ways.Behind {
		done = false
		if o.Policy == "" { // otherwise the policy says so
			common(&ways.Behind[i])
		}
	}
	reached := map[string]Stage{}
	for cluster, links := range ways.Clusters {
		reached[cluster] = l.oneCopy(o, cluster, links)
		done = done && reached[cluster].atLeast(l.goal)
	}
	if o.Policy == "" { // otherwise the policy says what is leaving
		for _, cluster := range o.Leaving() {
			l.leaving(o.Ref, cluster)
			done = false
		}
		done = l.removalKnown(o.Ref, subject, &o.Fleet) && done
	}
	if done {
		l.done[o.Ref] = slices.Sorted(maps.Keys(reached)) // Look counts them
		return
	}
	l.status.Objects++
	for cluster, stage := range reached {
		l.count(cluster, stage)
	}
}

// oneCopy returns how far a copy is, and notes why it has not reached the goal.
func (l *look) oneCopy(o *explain.Object, cluster string, links []foresight.Link) Stage {
	key := copyKey{ref: o.Ref, cluster: cluster}
	stage, link := stageOf(links)
	if link == nil || link.Name == explain.LinkHealthy {
		if unknown := o.EditUnknown(cluster); unknown != "" {
			stage, link = Applied, &foresight.Link{Name: explain.LinkReported, State: foresight.Unknown, Text: unknown}
		}
	}
	if !stage.atLeast(l.goal) {
		l.judge(key, o.Ref.String(), link, link.Name == explain.LinkApplied && o.NoITS == "")
	}
	return stage
}

// lasts returns how long a link is as it is.
func (l *look) lasts(key copyKey, link *foresight.Link) time.Duration {
	l.seen[key] = true
	was, known := l.since[key]
	if !known || was.link != link.Name || was.state != link.State {
		was = moment{link.Name, link.State, l.now}
		l.since[key] = was
	}
	return l.now.Sub(was.at)
}

// away are links that somebody must mend, while the edit itself is in order: the cluster gets it
// when it is back.
func away(link *foresight.Link) bool {
	return slices.Contains(alive, link.Name) || link.Name == explain.LinkReported
}

// judge notes why a copy has not reached the goal. Certain says that the link is about this
// content, and not about an earlier one.
func (l *look) judge(key copyKey, subject string, link *foresight.Link, certain bool) {
	lasts := l.lasts(key, link)
	result := Waiting
	switch {
	case link.State == foresight.Broken && !away(link) && (certain || lasts >= Settle):
		result = Failed
	case link.State == foresight.Unknown && lasts >= Patience:
		result = Unknown
	}
	l.late.add(subject, key.cluster, result, link)
}

// finish sets what follows from the counts.
func (l *look) finish() *Status {
	s := l.status
	s.Clusters = len(l.clusters)
	s.Late = l.late.sorted()
	s.Result = Arrived
	for i := range s.Late {
		switch r := s.Late[i].Result; {
		case r == Failed:
			s.Result = Failed
		case r == Unknown && s.Result != Failed:
			s.Result = Unknown
		case s.Result == Arrived:
			s.Result = Waiting
		}
	}
	return s
}
