package dynwatch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

var (
	crdResource        = apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")
	apiServiceResource = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
)

const (
	// debounce is the least time between two discoveries: a chart that installs 30 CRDs costs two, not 30.
	debounce = time.Second
	// rediscover is how often the space is asked again without a notice, so that a lost one heals.
	rediscover = 5 * time.Minute
	// retryDiscovery is the same while discovery fails in whole or in part.
	retryDiscovery = 5 * time.Second
	// firstDiscovery is how long the first discovery waits for what it is checked against; a space need not have either.
	firstDiscovery = 5 * time.Second
)

// errUnlisted is why a group counts as not discovered that is registered and yet missing in the answer: an API server that is
// just starting does not list yet what it has not asked the servers behind it.
var errUnlisted = errors.New("registered, but not listed yet")

// Discovery is a Source of all resources of a space that can be listed and watched.
//
// Resources of CustomResourceDefinitions are taken from those objects themselves, the moment they are established or gone:
// the discovery documents of an API server follow only later. All others come from discovery. Nothing is dropped because it
// could not be read: a group whose discovery fails keeps what it had, and an empty answer changes nothing.
type Discovery struct {
	client  discovery.AggregatedDiscoveryInterface
	dynamic dynamic.Interface
	filter  func(Resource) bool
	changed chan struct{}
	wake    chan struct{}
	// registered returns the names of the APIServices.
	registered func() []string

	mu         sync.Mutex
	crds       map[string]Resource               // by name of the CRD
	wasCRD     map[schema.GroupResource]bool     // what was ever seen as a CRD: discovery has no say in it
	discovered map[schema.GroupResource]Resource // all that discovery told, CRDs among it
	failed     map[schema.GroupVersion]error     // groups whose discovery failed the last time
	err        error                             // why the last discovery failed as a whole
	resources  map[schema.GroupResource]Resource // the answer
	served     map[schema.GroupResource]struct{} // everything the space serves, watchable or not
}

// NewDiscovery returns a Source of the resources that the filter admits. It knows none until Run. A nil filter admits all.
func NewDiscovery(client discovery.AggregatedDiscoveryInterface, dynamicClient dynamic.Interface, filter func(Resource) bool) *Discovery {
	if filter == nil {
		filter = func(Resource) bool { return true }
	}
	return &Discovery{
		client:     client,
		dynamic:    dynamicClient,
		filter:     filter,
		changed:    make(chan struct{}, 1),
		wake:       make(chan struct{}, 1),
		registered: func() []string { return nil },
		crds:       map[string]Resource{},
		wasCRD:     map[schema.GroupResource]bool{},
	}
}

// Resources implements Source.
func (d *Discovery) Resources() map[schema.GroupResource]Resource {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.resources
}

// Changed implements Source.
func (d *Discovery) Changed() <-chan struct{} { return d.changed }

// Err tells what could not be discovered the last time, nil if nothing. Resources of groups that it names stay as they were.
func (d *Discovery) Err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err != nil {
		return d.err
	}
	if len(d.failed) == 0 {
		return nil
	}
	versions := slices.SortedFunc(maps.Keys(d.failed), func(a, b schema.GroupVersion) int {
		return slices.Compare([]string{a.Group, a.Version}, []string{b.Group, b.Version})
	})
	return fmt.Errorf("discover %v: %w", versions, d.failed[versions[0]])
}

// Run discovers until the context ends. It returns nil.
func (d *Discovery) Run(ctx context.Context) error {
	crds := d.informer(crdResource, keepCRD)
	apiServices := d.informer(apiServiceResource, keepMetadata)
	if _, err := crds.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { d.noteCRD(obj) },
		UpdateFunc: func(_, obj any) { d.noteCRD(obj) },
		DeleteFunc: d.forgetCRD,
	}); err != nil {
		return fmt.Errorf("watch CustomResourceDefinitions: %w", err)
	}
	if _, err := apiServices.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { notify(d.wake) },
		UpdateFunc: func(_, _ any) { notify(d.wake) },
		DeleteFunc: func(any) { notify(d.wake) },
	}); err != nil {
		return fmt.Errorf("watch APIServices: %w", err)
	}
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { crds.RunWithContext(ctx) })
	running.Go(func() { apiServices.RunWithContext(ctx) })
	d.registered = apiServices.GetStore().ListKeys
	waitCtx, cancel := context.WithTimeout(ctx, firstDiscovery)
	cache.WaitForCacheSync(waitCtx.Done(), crds.HasSynced, apiServices.HasSynced)
	cancel()

	for {
		d.discover(ctx)
		next := rediscover
		if d.Err() != nil {
			next = retryDiscovery
		}
		if !sleep(ctx, debounce, nil) || !sleep(ctx, next, d.wake) {
			return nil
		}
	}
}

