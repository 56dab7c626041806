package combinedstatus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/klog/v2"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/controller/worker"
	"github.com/starlinghq/starling/pkg/core/combine"
	"github.com/starlinghq/starling/pkg/core/expression"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/dynamicinformer"
	"github.com/starlinghq/starling/pkg/logging"
	"github.com/starlinghq/starling/pkg/writer"
)

// recheckUnknown is how soon a pair is synced again while it is not known whether its kind is gone.
const recheckUnknown = 10 * time.Second

// Reasons of writes, in logs and metrics.
const (
	reasonWanted   = "wanted"
	reasonChanged  = "changed"
	reasonUnwanted = "unwanted"
)

// gathered is the input of the decision about one pair.
type gathered struct {
	asked    match.Collection
	resource dynamicinformer.Resource
	question combine.Question
	// unknown is true if nothing is known of some clusters.
	unknown bool
	// since is when the oldest report arrived that is processed now.
	since time.Time
}

// sync makes the CombinedStatus of the pair what it should be.
func (c *Controller) sync(ctx context.Context, pair match.Pair) (worker.Result, error) {
	// An event that came while a worker was about to note that it had worked was enqueued without
	// the pause.
	if wait := c.wait(pair); wait > 0 {
		return worker.Result{After: wait, KeepBackOff: true}, nil
	}
	// Recorded before anything is read, so that what becomes known or changes meanwhile requeues
	// the pair.
	s := c.begin(pair)
	if slices.ContainsFunc(c.synced, func(s worker.Synced) bool { return !s.HasSynced() }) {
		return worker.Result{}, nil
	}
	asked := c.config.Collections.Collection(pair)
	if len(asked.Collectors) == 0 {
		if !asked.Known && !c.config.Gone(pair.Ref.GroupResource()) {
			return worker.Result{After: recheckUnknown}, nil // no event says that a kind is gone
		}
		if err := c.remove(ctx, pair, s, ""); err != nil {
			return worker.Result{}, err
		}
		c.forget(pair)
		return worker.Result{}, nil
	}
	in, err := c.gather(ctx, pair, s, asked)
	if err != nil || in == nil {
		return worker.Result{}, err
	}
	if !in.unknown {
		c.known(pair)
	}
	_, name := nameOf(pair.Ref, asked.UID, asked.PolicyUID)
	if err := c.remove(ctx, pair, s, name); err != nil {
		return worker.Result{}, err
	}
	s.name = name
	current, behind := c.stored(s, pair, name)
	if behind {
		return worker.Result{After: believed}, nil // or with the event that brings the cache up to date, if there is one
	}
	in.question.Stored = current != nil
	results, rows, err := c.answer(ctx, s, in)
	c.account(s)
	evaluations.Add(float64(rows))
	klog.FromContext(ctx).V(4).Info("Evaluated", "rows", rows)
	if err != nil {
		return c.interrupted(ctx, pair, err)
	}
	c.config.Collectors.Evaluated(pair)
	wrote, err := c.write(ctx, pair, s, in, current, results)
	if err != nil {
		return worker.Result{}, err
	}
	c.worked(s, in, rows > 0 || wrote, wrote)
	if wrote {
		return worker.Result{After: believed}, nil // to find out that it was deleted, should the watch have missed that
	}
	return worker.Result{}, nil
}

// answer evaluates the question, until it takes too long or the requested StatusCollectors change.
func (c *Controller) answer(ctx context.Context, s *state, in *gathered) (results []controlv1alpha1.NamedStatusCombination, rows int, err error) {
	c.mu.Lock()
	ctx, cancel := context.WithTimeout(ctx, c.timeLimit)
	defer cancel()
	s.stop = cancel
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		s.stop = nil
		c.mu.Unlock()
	}()
	for name, collector := range in.question.Collectors {
		if now, _ := c.config.Collectors.Get(name); now != collector {
			cancel() // it changed before it could stop this
		}
	}
	return s.table.Answer(ctx, in.question)
}

