package combinedstatus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/starlinghq/starling/pkg/controller/worker"
	"github.com/starlinghq/starling/pkg/core/combine"
	"github.com/starlinghq/starling/pkg/core/expression"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/dynamicinformer"
	"github.com/starlinghq/starling/pkg/metrics"
	"github.com/starlinghq/starling/pkg/statusreports"
)

// Name of the controller, in logs and metrics.
const Name = "combined"

// between is the least time between two evaluations of one pair: under churn, changes are collected
// for so long.
const between = 500 * time.Millisecond

// believed is how long a CombinedStatus that was written is assumed to exist although the cache
// does not show it. The watch shows it within milliseconds, unless it was interrupted and the
// CombinedStatus was deleted in that time: that causes no event.
const believed = 10 * time.Second

// maxCached bounds what all tables and objects together keep in memory for the next evaluation, in
// bytes. A pair beyond it is evaluated from the beginning when something changes.
const maxCached = 256 << 20

// Collections returns what policies request. *match.Index is one. It does not block.
type Collections interface {
	Collection(pair match.Pair) match.Collection
	ClusterLabels(cluster string) (map[string]string, bool)
}

// Reports returns the reports of clusters. *statusreports.Reader is one. It does not block.
type Reports interface {
	Get(ref objref.Ref, uid types.UID, cluster string) (*statusreports.Report, bool)
	Version(ref objref.Ref, uid types.UID, cluster string) (string, bool)
}

// Config is what a Controller is made of. All fields are required.
type Config struct {
	// Collections are what policies request.
	Collections Collections
	// Resource returns the resource in the version in which the WDS is watched. Gone reports
	// whether it is certain that the WDS has no object of it.
	Resource func(gr schema.GroupResource) (dynamicinformer.Resource, bool)
	Gone     func(gr schema.GroupResource) bool
	// Reports are the reports of clusters. Its owner runs it.
	Reports Reports
	// Collectors are the StatusCollectors. Their owner runs them.
	Collectors *Collectors
	// CombinedStatuses is the informer that NewInformer returns. The Controller runs it.
	CombinedStatuses cache.SharedIndexInformer
	// Client reads single objects of the WDS.
	Client dynamic.Interface
	// Writer writes to the WDS.
	Writer Writer
	// Clock is the real one except in tests.
	Clock clock.WithTicker
}

// Controller reconciles CombinedStatuses. It observes Collections (OnChanges and OnKnown), Reports
// (as a statusreports.Listener) and Collectors (OnCollector), which may call it before and while it
// runs.
type Controller struct {
	config Config
	synced worker.Syncs
	queue  *worker.Queue[match.Pair]

	mu sync.Mutex
	// states are the pairs for which something is requested, byRef the same by their objects.
	states map[match.Pair]*state
	byRef  map[objref.Ref]map[string]struct{}
	// waiting are pairs about which something was unknown at their last sync.
	waiting map[match.Pair]struct{}
	// cached is the sum of the sizes of all states, in bytes, and maxCached its limit.
	cached, maxCached int
	// timeLimit is expression.TimeLimit except in tests.
	timeLimit time.Duration
}

// state is what is remembered about a pair. The table, the object and the name belong to the worker
// that has the pair; the Controller's mutex guards the rest.
type state struct {
	table  combine.Table
	object object
	// name is that of its CombinedStatus.
	name string
	// size is what the table and the object take in memory, in bytes; part of Controller.cached.
	size int

	// collectors are those that were requested at the last sync, inventory reports whether one of
	// them uses inventory, and clusters are the destinations of the object.
	collectors []string
	inventory  bool
	clusters   []string
	// stop ends the evaluation that is running, nil if none is.
	stop context.CancelFunc
	// worked is when the pair was evaluated or written last.
	worked time.Time
	// since is when the oldest report arrived that was not processed yet.
	since time.Time
	// wrote is the version that was written last, until the cache shows it; behind reports that a
	// sync found the cache behind it.
	wrote   string
	wroteAt time.Time
	behind  bool
}

// object is an object of the WDS as expressions see it.
type object struct {
	version string
	content map[string]any
	size    int
}

var _ statusreports.Listener = &Controller{}

// New returns a Controller that does nothing until Run.
func New(config Config) (*Controller, error) {
	if config.Collections == nil || config.Resource == nil || config.Gone == nil || config.Reports == nil ||
		config.Collectors == nil || config.CombinedStatuses == nil || config.Client == nil || config.Writer == nil || config.Clock == nil {
		return nil, errors.New("combinedstatus: all fields of Config are required")
	}
	c := &Controller{
		config:  config,
		states:  map[match.Pair]*state{},
		byRef:   map[objref.Ref]map[string]struct{}{},
		waiting: map[match.Pair]struct{}{},

		maxCached: maxCached,
		timeLimit: expression.TimeLimit,
	}
	metrics.Register(evaluations, combination)
	c.queue = worker.New(worker.Config{Name: Name, Clock: config.Clock, Quiet: passes}, c.sync)
	registered, err := config.CombinedStatuses.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { c.onStored(obj) },
		UpdateFunc: c.onStoredChanged,
		DeleteFunc: c.onStoredDeleted,
	})
	if err != nil {
		return nil, fmt.Errorf("watch CombinedStatuses: %w", err)
	}
	c.synced = worker.Syncs{
		{Name: "CombinedStatuses", HasSynced: registered.HasSynced}, {Name: "StatusCollectors", HasSynced: config.Collectors.Synced},
	}
	return c, nil
}

