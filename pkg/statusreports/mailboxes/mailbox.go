package mailboxes

import (
	"slices"
	"strings"
	"time"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/objref"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
)

// Limits bound what is kept of one cluster.
type Limits struct{ Reports, Bytes int }

// DefaultLimits are those of every program. Ten thousand objects with a status of 6 KiB reach
// neither.
func DefaultLimits() Limits { return Limits{Reports: 20_000, Bytes: 64 << 20} }

// Kept is what is kept of a WorkStatus.
type Kept[T any] struct {
	Value *T
	// Bytes is about how much memory it takes beside a constant.
	Bytes int
	// Updated is when the status last changed; zero if the user of the Store does not need it.
	Updated time.Time
}

// mailbox is what is kept of one cluster.
type mailbox[T any] struct {
	reports map[string]entry[T] // by the name of the WorkStatus
	bytes   int
	refused int
	// partial reports whether a WorkStatus was refused since everything was last listed.
	partial bool
	// last is when the status of a report last changed.
	last time.Time
	// logged reports whether it was logged that reports are refused.
	logged bool
}

// entry is a report in a mailbox.
type entry[T any] struct {
	value   *T
	bytes   int
	version string // the resourceVersion
}

// RefOf returns the object that a WorkStatus is about.
func RefOf(ws *controlv1alpha1.WorkStatus) objref.Ref {
	source := &ws.Spec.SourceRef
	return objref.Ref{Group: source.Group, Resource: source.Resource, Namespace: source.Namespace, Name: source.Name}
}

// counts reports whether a WorkStatus is a report for our WDS. Agents name it after its object:
// another one with our labels was written by somebody else, and the agent deletes it. The
// selector also finds those for several other WDSes.
func (c *Config[T]) counts(ws *controlv1alpha1.WorkStatus) bool {
	wds := ws.Labels[controlv1alpha1.LabelWDSUID]
	isOurs := wds == string(c.WDS) || wds == controlv1alpha1.SeveralWDSes &&
		slices.Contains(strings.Split(ws.Annotations[controlv1alpha1.AnnotationWDSUIDs], ","), string(c.WDS))
	return isOurs && ws.Name == corestatus.ReportName(RefOf(ws))
}

// reduce returns what Reduce keeps of a WorkStatus, nothing of one that does not count.
func (c *Config[T]) reduce(ws *controlv1alpha1.WorkStatus) Kept[T] {
	if !c.counts(ws) {
		return Kept[T]{}
	}
	return c.Reduce(ws)
}

// put adds or updates a WorkStatus, of which kept is to be kept. It returns what was kept before,
// and what is now.
func (b *mailbox[T]) put(ws *controlv1alpha1.WorkStatus, kept Kept[T], limits Limits) (before, after entry[T]) {
	before = b.take(ws.Name)
	if kept.Value == nil {
		return before, entry[T]{}
	}
	if len(b.reports) >= limits.Reports || b.bytes+kept.Bytes > limits.Bytes {
		b.refused++
		b.partial = true
		return before, entry[T]{}
	}
	after = entry[T]{value: kept.Value, bytes: kept.Bytes, version: ws.ResourceVersion}
	b.reports[ws.Name] = after
	b.bytes += after.bytes
	if b.last.Before(kept.Updated) {
		b.last = kept.Updated
	}
	return before, after
}

// take removes a WorkStatus, and returns what was kept of it.
func (b *mailbox[T]) take(name string) entry[T] {
	before, ok := b.reports[name]
	if ok {
		delete(b.reports, name)
		b.bytes -= before.bytes
	}
	return before
}

// drop notes that a WorkStatus that is not kept is gone, or is about to be counted again.
func (b *mailbox[T]) drop(ws *controlv1alpha1.WorkStatus, config *Config[T]) {
	if b.refused > 0 && config.counts(ws) {
		b.refused--
	}
}

// worthListing reports whether another list could find reports that were refused, or that there are
// none: there is room for a part of them, or all are gone.
func (b *mailbox[T]) worthListing(limits Limits) bool {
	const part = 10
	return b.partial && (b.refused == 0 || len(b.reports) <= limits.Reports-limits.Reports/part && b.bytes <= limits.Bytes-limits.Bytes/part)
}

// boxOf returns the mailbox of a cluster in a map, to which it is added.
func boxOf[T any](in map[string]*mailbox[T], cluster string) *mailbox[T] {
	b := in[cluster]
	if b == nil {
		b = &mailbox[T]{reports: map[string]entry[T]{}}
		in[cluster] = b
	}
	return b
}