// interrupted records that the pair was not evaluated: its CombinedStatus stays as it is.
func (c *Controller) interrupted(ctx context.Context, pair match.Pair, err error) (worker.Result, error) {
	if errors.Is(err, combine.ErrUnknown) {
		return worker.Result{}, nil // until more is known
	}
	if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
		return worker.Result{}, ctx.Err() // the controller ends, or the change of the StatusCollector requeues the pair
	}
	var stopped *combine.InterruptedError
	if !errors.As(err, &stopped) {
		return worker.Result{}, err
	}
	c.config.Collectors.Interrupted(pair, stopped)
	return worker.Result{After: expression.TimeLimit}, nil
}

// begin returns the state of the pair, and marks it as waiting.
func (c *Controller) begin(pair match.Pair) *state {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting[pair] = struct{}{}
	s := c.states[pair]
	if s == nil {
		s = &state{}
		c.states[pair] = s
		if c.byRef[pair.Ref] == nil {
			c.byRef[pair.Ref] = map[string]struct{}{}
		}
		c.byRef[pair.Ref][pair.Policy] = struct{}{}
	}
	return s
}

// known records that everything about the pair is known.
func (c *Controller) known(pair match.Pair) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, pair)
}

// forget drops the state of a pair for which nothing is requested.
func (c *Controller) forget(pair match.Pair) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, pair)
	if s := c.states[pair]; s != nil {
		c.cached -= s.size
	}
	c.config.Collectors.Evaluated(pair)
	delete(c.states, pair)
	delete(c.byRef[pair.Ref], pair.Policy)
	if len(c.byRef[pair.Ref]) == 0 {
		delete(c.byRef, pair.Ref)
	}
}

// account counts what the pair keeps in memory. If that is too much, together with all others, it
// keeps nothing.
func (c *Controller) account(s *state) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cached -= s.size
	s.size = s.table.Size() + s.object.size
	if c.cached+s.size > c.maxCached {
		s.table.Forget()
		s.object, s.size = object{}, 0
	}
	c.cached += s.size
}

// worked records that all reports were processed, and whether that was any work.
func (c *Controller) worked(s *state, in *gathered, work, wrote bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.config.Clock.Now()
	if wrote && !in.since.IsZero() {
		combination.Observe(now.Sub(in.since).Seconds())
	}
	if s.since.Equal(in.since) {
		s.since = time.Time{}
	}
	if work {
		s.worked = now
	}
}

// gather returns nil while something is unknown.
func (c *Controller) gather(ctx context.Context, pair match.Pair, s *state, asked match.Collection) (*gathered, error) {
	in := &gathered{asked: asked, question: combine.Question{Collectors: map[string]*combine.Collector{}}}
	// Recorded first, so that changes of a collector or a cluster find the pair.
	c.mu.Lock()
	s.collectors, s.clusters, s.inventory = asked.Collectors, asked.Clusters, false
	c.mu.Unlock()
	var ok bool
	if !asked.Known {
		return nil, nil
	}
	if in.resource, ok = c.config.Resource(pair.Ref.GroupResource()); !ok {
		return nil, nil
	}
	usesObject, usesInventory := false, false
	for _, name := range asked.Collectors {
		if collector, ok := c.config.Collectors.Get(name); ok {
			in.question.Collectors[name] = collector
			usesObject = usesObject || collector.UsesObject()
			usesInventory = usesInventory || collector.UsesInventory()
		}
	}
	c.mu.Lock()
	s.inventory = usesInventory
	in.since = s.since
	c.mu.Unlock()
	for _, name := range asked.Clusters {
		cluster := combine.Cluster{Name: name}
		if usesInventory {
			cluster.Labels, ok = c.config.Collections.ClusterLabels(name)
			cluster.Unknown = !ok // its ITS was not read yet
		}
		var known bool
		cluster.Version, known = c.config.Reports.Version(pair.Ref, asked.UID, name)
		cluster.Unknown = cluster.Unknown || cluster.Version == "" && !known
		in.unknown = in.unknown || cluster.Unknown
		in.question.Clusters = append(in.question.Clusters, cluster)
	}
	in.question.Report = func(cluster string) combine.Report {
		report, _ := c.config.Reports.Get(pair.Ref, asked.UID, cluster)
		if report == nil {
			return combine.Report{}
		}
		return combine.Report{Reported: true, Version: report.Version, Status: report.Status, Updated: report.Updated}
	}
	if usesObject {
		content, err := c.read(ctx, pair, s, in)
		if err != nil || content == nil {
			return nil, err
		}
		in.question.Object, in.question.ObjectVersion = content, s.object.version
	} else {
		s.object = object{}
	}
	return in, nil
}

