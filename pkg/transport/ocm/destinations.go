package ocm

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/customize"
	"github.com/starlinghq/starling/pkg/core/inventory"
	"github.com/starlinghq/starling/pkg/transport"
)

// propertyMaps bears the name that dashboards made for KubeStellar know.
var propertyMaps = metrics.NewGauge(&metrics.GaugeOpts{
	Namespace: "kubestellar", Subsystem: "transport_controller", Name: "prop_maps",
	Help: "ConfigMaps with properties of clusters.", StabilityLevel: metrics.ALPHA,
})

func init() { legacyregistry.MustRegister(propertyMaps) }

// destinations tell of clusters and their properties: ManagedClusters, each with the ConfigMap of its name, if there is one. As
// long as the ConfigMaps are not read, no properties are told: a missing one would look like one that says nothing.
type destinations struct {
	handler        transport.Handler
	clusters, maps cache.SharedIndexInformer
	mapsTold       cache.ResourceEventHandlerRegistration

	// mu makes calls of the handler one after the other: two informers lead to them.
	mu        sync.Mutex
	mapsKnown bool
	told      map[string]transport.Destination
}

func (p *Plugin) destinations(handler transport.Handler, clusters cache.SharedIndexInformer) (*destinations, cache.ResourceEventHandlerRegistration, error) {
	d := &destinations{
		handler:  handler,
		clusters: clusters,
		maps:     coreinformers.NewConfigMapInformer(p.core, controlv1alpha1.PropertiesNamespace, 0, cache.Indexers{}),
		told:     map[string]transport.Destination{},
	}
	if err := d.maps.SetTransform(keepProperties); err != nil {
		return nil, nil, err
	}
	clustersTold, err := clusters.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: d.tell, UpdateFunc: func(_, obj any) { d.tell(obj) }, DeleteFunc: d.tell,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("watch ManagedClusters: %w", err)
	}
	d.mapsTold, err = d.maps.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			propertyMaps.Inc()
			d.tell(obj)
		},
		UpdateFunc: func(_, obj any) { d.tell(obj) },
		DeleteFunc: func(obj any) {
			propertyMaps.Dec()
			d.tell(obj)
		},
	})
	if err != nil {
		return nil, nil, fmt.Errorf("watch ConfigMaps: %w", err)
	}
	return d, clustersTold, nil
}

// run reads the ConfigMaps until the context ends.
func (d *destinations) run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { d.maps.RunWithContext(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), d.mapsTold.HasSynced) {
		return
	}
	d.mu.Lock()
	d.mapsKnown = true
	d.mu.Unlock()
	for _, name := range d.clusters.GetStore().ListKeys() {
		d.tellOf(name)
	}
}

// tell tells of the cluster that an event is about, of itself or of its ConfigMap.
func (d *destinations) tell(obj any) {
	if key, err := cache.DeletionHandlingObjectToName(obj); err == nil {
		d.tellOf(key.Name)
	}
}

// tellOf tells what the cluster of that name is now, if that is news. Informers change their stores before they tell of it.
func (d *destinations) tellOf(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before, known := d.told[name]
	obj, _, _ := d.clusters.GetStore().GetByKey(name)
	cluster, ok := obj.(*clusterv1.ManagedCluster)
	if !ok {
		if known {
			delete(d.told, name)
			d.handler.OnDestination(name, nil)
		}
		return
	}
	now := transport.Destination{
		Accepted:  cluster.Spec.HubAcceptsClient && cluster.DeletionTimestamp == nil,
		Candidate: inventory.NewCandidate(cluster, cluster.Status.Conditions),
	}
	if d.mapsKnown {
		now.Properties = customize.NewProperties(name, cluster.Labels, cluster.Annotations, d.propertiesOf(name))
	}
	if known && before.Equal(now) {
		return
	}
	d.told[name] = now
	d.handler.OnDestination(name, &now)
}

// propertiesOf returns what the ConfigMap of a cluster says.
func (d *destinations) propertiesOf(name string) map[string]string {
	obj, _, _ := d.maps.GetStore().GetByKey(controlv1alpha1.PropertiesNamespace + "/" + name)
	if m, ok := obj.(*corev1.ConfigMap); ok {
		return m.Data
	}
	return nil
}

// keepProperties keeps of a ConfigMap what it says. Binary data is a property if it is text after all.
func keepProperties(obj any) (any, error) {
	m, ok := obj.(*corev1.ConfigMap)
	if !ok {
		return obj, nil
	}
	kept := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion},
		Data:       make(map[string]string, len(m.Data)+len(m.BinaryData)),
	}
	maps.Copy(kept.Data, m.Data)
	for key, value := range m.BinaryData {
		if utf8.Valid(value) {
			kept.Data[key] = string(value)
		}
	}
	return kept, nil
}

// clusterInformer returns an informer on the ManagedClusters.
func (p *Plugin) clusterInformer() (cache.SharedIndexInformer, error) {
	client := p.clusters.ClusterV1().ManagedClusters()
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return client.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return client.Watch(ctx, o)
		},
	}, &clusterv1.ManagedCluster{}, 0, cache.Indexers{})
	return informer, informer.SetTransform(keepCluster)
}

// keepCluster keeps of a ManagedCluster what is told of it.
func keepCluster(obj any) (any, error) {
	cluster, ok := obj.(*clusterv1.ManagedCluster)
	if !ok {
		return obj, nil
	}
	return &clusterv1.ManagedCluster{
		ObjectMeta: metav1.ObjectMeta{
			Name: cluster.Name, UID: cluster.UID, ResourceVersion: cluster.ResourceVersion, CreationTimestamp: cluster.CreationTimestamp,
			DeletionTimestamp: cluster.DeletionTimestamp,
			Labels:            cluster.Labels, Annotations: withoutLastApplied(cluster.Annotations),
		},
		Spec:   clusterv1.ManagedClusterSpec{HubAcceptsClient: cluster.Spec.HubAcceptsClient},
		Status: clusterv1.ManagedClusterStatus{Conditions: inventory.Conditions(cluster.Status.Conditions)},
	}, nil
}

// withoutLastApplied returns annotations without the largest one, which is no property.
func withoutLastApplied(annotations map[string]string) map[string]string {
	kept := maps.Clone(annotations)
	delete(kept, corev1.LastAppliedConfigAnnotation)
	return kept
}