// sleep waits for the time to pass or for a notice; it returns false when the context ended.
func sleep(ctx context.Context, duration time.Duration, notice <-chan struct{}) bool {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
	case <-notice:
	}
	return true
}

func (d *Discovery) informer(gvr schema.GroupVersionResource, transform cache.TransformFunc) cache.SharedIndexInformer {
	return transformed(dynamicinformer.NewFilteredDynamicInformer(d.dynamic, gvr, metav1.NamespaceAll, 0,
		cache.Indexers{}, nil).Informer(), transform)
}

// discover asks the space and takes over what the answer is sure of.
func (d *Discovery) discover(ctx context.Context) {
	registered := d.registered() // before, so that what goes meanwhile is missed for once only
	groups, byVersion, failed, err := d.client.GroupsAndMaybeResources()
	failed = addUnlisted(failed, groups, registered)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err, d.failed = err, failed
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Discovery failed; going on with what is known", "err", err)
		return
	}
	if groups == nil || len(groups.Groups) == 0 {
		return
	}
	if byVersion == nil {
		// A server without aggregated discovery: one request a group and version.
		byVersion, failed = d.fetch(groups)
		d.failed = addUnlisted(failed, groups, registered)
	}
	d.discovered, d.served = merge(d.discovered, groups, byVersion, d.failed, d.served)
	d.publish()
}

// addUnlisted returns failed with the groups that are registered and not in the answer. Each name is "version.group".
func addUnlisted(failed map[schema.GroupVersion]error, groups *metav1.APIGroupList, registered []string) map[schema.GroupVersion]error {
	if groups == nil {
		return failed
	}
	listed := map[string]struct{}{"": {}} // the core group is listed elsewhere, and always there
	for i := range groups.Groups {
		listed[groups.Groups[i].Name] = struct{}{}
	}
	all := maps.Clone(failed)
	for _, name := range registered {
		version, group, _ := strings.Cut(name, ".")
		if _, ok := listed[group]; ok {
			continue
		}
		if all == nil {
			all = map[schema.GroupVersion]error{}
		}
		all[schema.GroupVersion{Group: group, Version: version}] = errUnlisted
	}
	return all
}

func (d *Discovery) fetch(groups *metav1.APIGroupList) (map[schema.GroupVersion]*metav1.APIResourceList, map[schema.GroupVersion]error) {
	lists := map[schema.GroupVersion]*metav1.APIResourceList{}
	failed := map[schema.GroupVersion]error{}
	for _, group := range groups.Groups {
		for _, version := range group.Versions {
			gv := schema.GroupVersion{Group: group.Name, Version: version.Version}
			list, err := d.client.ServerResourcesForGroupVersion(version.GroupVersion)
			if err != nil {
				failed[gv] = err
				continue
			}
			lists[gv] = list
		}
	}
	return lists, failed
}

// merge returns what is known after an answer of discovery. For each resource it prefers the version known before, so that
// a change of preference alone restarts no watch, then the order of the server.
func merge(
	known map[schema.GroupResource]Resource,
	groups *metav1.APIGroupList,
	byVersion map[schema.GroupVersion]*metav1.APIResourceList,
	failed map[schema.GroupVersion]error,
	servedBefore map[schema.GroupResource]struct{},
) (map[schema.GroupResource]Resource, map[schema.GroupResource]struct{}) {
	merged := map[schema.GroupResource]Resource{}
	served := map[schema.GroupResource]struct{}{}
	failedGroups := map[string]bool{}
	for gv := range failed {
		failedGroups[gv.Group] = true
	}
	for _, group := range groups.Groups {
		versions := make([]string, 0, len(group.Versions)+1)
		versions = append(versions, group.PreferredVersion.Version)
		for _, version := range group.Versions {
			versions = append(versions, version.Version)
		}
		for _, version := range versions {
			gv := schema.GroupVersion{Group: group.Name, Version: version}
			list := byVersion[gv]
			if list == nil {
				continue
			}
			for _, api := range list.APIResources {
				resource := Resource{GroupVersionResource: gv.WithResource(api.Name), Kind: api.Kind, Namespaced: api.Namespaced}
				gr := resource.GroupResource()
				served[gr] = struct{}{}
				if !slices.Contains(api.Verbs, "list") || !slices.Contains(api.Verbs, "watch") {
					continue
				}
				if _, chosen := merged[gr]; !chosen || known[gr] == resource {
					merged[gr] = resource
				}
			}
		}
	}
	for gr, resource := range known {
		if _, found := merged[gr]; !found && failedGroups[gr.Group] {
			merged[gr] = resource
		}
	}
	for gr := range servedBefore {
		if failedGroups[gr.Group] {
			served[gr] = struct{}{}
		}
	}
	return merged, served
}