// read returns the object as expressions see it, from memory if its content has not changed; nil if
// it does not exist.
func (c *Controller) read(ctx context.Context, pair match.Pair, s *state, in *gathered) (map[string]any, error) {
	version := string(in.asked.UID) + "/" + in.asked.Version
	if s.object.content != nil && s.object.version == version {
		return s.object.content, nil
	}
	current, err := c.config.Client.Resource(in.resource.GroupVersionResource).Namespace(pair.Ref.Namespace).Get(ctx, pair.Ref.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil // its deletion causes an event, too
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", pair.Ref, err)
	}
	if current.GetUID() != in.asked.UID {
		return nil, nil
	}
	const perByte = 4 // a decoded object takes more memory than its text
	content := seen(pair, current)
	s.object = object{version: version, content: content, size: perByte * expression.Size(content)}
	return s.object.content, nil
}

// seen returns what expressions see of an object: everything except its status, what changes with
// each write, what Starling itself writes, and the data of a Secret: users who may read
// CombinedStatuses need not be allowed to read Secrets.
func seen(pair match.Pair, obj *unstructured.Unstructured) map[string]any {
	delete(obj.Object, "status")
	obj.SetManagedFields(nil)
	obj.SetResourceVersion("")
	annotations := obj.GetAnnotations()
	if _, ok := annotations[corev1.LastAppliedConfigAnnotation]; ok {
		delete(annotations, corev1.LastAppliedConfigAnnotation)
		obj.SetAnnotations(annotations)
	}
	labels := obj.GetLabels()
	for key := range labels {
		if match.StatusLabel(key) {
			delete(labels, key)
			obj.SetLabels(labels)
		}
	}
	if pair.Ref.Group == "" && pair.Ref.Resource == "secrets" {
		delete(obj.Object, "data")
		delete(obj.Object, "stringData")
	}
	return obj.Object
}

// remove deletes the CombinedStatuses of the pair except the one with the given name: those whose
// labels name the pair, and the one that was created for it, whose labels may have been changed.
func (c *Controller) remove(ctx context.Context, pair match.Pair, s *state, but string) error {
	items, err := c.config.CombinedStatuses.GetIndexer().ByIndex(byPair, pairKey(pair))
	if err != nil {
		return err
	}
	namespace, _ := nameOf(pair.Ref, "", "")
	if item, ok, _ := c.config.CombinedStatuses.GetStore().GetByKey(namespace + "/" + s.name); ok && !slices.Contains(items, item) {
		items = append(items, item)
	}
	for _, item := range items {
		kept, ok := item.(*stored)
		if !ok || kept.Name == but || kept.DeletionTimestamp != nil {
			continue
		}
		target := writer.Target{Resource: controlv1alpha1.CombinedStatuses, Namespace: kept.Namespace, Name: kept.Name}
		if err := c.config.Writer.Delete(ctx, target, kept.UID, reasonUnwanted); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return err
		}
		klog.FromContext(ctx).V(2).Info("Deleted CombinedStatus", "combinedStatus", klog.KRef(kept.Namespace, kept.Name))
	}
	return nil
}

