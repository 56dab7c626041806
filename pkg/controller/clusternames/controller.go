// Package clusternames marks clusters whose name stands for a cluster of another ITS.
//
// It owns the condition starling.io/NameTaken of ManagedClusters. Of several accepted clusters of
// one name, Bindings mean the one that was accepted first (package core/inventory). The others get
// the condition. It tells their users, and it is also the memory of the choice: while the ITS of
// the chosen cluster does not answer, a marked cluster is not chosen in its place.
package clusternames

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/pkg/controller/worker"
	"github.com/starlinghq/starling/pkg/writer"
)

// Name of the controller, in logs and metrics.
const Name = "cluster-names"

// reasonNameTaken is the reason of its writes, as the metric counts them.
const reasonNameTaken = "name-taken"

// together is how long events are collected: the clusters of a name come one by one, and the cache
// shows a mark that was just written.
const together = 200 * time.Millisecond

// Writer writes to an ITS. *writer.Writer is one.
type Writer interface {
	Patch(ctx context.Context, t writer.Target, kind types.PatchType, patch []byte, reason string) (*metav1.PartialObjectMetadata, error)
}

// Config is what a Controller is made of. All fields are required.
type Config struct {
	Clusters *clusters.Reader
	// Writers write to the ITSes, by their names.
	Writers map[string]Writer
	// Clock is the real one but in tests.
	Clock clock.WithTicker
}

// Controller marks clusters. Its keys are names of clusters.
type Controller struct {
	config Config
	queue  *worker.Queue[string]
}

// New returns a Controller that does nothing until Run.
func New(config Config) (*Controller, error) {
	if config.Clusters == nil || config.Writers == nil || config.Clock == nil {
		return nil, errors.New("clusternames: all fields of Config are required")
	}
	c := &Controller{config: config}
	c.queue = worker.New(worker.Config{Name: Name, Clock: config.Clock, MinBackOff: 100 * time.Millisecond}, c.sync)
	config.Clusters.OnMembers(c.enqueue)
	return c, nil
}

// enqueue adds a name; with "", an ITS has synced, and all contested names could stand for other
// clusters now.
func (c *Controller) enqueue(name string) {
	if name != "" {
		c.queue.AddAfter(name, together)
		return
	}
	for _, contested := range c.config.Clusters.Contested() {
		c.queue.AddAfter(contested, together)
	}
}

// Run works until the context ends, and waits for its worker.
func (c *Controller) Run(ctx context.Context) error {
	c.queue.Run(ctx, 1)
	return nil
}

func (c *Controller) sync(ctx context.Context, name string) (worker.Result, error) {
	members := c.config.Clusters.Members(name)
	chosen := slices.IndexFunc(members, func(m clusters.Member) bool { return m.Chosen })
	if chosen < 0 {
		return worker.Result{}, nil // an ITS that has not synced may have the chosen one
	}
	var errs []error
	for _, m := range members {
		if m.Chosen != m.Refused {
			continue // it is marked as it should be
		}
		conditions := []metav1.Condition{}
		if !m.Chosen {
			conditions = append(conditions, nameTaken(name, members[chosen].ITS, c.config.Clock.Now()))
		}
		errs = append(errs, c.mark(ctx, name, m, conditions))
	}
	return worker.Result{}, errors.Join(errs...)
}

// nameTaken returns the condition of a cluster whose name stands for that of another ITS.
func nameTaken(name, its string, now time.Time) metav1.Condition {
	return metav1.Condition{
		Type: controlv1alpha1.ManagedClusterConditionNameTaken, Status: metav1.ConditionTrue, Reason: controlv1alpha1.ReasonNameTaken,
		Message: fmt.Sprintf("ITS %q accepted a cluster %q earlier, so nothing is delivered here. Remove one of the two clusters, or let it join under another name",
			its, name),
		LastTransitionTime: metav1.NewTime(now),
	}
}

// mark applies the conditions of a cluster that are ours.
func (c *Controller) mark(ctx context.Context, name string, m clusters.Member, conditions []metav1.Condition) error {
	its := c.config.Writers[m.ITS]
	if its == nil {
		return fmt.Errorf("mark cluster %q: no writer for ITS %q", name, m.ITS)
	}
	apply, err := json.Marshal(map[string]any{
		"apiVersion": clusterv1.SchemeGroupVersion.String(), "kind": "ManagedCluster",
		"metadata": map[string]any{"name": name, "uid": m.UID},
		"status":   map[string]any{"conditions": conditions},
	})
	if err != nil {
		return err
	}
	target := writer.Target{Resource: clusters.ManagedClusters, Name: name, Subresource: "status"}
	if _, err := its.Patch(ctx, target, types.ApplyPatchType, apply, reasonNameTaken); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("mark cluster %q of ITS %q: %w", name, m.ITS, err)
	}
	return nil
}