// noteCRD takes over a CustomResourceDefinition that was added or changed.
func (d *Discovery) noteCRD(obj any) {
	object, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &crd); err != nil {
		return // no CRD that the API server accepts fails here
	}
	gr := schema.GroupResource{Group: crd.Spec.Group, Resource: crd.Spec.Names.Plural}

	d.mu.Lock()
	defer d.mu.Unlock()
	d.wasCRD[gr] = true
	resource, ok := watchable(&crd, d.crds[crd.Name])
	if ok {
		d.crds[crd.Name] = resource
	} else {
		delete(d.crds, crd.Name)
	}
	d.publish()
}

func (d *Discovery) forgetCRD(obj any) {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	if object, ok := obj.(*unstructured.Unstructured); ok {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.crds, object.GetName())
		d.publish()
	}
}

// watchable returns the resource of a CRD that the space serves: in the version known before if that is served still,
// else in the stored one if served, else in the first served.
func watchable(crd *apiextensionsv1.CustomResourceDefinition, known Resource) (Resource, bool) {
	established := slices.ContainsFunc(crd.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
	})
	if !established {
		return Resource{}, false
	}
	var found string
	for _, version := range crd.Spec.Versions {
		switch {
		case !version.Served:
		case version.Name == known.Version:
			return known, true
		case found == "" || version.Storage:
			found = version.Name
		}
	}
	return Resource{
		GroupVersionResource: schema.GroupVersionResource{Group: crd.Spec.Group, Version: found, Resource: crd.Spec.Names.Plural},
		Kind:                 crd.Spec.Names.Kind,
		Namespaced:           crd.Spec.Scope == apiextensionsv1.NamespaceScoped,
	}, found != ""
}

// publish makes the answer of what discovery and the CRDs say. The caller holds the mutex.
func (d *Discovery) publish() {
	if d.discovered == nil {
		return // nothing is complete without the first discovery
	}
	resources := make(map[schema.GroupResource]Resource, len(d.discovered))
	for gr, resource := range d.discovered {
		if !d.wasCRD[gr] && d.filter(resource) {
			resources[gr] = resource
		}
	}
	for _, resource := range d.crds {
		if d.filter(resource) {
			resources[resource.GroupResource()] = resource
		}
	}
	if !maps.Equal(d.resources, resources) {
		d.resources = resources
		notify(d.changed)
	}
}

// Serves tells whether the space serves a resource of that name, in that group or with a nil group in any, whether or not
// the filter admits it. known is false before the first discovery, and when the answer would be no but a group that could
// serve it was not discovered.
func (d *Discovery) Serves(group *string, resource string) (serves, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.discovered == nil {
		return false, false
	}
	match := func(gr schema.GroupResource) bool {
		return (group == nil || *group == gr.Group) && (resource == "" || resource == gr.Resource)
	}
	for _, crd := range d.crds {
		if match(crd.GroupResource()) {
			return true, true
		}
	}
	for gr := range d.served {
		if !d.wasCRD[gr] && match(gr) {
			return true, true
		}
	}
	if group != nil && d.wasCRD[schema.GroupResource{Group: *group, Resource: resource}] {
		return false, true // its CRD was seen, and is gone
	}
	for gv := range d.failed {
		if group == nil || *group == gv.Group {
			return false, false // it may be among what could not be discovered
		}
	}
	return false, true
}

// Defined tells whether the resource was ever seen to have a CustomResourceDefinition.
func (d *Discovery) Defined(gr schema.GroupResource) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.wasCRD[gr]
}

// Unknown returns the groups whose discovery failed and of which nothing was known before, sorted.
func (d *Discovery) Unknown() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	groups := map[string]struct{}{}
	for gv := range d.failed {
		groups[gv.Group] = struct{}{}
	}
	for gr := range d.served {
		delete(groups, gr.Group)
	}
	return slices.Sorted(maps.Keys(groups))
}

// keepCRD drops schemas, which are the bulk of a CRD.
func keepCRD(obj any) (any, error) {
	object, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil
	}
	unstructured.RemoveNestedField(object.Object, "metadata", "managedFields")
	unstructured.RemoveNestedField(object.Object, "metadata", "annotations")
	versions, found, err := unstructured.NestedSlice(object.Object, "spec", "versions")
	if err != nil || !found {
		return object, err
	}
	for _, version := range versions {
		if fields, ok := version.(map[string]any); ok {
			delete(fields, "schema")
			delete(fields, "additionalPrinterColumns")
		}
	}
	return object, unstructured.SetNestedSlice(object.Object, versions, "spec", "versions")
}

func keepMetadata(obj any) (any, error) {
	object, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil
	}
	// The status tells whether an aggregated API is available: it matters as a notice only.
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": object.GetAPIVersion(),
		"kind":       object.GetKind(),
		"metadata": map[string]any{
			"name":            object.GetName(),
			"uid":             string(object.GetUID()),
			"resourceVersion": object.GetResourceVersion(),
		},
	}}, nil
}