// Run works until the context ends, and waits for its workers. It starts at once: a pair about
// which something is unknown is not changed.
func (c *Controller) Run(ctx context.Context, workers int) error {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { c.config.CombinedStatuses.RunWithContext(ctx) })
	running.Go(func() {
		if c.synced.Wait(ctx) {
			c.OnKnown(schema.GroupResource{})
		}
	})
	c.queue.Run(ctx, workers)
	return nil
}

// Ready returns an error that names what is not synced, nil if all is.
func (c *Controller) Ready() error { return c.synced.Ready() }

// OnChanges requeues the pairs whose Collections, or the labels of whose clusters, may have
// changed. For labels it iterates over all pairs.
func (c *Controller) OnChanges(changes match.Changes) {
	c.enqueue(changes.Collections...)
	if changes.Relabelled != "" {
		c.enqueue(c.find(func(s *state) bool {
			_, found := slices.BinarySearch(s.clusters, changes.Relabelled)
			return s.inventory && found
		})...)
	}
}

// OnKnown requeues the waiting pairs of a resource, or of all resources if it is empty.
func (c *Controller) OnKnown(gr schema.GroupResource) {
	c.mu.Lock()
	pairs := slices.Collect(maps.Keys(c.waiting))
	c.mu.Unlock()
	for _, pair := range pairs {
		if gr.Empty() || pair.Ref.GroupResource() == gr {
			c.queue.Add(pair)
		}
	}
}

// OnReport implements statusreports.Listener.
func (c *Controller) OnReport(key statusreports.Key) {
	c.mu.Lock()
	pairs := make([]match.Pair, 0, len(c.byRef[key.Ref]))
	for policy := range c.byRef[key.Ref] {
		pair := match.Pair{Ref: key.Ref, Policy: policy}
		if s := c.states[pair]; s.since.IsZero() {
			s.since = c.config.Clock.Now()
		}
		pairs = append(pairs, pair)
	}
	c.mu.Unlock()
	c.enqueue(pairs...)
}

// OnReportsRead implements statusreports.Listener.
func (c *Controller) OnReportsRead() { c.OnKnown(schema.GroupResource{}) }

// OnCollector requeues the pairs that a StatusCollector concerns, and ends their evaluation. It
// iterates over all pairs.
func (c *Controller) OnCollector(name string) {
	c.enqueue(c.find(func(s *state) bool {
		_, found := slices.BinarySearch(s.collectors, name)
		if found && s.stop != nil {
			s.stop()
		}
		return found
	})...)
}

func (c *Controller) onStored(obj any) {
	kept, ok := obj.(*stored)
	if !ok {
		return
	}
	if pair, ok := pairOf(kept); ok && !c.isOwnWrite(pair, kept.ResourceVersion) {
		c.enqueue(pair)
	}
}

func (c *Controller) onStoredChanged(before, after any) {
	c.onStored(after)
	old, okOld := before.(*stored)
	current, okCurrent := after.(*stored)
	if !okOld || !okCurrent {
		return
	}
	was, ok := pairOf(old)
	if now, okNow := pairOf(current); ok && (!okNow || was != now) {
		c.enqueue(was) // somebody changed what it is about
	}
}

func (c *Controller) onStoredDeleted(obj any) {
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	if kept, ok := obj.(*stored); ok {
		if pair, ok := pairOf(kept); ok {
			c.mu.Lock()
			if s := c.states[pair]; s != nil {
				s.wrote, s.behind = "", false
			}
			c.mu.Unlock()
			c.enqueue(pair)
		}
	}
}

// isOwnWrite reports whether that is the version that we wrote last, and no sync waits for it.
func (c *Controller) isOwnWrite(pair match.Pair, version string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.states[pair]
	if s == nil || s.wrote != version {
		return false
	}
	s.wrote = ""
	waited := s.behind
	s.behind = false
	return !waited
}

// enqueue requeues pairs: at once after a quiet time, otherwise when the pause is over.
func (c *Controller) enqueue(pairs ...match.Pair) {
	for _, pair := range pairs {
		c.queue.AddAfter(pair, c.wait(pair))
	}
}

// wait returns for how long a pair must not be synced.
func (c *Controller) wait(pair match.Pair) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.states[pair]
	if s == nil || s.worked.IsZero() {
		return 0
	}
	return max(0, between-c.config.Clock.Since(s.worked))
}

func (c *Controller) find(matches func(*state) bool) []match.Pair {
	c.mu.Lock()
	defer c.mu.Unlock()
	var pairs []match.Pair
	for pair, s := range c.states {
		if matches(s) {
			pairs = append(pairs, pair)
		}
	}
	return pairs
}

// passes reports whether an error passes by itself: the cache is behind, or the object is deleted
// with its namespace.
func passes(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}
