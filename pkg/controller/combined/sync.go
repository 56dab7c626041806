package combined

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/klog/v2"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/combine"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/dynwatch"
	"github.com/starlinghq/starling/pkg/logging"
	"github.com/starlinghq/starling/pkg/write"
)

// Reasons of writes, in logs and metrics.
const (
	reasonWanted   = "wanted"
	reasonChanged  = "changed"
	reasonUnwanted = "unwanted"
)

// gathered is what a decision about one pair is made on.
type gathered struct {
	asked    match.Collection
	resource dynwatch.Resource
	policy   types.UID
	question combine.Question
	// since is when the oldest report came in that is dealt with now.
	since time.Time
}

// sync makes the CombinedStatus of the pair what it should be.
func (c *Controller) sync(ctx context.Context, pair match.Pair) error {
	// Noted before anything is asked, so that what becomes known or changes meanwhile has the pair looked at again.
	s := c.begin(pair)
	if !c.registered.HasSynced() || !c.config.Collectors.Synced() {
		return nil
	}
	asked := c.config.Collections.Collection(pair)
	if len(asked.Collectors) == 0 {
		if !asked.Known && !c.unserved(pair) {
			return nil
		}
		if err := c.remove(ctx, pair, s, ""); err != nil {
			return err
		}
		c.forget(pair)
		return nil
	}
	c.note(s, asked)
	in, err := c.gather(ctx, pair, s, asked)
	if err != nil || in == nil {
		return err
	}
	c.settle(pair)
	_, name := nameOf(pair.Ref, asked.UID, in.policy)
	if err := c.remove(ctx, pair, s, name); err != nil {
		return err
	}
	s.name = name
	current, behind := c.stored(s, pair, name)
	if behind {
		c.queue.AddAfter(pair, believed) // the event that brings the cache up to date comes here again, if there is one
		return nil
	}
	results, rows := s.table.Answer(in.question)
	evaluations.Add(float64(rows))
	klog.FromContext(ctx).V(4).Info("Evaluated", "rows", rows)
	wrote, err := c.write(ctx, pair, s, in, current, results)
	if err == nil {
		c.worked(s, in, rows > 0 || wrote, wrote)
	}
	return err
}

// begin returns the state of the pair, and notes it as one of which something may not be known.
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

// note notes what is asked, so that who is told of a collector or a cluster finds the pair.
func (c *Controller) note(s *state, asked match.Collection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.collectors, s.clusters, s.inventory = asked.Collectors, asked.Clusters, false
}

// settle notes that all is known of the pair.
func (c *Controller) settle(pair match.Pair) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, pair)
}

// forget drops what is remembered of a pair of which nothing is asked.
func (c *Controller) forget(pair match.Pair) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, pair)
	delete(c.states, pair)
	delete(c.byRef[pair.Ref], pair.Policy)
	if len(c.byRef[pair.Ref]) == 0 {
		delete(c.byRef, pair.Ref)
	}
}

// worked notes that all reports were dealt with, and whether that was any work.
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

// unserved tells whether it is sure that the WDS has no object of that kind.
func (c *Controller) unserved(pair match.Pair) bool {
	serves, known := c.config.Serves(&pair.Ref.Group, pair.Ref.Resource)
	return known && !serves
}

