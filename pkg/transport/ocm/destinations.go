package ocm

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/pkg/transport/plugin"
)

// propertyMaps has the name that dashboards for KubeStellar know.
var propertyMaps = metrics.NewGauge(&metrics.GaugeOpts{
	Namespace: "kubestellar", Subsystem: "transport_controller", Name: "prop_maps",
	Help: "ConfigMaps with properties of clusters.", StabilityLevel: metrics.ALPHA,
})

// destinations reports clusters and their properties: ManagedClusters, each with the ConfigMap of
// its name, if there is one. Until the ConfigMaps are read, no properties are reported: a missing
// ConfigMap would look like an empty one.
type destinations struct {
	handler        plugin.Handler
	clusters, maps cache.SharedIndexInformer
	mapsHandled    cache.ResourceEventHandlerRegistration

	// mu serializes the calls of the handler, which two informers cause.
	mu         sync.Mutex
	mapsSynced bool
	reported   map[string]plugin.Destination
}

func (p *Plugin) destinations(handler plugin.Handler, clusters cache.SharedIndexInformer) (*destinations, cache.ResourceEventHandlerRegistration, error) {
	client := p.core.CoreV1().ConfigMaps(controlv1alpha1.PropertiesNamespace)
	maps, err := newInformer("", client.List, client.Watch, &corev1.ConfigMap{}, reduceProperties)
	if err != nil {
		return nil, nil, err
	}
	d := &destinations{handler: handler, clusters: clusters, maps: maps, reported: map[string]plugin.Destination{}}
	clustersHandled, err := clusters.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: d.onEvent, UpdateFunc: func(_, obj any) { d.onEvent(obj) }, DeleteFunc: d.onEvent,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("watch ManagedClusters: %w", err)
	}
	d.mapsHandled, err = d.maps.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			propertyMaps.Inc()
			d.onEvent(obj)
		},
		UpdateFunc: func(_, obj any) { d.onEvent(obj) },
		DeleteFunc: func(obj any) {
			propertyMaps.Dec()
			d.onEvent(obj)
		},
	})
	if err != nil {
		return nil, nil, fmt.Errorf("watch ConfigMaps: %w", err)
	}
	return d, clustersHandled, nil
}

// run reads the ConfigMaps until the context ends.
func (d *destinations) run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { d.maps.RunWithContext(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), d.mapsHandled.HasSynced) {
		return
	}
	d.mu.Lock()
	d.mapsSynced = true
	d.mu.Unlock()
	for _, name := range d.clusters.GetStore().ListKeys() {
		d.report(name)
	}
}

// onEvent reports the cluster that an event is about: an event of the cluster, or of its ConfigMap.
func (d *destinations) onEvent(obj any) {
	if key, err := cache.DeletionHandlingObjectToName(obj); err == nil {
		d.report(key.Name)
	}
}

// report reports the cluster of that name as it is now, if it changed. Informers change their
// stores before they call handlers.
func (d *destinations) report(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before, known := d.reported[name]
	obj, _, _ := d.clusters.GetStore().GetByKey(name)
	cluster, ok := obj.(*clusterv1.ManagedCluster)
	if !ok {
		if known {
			delete(d.reported, name)
			d.handler.OnDestination(name, nil)
		}
		return
	}
	member := clusters.MemberOf(cluster)
	now := plugin.Destination{Accepted: member.Accepted && !member.Leaving, Candidate: member.Candidate}
	if d.mapsSynced {
		now.Properties = clusters.Properties(name, cluster.Labels, cluster.Annotations, d.propertiesOf(name))
	}
	if known && before.Equal(now) {
		return
	}
	d.reported[name] = now
	d.handler.OnDestination(name, &now)
}

// propertiesOf returns the data of the ConfigMap of a cluster.
func (d *destinations) propertiesOf(name string) map[string]string {
	obj, _, _ := d.maps.GetStore().GetByKey(controlv1alpha1.PropertiesNamespace + "/" + name)
	data, _ := valueOf[map[string]string](obj)
	return data
}

// reduceProperties returns what a ConfigMap has of properties.
func reduceProperties(m *corev1.ConfigMap) any { return newReduced(m, clusters.PropertiesIn(m)) }
