// Package agentmodel is a model of a cluster with OCM's work agent, for tests of what is written to
// mailboxes. It does what the agent does, also with what is in its way; TestModel in
// test/integration/workagent compares the two.
//
// The agent applies all objects of a work. Then it deletes what its account of the work lists, an
// AppliedManifestWork in the cluster, and the work has no more. Then it reports, in the status of
// the work, and at last it records in the account which objects there are. If it cannot read an
// object of the work, it neither deletes nor records anything, and reports that the others are
// applied. It deletes only what the work owns, and that follows from the options that it applied
// last, not from those that it has not seen.
package agentmodel

import (
	"maps"

	"k8s.io/apimachinery/pkg/types"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/transform"
)

// Cluster is a cluster and its agent. Make one with New.
type Cluster struct {
	// Objects are those in the cluster.
	Objects map[objref.Ref]*Object
	// Deleted, if not nil, is called for each object that the agent deleted for a work.
	Deleted func(objref.Ref, types.UID)

	accounts map[types.UID]*account
	uids     int
}

// Object is an object in a cluster.
type Object struct {
	UID int
	// Hash is that of the content that was applied last.
	Hash transform.Hash
	// Owners are the UIDs of the works that own it: it is deleted with the last one.
	Owners map[types.UID]bool
}

// account is what the agent knows of the objects of a work.
type account struct {
	// lists are the objects, with the UID that each had.
	lists map[objref.Ref]int
	// cached: the agent's cache has the account. Until then it releases the work at once when that
	// is deleted.
	cached bool
}

// Obstacle is what the agent meets with an object.
type Obstacle int

// Obstacles.
const (
	// None: nothing is in the way.
	None Obstacle = iota
	// Refused: the cluster does not accept the content. The agent can read and delete the object.
	Refused
	// NotServed: the cluster does not serve the kind. So it has no such object.
	NotServed
	// Forbidden: the agent may neither read nor write the object.
	Forbidden
)

// Message returns what the agent reports of an object that it cannot apply.
func (o Obstacle) Message() string {
	switch o {
	case None:
	case Refused:
		return "Failed to apply manifest: admission webhook denied the request"
	case NotServed:
		return `Failed to apply manifest: the server doesn't have a resource type "Kind"`
	case Forbidden:
		return `Failed to apply manifest: objects "x" is forbidden: User "agent" cannot get resource "objects" in API group ""`
	}
	return ""
}

// Until is how far the agent gets before it ends.
type Until int

// Steps of the agent.
const (
	// Applied: the objects are applied, and those deleted that left.
	Applied Until = iota
	// Reported: and the status of the work is written.
	Reported
	// Accounted: and so is the account.
	Accounted
)

// New returns an empty cluster.
func New() *Cluster {
	return &Cluster{Objects: map[objref.Ref]*Object{}, accounts: map[types.UID]*account{}}
}

// Sync lets the agent look at a work, and returns what it applied: which of the objects it created,
// and the work with what it has reported, nil if it ended before that.
func (c *Cluster) Sync(work *plan.Work, until Until, meets func(objref.Ref) Obstacle) (created []objref.Ref, reported *plan.Work) {
	kept := c.accounts[work.UID]
	if kept == nil {
		kept = &account{}
		c.accounts[work.UID] = kept
	} else {
		kept.cached = true
	}
	next := *work
	next.Begun, next.Items = true, make([]plan.Item, len(work.Items))
	now := map[objref.Ref]int{}
	unreadable := false
	for i := range work.Items {
		item := work.Items[i]
		obstacle := meets(item.Ref)
		if c.apply(work.UID, &item, obstacle) {
			created = append(created, item.Ref)
		}
		next.Items[i] = item
		unreadable = unreadable || obstacle == NotServed || obstacle == Forbidden
		if o := c.Objects[item.Ref]; o != nil {
			now[item.Ref] = o.UID
		}
	}
	recorded := !unreadable && c.prune(work.UID, now, meets)
	if until == Applied {
		return created, nil
	}
	if until == Accounted && recorded {
		kept.lists = now
	}
	return created, &next
}

// apply applies one object, and fills in what is reported of it. It returns whether it created it.
func (c *Cluster) apply(work types.UID, item *plan.Item, obstacle Obstacle) (created bool) {
	item.State, item.Message, item.Unreadable = plan.Applied, "", obstacle == Forbidden
	if obstacle == NotServed || obstacle != None && !item.Observe {
		item.State, item.Message = plan.Failed, obstacle.Message()
		return false
	}
	if item.Observe {
		return false
	}
	o := c.Objects[item.Ref]
	if created = o == nil; created {
		c.uids++
		o = &Object{UID: c.uids, Hash: item.Hash, Owners: map[types.UID]bool{}}
		c.Objects[item.Ref] = o
	}
	if !item.CreateOnly {
		o.Hash = item.Hash
	}
	if o.Owners[work] = true; item.Orphan {
		delete(o.Owners, work)
	}
	return created
}

// prune deletes what the account of a work lists and the work has no more. It reports whether
// nothing was in the way.
func (c *Cluster) prune(work types.UID, now map[objref.Ref]int, meets func(objref.Ref) Obstacle) bool {
	ok := true
	for ref, was := range c.accounts[work].lists {
		if _, still := now[ref]; still {
			continue
		}
		switch obstacle, o := meets(ref), c.Objects[ref]; {
		case obstacle == Forbidden:
			ok = false
		case o == nil || !o.Owners[work]:
		case len(o.Owners) > 1 || o.UID == was:
			c.disown(ref, work)
		}
	}
	return ok
}

// disown removes an owner of an object, and the object with its last one.
func (c *Cluster) disown(ref objref.Ref, work types.UID) {
	o := c.Objects[ref]
	if !o.Owners[work] {
		return
	}
	delete(o.Owners, work)
	if len(o.Owners) > 0 {
		return
	}
	delete(c.Objects, ref)
	if c.Deleted != nil {
		c.Deleted(ref, work)
	}
}

// Collect removes the accounts of works that do not exist any more, and with them the objects that
// they owned. Works whose account was not in the agent's cache leave their objects behind.
func (c *Cluster) Collect(exists func(types.UID) bool) {
	for uid, kept := range c.accounts {
		if exists(uid) {
			continue
		}
		delete(c.accounts, uid)
		if !kept.cached || kept.lists == nil {
			continue
		}
		for ref := range maps.Clone(c.Objects) {
			c.disown(ref, uid)
		}
	}
}

// Lists returns the objects that the account of a work lists.
func (c *Cluster) Lists(work types.UID) map[objref.Ref]bool {
	listed := map[objref.Ref]bool{}
	if kept := c.accounts[work]; kept != nil {
		for ref := range kept.lists {
			listed[ref] = true
		}
	}
	return listed
}