// gather returns nil while something is not known.
func (c *Controller) gather(ctx context.Context, pair match.Pair, s *state, asked match.Collection) (*gathered, error) {
	in := &gathered{asked: asked, question: combine.Question{Collectors: map[string]*combine.Collector{}}}
	var ok bool
	if !asked.Known {
		return nil, nil
	}
	if in.resource, ok = c.config.Resource(pair.Ref.GroupResource()); !ok {
		return nil, nil
	}
	if in.policy, ok = c.config.Policies(pair.Policy); !ok {
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
			if cluster.Labels, ok = c.config.Collections.ClusterLabels(name); !ok {
				return nil, nil // its ITS was not read yet
			}
		}
		var known bool
		if cluster.Version, known = c.config.Reports.Version(pair.Ref, name); cluster.Version == "" && !known {
			return nil, nil
		}
		in.question.Clusters = append(in.question.Clusters, cluster)
	}
	in.question.Report = func(cluster string) combine.Report {
		report, _ := c.config.Reports.Get(pair.Ref, cluster)
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

// read returns the object as expressions see it, from memory if its content has not changed since; nil if it is gone.
func (c *Controller) read(ctx context.Context, pair match.Pair, s *state, in *gathered) (map[string]any, error) {
	version := string(in.asked.UID) + "/" + in.asked.Version
	if s.object.content != nil && s.object.version == version {
		return s.object.content, nil
	}
	current, err := c.config.Client.Resource(in.resource.GroupVersionResource).Namespace(pair.Ref.Namespace).Get(ctx, pair.Ref.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil // that is told, too
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", pair.Ref, err)
	}
	if current.GetUID() != in.asked.UID {
		return nil, nil
	}
	s.object = object{version, seen(pair, current)}
	return s.object.content, nil
}

// seen returns what expressions see of an object: all but its status, what changes with each write, what Starling itself
// writes, and what is in a Secret: who may read CombinedStatuses need not be somebody who may read Secrets.
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

// remove deletes the CombinedStatuses of the pair but for that of the given name: those that say that they are about the pair, and
// the one that was made for it, which somebody may have made say something else.
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
		target := write.Target{Resource: controlv1alpha1.CombinedStatuses, Namespace: kept.Namespace, Name: kept.Name}
		if err := c.config.Writer.Delete(ctx, target, kept.UID, reasonUnwanted); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return err
		}
		klog.FromContext(ctx).V(2).Info("Deleted CombinedStatus", "combinedStatus", klog.KRef(kept.Namespace, kept.Name))
	}
	return nil
}

// stored returns the CombinedStatus of that name, nil if there is none; behind tells that the cache does not show our last write
// yet.
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

// write makes the CombinedStatus hold the results, if it does not.
func (c *Controller) write(ctx context.Context, pair match.Pair, s *state, in *gathered, current *stored, results []controlv1alpha1.NamedStatusCombination) (wrote bool, err error) {
	namespace, name := nameOf(pair.Ref, in.asked.UID, in.policy)
	owner := metav1.OwnerReference{
		APIVersion: in.resource.GroupVersion().String(), Kind: in.resource.Kind, Name: pair.Ref.Name, UID: in.asked.UID,
	}
	target := write.Target{Resource: controlv1alpha1.CombinedStatuses, Namespace: namespace, Name: name}
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
		c.wrote(ctx, pair, s, target, answer, reasonWanted)
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
	// Not a patch: a merge patch takes away what is null in results, and only a whole object is compared with what was read.
	cs := &controlv1alpha1.CombinedStatus{TypeMeta: kindOfCombinedStatus, ObjectMeta: *current.DeepCopy(), Results: results}
	cs.Labels, cs.Annotations, cs.OwnerReferences = want.Labels, want.Annotations, want.OwnerReferences
	answer, err := c.config.Writer.Update(ctx, target, cs, reasonChanged)
	if err != nil {
		return false, err
	}
	c.wrote(ctx, pair, s, target, answer, reasonChanged)
	return true, nil
}

func (c *Controller) wrote(ctx context.Context, pair match.Pair, s *state, target write.Target, answer *metav1.PartialObjectMetadata, reason string) {
	klog.FromContext(ctx).V(2).Info("Wrote CombinedStatus", "combinedStatus", klog.KRef(target.Namespace, target.Name), logging.Reason, reason)
	c.mu.Lock()
	defer c.mu.Unlock()
	s.wrote, s.wroteAt, s.behind = answer.ResourceVersion, c.config.Clock.Now(), false
	c.queue.AddAfter(pair, believed) // to find out that it was deleted, should that be among what the watch missed
}

// createNamespace creates the namespace for what is about cluster-scoped objects.
func (c *Controller) createNamespace(ctx context.Context) error {
	target := write.Target{Resource: corev1.SchemeGroupVersion.WithResource("namespaces"), Name: controlv1alpha1.ReportNamespace}
	ns := &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: target.Name}}
	_, err := c.config.Writer.Create(ctx, target, ns, reasonWanted)
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
