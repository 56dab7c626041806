package binding

import (
	"cmp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/clusters"
	corebinding "github.com/starlinghq/starling/pkg/core/binding"
	coreinventory "github.com/starlinghq/starling/pkg/core/inventory"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/dynamicinformer"
)

// gathered is what gather found.
type gathered struct {
	state *corebinding.State
	// syncing are the policies whose Bindings are not known exactly, since a sync of them is
	// running.
	syncing []string
	// unsettled are the policies of whose last writes it is not known whether the caches have them.
	unsettled []string
	// events is memory.now before anything was read.
	events uint64
}

// gather returns the State of a policy. It reads caches, never an API server, and writes nothing.
// ok is false if there is nothing to do, or not yet: then the policy is to be synced again after
// the duration, or an event follows.
func (c *Controller) gather(name string) (in gathered, ok bool, after time.Duration) {
	events := c.memory.now()
	policy := c.policy(name)
	if policy == nil {
		return gathered{}, false, 0
	}
	if c.behind(policy) {
		return gathered{}, false, confirmAfter
	}
	first, overflow := c.binding(name), c.overflow(policy)
	taken := c.namesLike(name)
	spec, _ := c.memory.spec(name)
	if spec.version != versionOfPolicy(policy) {
		return gathered{}, false, 0 // the handler is about to update the index, and to enqueue
	}
	remembered := c.memory.of(name)
	s := &corebinding.State{
		Now: c.config.Clock.Now(), Policy: policy, First: first, Overflow: overflow, NamesTaken: taken, MaxSize: c.config.MaxBindingSize,
		Invalid: spec.invalid, RetainedSince: remembered.retainedSince, MissingSince: remembered.missingSince,
		WaitSet: c.memory.until(name, betweenSets), WaitVersions: c.memory.until(name, betweenVersions),
		Collectors: c.collectorsOf(policy),
	}
	s.RemovalBlock, s.Mistakes = corebinding.ParseRemovalBlock(policy.Annotations)
	s.RemovalBlock.Begun = remembered.allowed
	s.StatusErrors, s.StatusErrorsIn = c.statusErrorsOf(policy, spec.compiled)
	stored := corebinding.Unite(corebinding.SpecsOf(s.Bindings()))
	listed := corebinding.ListedIn(stored)
	in = gathered{state: s, events: events}
	if policy.DeletionTimestamp != nil {
		others := c.config.Index.Others(name, listed)
		s.Labels = others.Labels
		c.handOver(&in, others)
		return in, true, 0
	}
	if spec.compiled == nil {
		return in, true, 0
	}
	s.Unserved = append(match.Unserved(&policy.Spec, served{c.config.API, c.config.Selectable}), c.config.Index.Withheld(name)...)
	// Before the snapshot: what is read in between is not in it completely.
	s.Unread = c.unread(listed)
	s.Missing, s.Broken, s.Reading = c.missing(spec.compiled, policy, s.Unread, listed)
	s.NotServed = c.notServed(listed)
	if s.IsObserved() {
		s.Miscounts = c.config.Index.Miscounts(name, corebinding.MaxMiscounts)
	}
	if len(s.Missing) == 0 {
		if revision, known := c.config.Index.Revision(name); known && first != nil && remembered.upToDate == stateOf(revision, s.Bindings()) {
			s.UpToDate = true
			s.Pending, s.Drained = c.leftOut(policy, spec.compiled)
			return in, true, 0
		}
	}
	var others match.Others
	s.Selected, others, ok = c.config.Index.Snapshot(name, listed)
	for _, cluster := range s.Selected.Unseen { // the index may be behind the inventory
		if _, state := c.config.Clusters.Get(cluster); state == coreinventory.Unknown || state == coreinventory.Accepted {
			s.Unread.Clusters[cluster] = true
		}
	}
	s.Labels = others.Labels
	c.handOver(&in, others)
	s.Pending, s.Drained = c.leftOut(policy, spec.compiled)
	if s.RemovalBlock.Applies(stored) {
		s.Departed = c.deletions.of(listed.Objects)
	}
	return in, ok, 0
}