// stored returns the CombinedStatus of that name, nil if there is none. behind reports that the
// cache does not show our last write yet.
func (c *Controller) stored(s *state, pair match.Pair, name string) (current *stored, behind bool) {
	namespace, _ := nameOf(pair.Ref, "", "")
	item, _, _ := c.config.CombinedStatuses.GetStore().GetByKey(namespace + "/" + name)
	current, _ = item.(*stored)
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.wrote == "" || c.config.Clock.Since(s.wroteAt) >= believed {
		s.wrote, s.behind = "", false
		return current, false
	}
	if current != nil {
		if order, err := resourceversion.CompareResourceVersion(current.ResourceVersion, s.wrote); err != nil || order >= 0 {
			s.wrote = ""
			return current, false
		}
	}
	s.behind = true
	return current, true
}

// write writes the results to the CombinedStatus, if they changed.
func (c *Controller) write(ctx context.Context, pair match.Pair, s *state, in *gathered, current *stored, results []controlv1alpha1.NamedStatusCombination) (wrote bool, err error) {
	namespace, name := nameOf(pair.Ref, in.asked.UID, in.asked.PolicyUID)
	owner := metav1.OwnerReference{
		APIVersion: in.resource.GroupVersion().String(), Kind: in.resource.Kind, Name: pair.Ref.Name, UID: in.asked.UID,
	}
	target := writer.Target{Resource: controlv1alpha1.CombinedStatuses, Namespace: namespace, Name: name}
	if current == nil {
		cs := &controlv1alpha1.CombinedStatus{
			TypeMeta:   kindOfCombinedStatus,
			ObjectMeta: metadataOf(metav1.ObjectMeta{Namespace: namespace, Name: name}, pair, owner),
			Results:    results,
		}
		answer, err := c.config.Writer.Create(ctx, target, cs, reasonWanted)
		if apierrors.IsNotFound(err) && namespace == controlv1alpha1.ReportNamespace {
			if err := c.createNamespace(ctx); err != nil {
				return false, err
			}
			answer, err = c.config.Writer.Create(ctx, target, cs, reasonWanted)
		}
		if err != nil {
			return false, err
		}
		c.wrote(ctx, s, target, answer, reasonWanted)
		return true, nil
	}
	hash, err := hashOf(results)
	if err != nil {
		return false, err
	}
	want := metadataOf(current.ObjectMeta, pair, owner)
	if hash == current.hash && sameMetadata(&current.ObjectMeta, &want) {
		return false, nil
	}
	// Not a patch: a merge patch removes what is null in results, and only an update of the whole
	// object is bound to the version that was read.
	cs := &controlv1alpha1.CombinedStatus{TypeMeta: kindOfCombinedStatus, ObjectMeta: *current.DeepCopy(), Results: results}
	cs.Labels, cs.Annotations, cs.OwnerReferences = want.Labels, want.Annotations, want.OwnerReferences
	answer, err := c.config.Writer.Update(ctx, target, cs, reasonChanged)
	if err != nil {
		return false, err
	}
	c.wrote(ctx, s, target, answer, reasonChanged)
	return true, nil
}

func (c *Controller) wrote(ctx context.Context, s *state, target writer.Target, answer *metav1.PartialObjectMetadata, reason string) {
	klog.FromContext(ctx).V(2).Info("Wrote CombinedStatus", "combinedStatus", klog.KRef(target.Namespace, target.Name), logging.Reason, reason)
	c.mu.Lock()
	defer c.mu.Unlock()
	s.wrote, s.wroteAt, s.behind = answer.ResourceVersion, c.config.Clock.Now(), false
}

// createNamespace creates the namespace of CombinedStatuses of cluster-scoped objects.
func (c *Controller) createNamespace(ctx context.Context) error {
	target := writer.Target{Resource: corev1.SchemeGroupVersion.WithResource("namespaces"), Name: controlv1alpha1.ReportNamespace}
	ns := &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: target.Name}}
	_, err := c.config.Writer.Create(ctx, target, ns, reasonWanted)
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