// handOver adds what the policies list that select what this one no longer does.
//
// The order of reading makes it safe. The index was read before. A sync that is running now may
// have decided on an older index and be about to remove objects, so its policy counts as one that
// lists nothing. If none is running, its last write is noted, and the cache is compared with it. If
// the cache has that write, it is read once more, since it may have been older before. A Binding of
// which a write failed that may have been made nevertheless, or may still be, counts as one that
// lists nothing.
func (c *Controller) handOver(in *gathered, others match.Others) {
	s := in.state
	s.HandOver = corebinding.HandOver{Selecting: others.Selecting, Others: map[string]corebinding.Other{}}
	for name, clusters := range others.Clusters {
		policy := c.policy(name)
		if policy == nil {
			continue
		}
		isSyncing := c.memory.isSyncing(name)
		isBehind := c.behind(policy)
		spec, _ := c.memory.spec(name)
		state := corebinding.State{Policy: policy, First: c.binding(name), Overflow: c.overflow(policy), Invalid: spec.invalid}
		if !state.WritesBindings() {
			continue
		}
		other := corebinding.Other{Clusters: clusters}
		unsettled := isBehind
		for _, b := range state.Bindings() {
			isUncertain := c.writes.isUncertain(bindingWrite(b.Name), b.ResourceVersion)
			unsettled = unsettled || isUncertain
			if !isSyncing && !isBehind && b.DeletionTimestamp == nil && !isUncertain {
				other.Listed = append(other.Listed, &b.Spec)
			}
		}
		s.HandOver.Others[name] = other
		if isSyncing {
			in.syncing = append(in.syncing, name)
		}
		if unsettled {
			in.unsettled = append(in.unsettled, name)
		}
	}
}

// missing lists what the policy could select, or its Bindings list, and what has not synced since
// startup, and all of that, synced or not, that fails. Sorted. It also reports whether all of what
// has not synced is being read, without an error so far.
func (c *Controller) missing(
	compiled *match.Policy, policy *controlv1alpha1.BindingPolicy, unread corebinding.Unread, listed match.Listed,
) (missing []string, broken []corebinding.Broken, reading bool) {
	var itses []string
	if len(policy.Spec.ClusterSelectors) > 0 || len(listed.Clusters) > 0 {
		itses = unsyncedITSes(c.config.Clusters)
	}
	if len(c.config.API.Resources()) == 0 {
		return append([]string{"the API of the WDS"}, itses...), nil, false
	}
	reading = len(itses) == 0
	failed, failedGroups := c.failures.of(c.config.API.Unknown())
	fails := func(name string, failure failure, holds bool) {
		reading = reading && !holds
		broken = append(broken, corebinding.Broken{Name: name, Err: failure.err, Holds: holds, Settled: c.failures.isSettled(failure)})
	}
	for gr, read := range unread.Read {
		isListed := slices.ContainsFunc(listed.Objects, func(ref objref.Ref) bool { return ref.GroupResource() == gr })
		if !compiled.Reaches(gr) && !isListed || !c.config.Selectable(gr) {
			continue
		}
		failure, isFailing := failed[gr]
		if isFailing {
			fails(gr.String(), failure, isListed || compiled.Names(gr))
		}
		if !read {
			missing = append(missing, gr.String())
			_, watched := c.config.API.Resources()[gr]
			reading = reading && watched
		}
	}
	for group, failure := range failedGroups {
		if compiled.ReachesGroup(group) && c.config.Selectable(schema.GroupResource{Group: group}) {
			missing = append(missing, "API group "+group)
			fails("API group "+group, failure, compiled.NamesGroup(group))
		}
	}
	slices.Sort(missing)
	slices.SortFunc(broken, func(a, b corebinding.Broken) int { return strings.Compare(a.Name, b.Name) })
	return append(missing, itses...), broken, reading
}

// notServed returns what the Bindings list and the WDS does not serve for now.
func (c *Controller) notServed(listed match.Listed) corebinding.NotServed {
	var of corebinding.NotServed
	seen := map[schema.GroupResource]bool{}
	for _, ref := range listed.Objects {
		gr := ref.GroupResource()
		if seen[gr] {
			continue
		}
		seen[gr] = true
		switch c.config.API.NotServed(gr) {
		case dynamicinformer.NoServedVersion:
			of.NoVersion = append(of.NoVersion, gr.String())
		case dynamicinformer.NoResponse:
			of.NoResponse = append(of.NoResponse, gr.String())
		case dynamicinformer.Served:
		}
	}
	slices.Sort(of.NoVersion)
	slices.Sort(of.NoResponse)
	return of
}

// unsyncedITSes returns the ITSes that have not synced, as "ITS its1".
func unsyncedITSes(reader *clusters.Reader) []string {
	var missing []string
	for _, name := range reader.Unsynced() {
		missing = append(missing, "ITS "+name)
	}
	return missing
}

// unread returns what nothing may be concluded about, of all that the Bindings list or could list.
func (c *Controller) unread(listed match.Listed) corebinding.Unread {
	unread := corebinding.Unread{Read: map[schema.GroupResource]bool{}, Clusters: map[string]bool{}}
	for gr := range c.config.API.Resources() {
		unread.Read[gr] = !c.isUnread(gr)
	}
	for _, ref := range listed.Objects {
		if gr := ref.GroupResource(); !unread.Read[gr] {
			unread.Read[gr] = !c.isUnread(gr)
		}
	}
	for _, cluster := range listed.Clusters {
		if c.isUnknownCluster(cluster) {
			unread.Clusters[cluster] = true
		}
	}
	return unread
}

func (c *Controller) isUnknownCluster(name string) bool {
	_, state := c.config.Clusters.Get(name)
	return state == coreinventory.Unknown
}

// isUnread reports whether nothing may be concluded about the objects of a resource. A resource
// that is gone from the WDS, or that is no workload, has no objects: that is knowledge.
func (c *Controller) isUnread(gr schema.GroupResource) bool {
	if c.config.Index.Known(gr) || !c.config.Selectable(gr) {
		return false
	}
	if _, watched := c.config.API.Resources()[gr]; watched {
		return true
	}
	return !c.config.API.Gone(gr)
}

func (c *Controller) collectorsOf(policy *controlv1alpha1.BindingPolicy) corebinding.Collectors {
	names := corebinding.CollectorsIn(&policy.Spec)
	of := corebinding.Collectors{Named: len(names) > 0}
	if c.config.Collectors != nil {
		of.Missing, of.Invalid, of.Known = c.config.Collectors.Missing(names)
	}
	return of
}

// statusErrorsOf returns what keeps the status of objects from coming back. For a moment after the
// start that is not known: then in is how long.
func (c *Controller) statusErrorsOf(policy *controlv1alpha1.BindingPolicy, compiled *match.Policy) (texts []string, in time.Duration) {
	texts = c.statusErrors.of(policy.Name)
	if len(texts) > 0 || compiled == nil || !compiled.WantsStatus() || len(policy.Status.Errors) == 0 {
		return texts, 0
	}
	return nil, max(0, settleStatusErrors-c.config.Clock.Since(c.started))
}

// served answers for package match.
type served struct {
	API
	selectable func(schema.GroupResource) bool
}

// Selects implements match.API.
func (s served) Selects(group *string, resource string) bool {
	for gr := range s.Resources() {
		if (group == nil || *group == gr.Group) && (resource == "" || resource == gr.Resource) && s.selectable(gr) {
			return true
		}
	}
	return false
}

func (c *Controller) policy(name string) *controlv1alpha1.BindingPolicy {
	item, _, _ := c.config.Policies.GetStore().GetByKey(name)
	policy, _ := item.(*controlv1alpha1.BindingPolicy)
	return policy
}

func (c *Controller) binding(name string) *controlv1alpha1.Binding {
	item, _, _ := c.config.Bindings.GetStore().GetByKey(name)
	binding, _ := item.(*controlv1alpha1.Binding)
	return binding
}

// storedOf returns what all Bindings of a policy list, nil if it has none.
func (c *Controller) storedOf(policy *controlv1alpha1.BindingPolicy) *controlv1alpha1.BindingSpec {
	s := corebinding.State{Policy: policy, First: c.binding(policy.Name), Overflow: c.overflow(policy)}
	return corebinding.Unite(corebinding.SpecsOf(s.Bindings()))
}

// overflow returns the Bindings of the policy but for that of its name, in the order in which they
// were created.
func (c *Controller) overflow(policy *controlv1alpha1.BindingPolicy) []*controlv1alpha1.Binding {
	overflow := slices.DeleteFunc(c.bindingsBy(byOwner, string(policy.UID)), func(b *controlv1alpha1.Binding) bool { return b.Name == policy.Name })
	slices.SortFunc(overflow, func(a, b *controlv1alpha1.Binding) int {
		return cmp.Or(cmp.Compare(len(a.Name), len(b.Name)), strings.Compare(a.Name, b.Name))
	})
	return overflow
}

// namesLike returns the names of Bindings, of all owners, that look like overflow of the policy.
func (c *Controller) namesLike(policy string) map[string]bool {
	taken := map[string]bool{}
	for _, b := range c.bindingsBy(byBase, baseOf(corebinding.OverflowName(policy, 2))) {
		taken[b.Name] = true
	}
	return taken
}

func (c *Controller) bindingsBy(index, value string) []*controlv1alpha1.Binding {
	items, _ := c.config.Bindings.GetIndexer().ByIndex(index, value) // its error is that of an unknown index
	bindings := make([]*controlv1alpha1.Binding, 0, len(items))
	for _, item := range items {
		if b, ok := item.(*controlv1alpha1.Binding); ok {
			bindings = append(bindings, b)
		}
	}
	return bindings
}

// Indexes of Bindings: by the UID of their policy, and by their name without the number of
// overflow.
const (
	byOwner = "owner"
	byBase  = "base"
)

var indexers = cache.Indexers{
	byOwner: func(obj any) ([]string, error) {
		if b, ok := obj.(*controlv1alpha1.Binding); ok {
			if owner := metav1.GetControllerOfNoCopy(b); owner != nil {
				return []string{string(owner.UID)}, nil
			}
		}
		return nil, nil
	},
	byBase: func(obj any) ([]string, error) {
		if b, ok := obj.(*controlv1alpha1.Binding); ok {
			return []string{baseOf(b.Name)}, nil
		}
		return nil, nil
	},
}

// baseOf returns a name up to its last "--".
func baseOf(name string) string {
	if i := strings.LastIndex(name, "--"); i >= 0 {
		return name[:i]
	}
	return name
}
