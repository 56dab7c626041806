package dynamicinformer

import (
	"cmp"
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
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/logging"
)

var (
	crdResource        = apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")
	apiServiceResource = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
)

const (
	// debounce is the least time between two discoveries: a chart that installs 30 CRDs causes two,
	// not 30.
	debounce = time.Second
	// rediscover is the interval of discovery without an event, so that a lost event heals.
	rediscover = 5 * time.Minute
	// retryDiscovery is the interval while discovery fails in whole or in part.
	retryDiscovery = 5 * time.Second
	// dropAfter is how long a resource must be missing in responses before it is dropped: an
	// APIService that is replaced (helm --force) is missing for a moment, and its objects are not.
	dropAfter = 15 * time.Second
	// firstDiscovery is how long the first discovery waits for the CRDs and APIServices that it is
	// compared with; a space need not serve either.
	firstDiscovery = 5 * time.Second
)

var (
	errEmpty  = errors.New("the space lists no API groups")
	errUnread = errors.New("the APIServices are not read yet")
)

// errUnlisted is the error of a group that is registered but missing in the response: an API server
// that is starting does not list groups yet whose servers it has not reached.
var errUnlisted = errors.New("registered, but not listed yet")

// Discovery is a Source of all resources of a space that can be listed and watched.
//
// Resources of CustomResourceDefinitions are read from those objects themselves, as soon as they
// are established or deleted: the discovery documents of an API server follow later. All others
// come from discovery. Nothing is dropped because it could not be read: a group whose discovery
// fails keeps its resources, and an empty response changes nothing. Nothing is dropped because it
// is not served for now: a resource whose CRD exists still has its objects, and a resource of
// another API is dropped only after dropAfter.
type Discovery struct {
	client  discovery.AggregatedDiscoveryInterface
	dynamic dynamic.Interface
	filter  func(Resource) bool
	changed chan struct{}
	wake    chan struct{}
	// registered returns the names of the APIServices, and whether all are known.
	registered func() (names []string, synced bool)
	now        func() time.Time

	mu         sync.Mutex
	crds       map[string]Resource                // by name of the CRD
	wasCRD     map[schema.GroupResource]bool      // what ever had a CRD: discovery is ignored for it
	unserved   map[schema.GroupResource]bool      // what has a CRD and is not served
	paused     map[schema.GroupResource]bool      // of these, what is established: its CRD serves no version
	discovered map[schema.GroupResource]Resource  // the result of discovery, including CRDs
	absent     map[schema.GroupResource]time.Time // what responses have lacked since then, and is kept for now
	failed     map[schema.GroupVersion]error      // groups whose last discovery failed
	err        error                              // why the last discovery failed as a whole
	// first and last are when discovery succeeded first and last.
	first, last time.Time
	resources   map[schema.GroupResource]Resource // the result
	notified    map[any]bool                      // what was not served when onNotServed were called last
	onNotServed []func()
	served      map[schema.GroupResource]struct{} // everything the space serves, watchable or not
}

// NewDiscovery returns a Source of the resources that the filter admits. It has none until Run. A
// nil filter admits all.
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
		registered: func() ([]string, bool) { return nil, true },
		now:        time.Now,
		crds:       map[string]Resource{},
		wasCRD:     map[schema.GroupResource]bool{},
		unserved:   map[schema.GroupResource]bool{},
		paused:     map[schema.GroupResource]bool{},
	}
}

// OnNotServed adds a handler for when the results of NotServed may have changed. It must not block,
// and not call the Discovery.
func (d *Discovery) OnNotServed(handler func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.onNotServed = append(d.onNotServed, handler)
}

// Resources implements Source.
func (d *Discovery) Resources() map[schema.GroupResource]Resource {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.resources
}

// Changed implements Source.
func (d *Discovery) Changed() <-chan struct{} { return d.changed }

// Err returns an error that names what the last discovery failed for, nil if nothing. Resources of
// these groups are unchanged.
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
	crds := DynamicInformer(d.dynamic, keepCRD)(Resource{GroupVersionResource: crdResource})
	apiServices := DynamicInformer(d.dynamic, keepAPIService)(Resource{GroupVersionResource: apiServiceResource})
	if _, err := crds.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { d.setCRD(obj) },
		UpdateFunc: func(_, obj any) { d.setCRD(obj) },
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
	d.registered = func() ([]string, bool) { return obeyed(apiServices.GetStore().List()), apiServices.HasSynced() }
	waitCtx, cancel := context.WithTimeout(ctx, firstDiscovery)
	cache.WaitForCacheSync(waitCtx.Done(), crds.HasSynced, apiServices.HasSynced)
	cancel()

	for {
		d.discover(ctx)
		next := rediscover
		switch {
		case d.Err() != nil:
			next = retryDiscovery
		case d.looksAgain():
			next = dropAfter
		}
		if !sleep(ctx, debounce, nil) || !sleep(ctx, next, d.wake) {
			return nil
		}
	}
}

// sleep waits for a time or for an event; it returns false if the context ends.
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

// discover reads the resources of the space, and adopts what the response is certain about. A
// response that is none leaves everything as it was, also which groups failed.
func (d *Discovery) discover(ctx context.Context) {
	registered, synced := d.registered() // before discovery: a group that is deleted meanwhile is unlisted for one round only
	groups, byVersion, failed, err := d.client.GroupsAndMaybeResources()
	switch {
	case err != nil:
	case groups == nil || len(groups.Groups) == 0:
		err = errEmpty
	case !synced && slices.ContainsFunc(groups.Groups, func(g metav1.APIGroup) bool { return g.Name == apiServiceResource.Group }):
		err = errUnread
	}
	if err == nil && byVersion == nil {
		// A server without aggregated discovery: one request a group and version.
		byVersion, failed = d.fetch(groups)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = err
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Cannot discover resources; will retry, and keep the known ones", logging.Reason, err.Error())
		return
	}
	d.last = d.now()
	if d.first.IsZero() {
		d.first = d.last
	}
	d.failed = addUnlisted(failed, groups, registered)
	known := d.discovered
	d.discovered, d.served = merge(known, groups, byVersion, d.failed, d.served)
	d.retainAbsent(known)
	d.publish()
}

// retainAbsent adds the known resources that the response lacks until dropAfter. The caller holds
// the mutex.
func (d *Discovery) retainAbsent(known map[schema.GroupResource]Resource) {
	absent := map[schema.GroupResource]time.Time{}
	for gr, resource := range known {
		if _, listed := d.discovered[gr]; listed || d.wasCRD[gr] {
			continue
		}
		since, before := d.absent[gr]
		if !before {
			since = d.last
		}
		if d.last.Sub(since) < dropAfter {
			absent[gr], d.discovered[gr] = since, resource
		}
	}
	d.absent = absent
}

// looksAgain reports whether another discovery in dropAfter may confirm what the last one lacks.
func (d *Discovery) looksAgain() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.absent) > 0 || d.last.Sub(d.first) < dropAfter
}

// addUnlisted returns failed with the groups that are registered and not in the response. Each name
// is "version.group".
func addUnlisted(failed map[schema.GroupVersion]error, groups *metav1.APIGroupList, registered []string) map[schema.GroupVersion]error {
	if groups == nil {
		return failed
	}
	listed := map[string]struct{}{"": {}} // the core group is listed elsewhere, and always exists
	for i := range groups.Groups {
		listed[groups.Groups[i].Name] = struct{}{}
	}
	all := map[schema.GroupVersion]error{}
	maps.Copy(all, failed)
	for _, name := range registered {
		version, group, _ := strings.Cut(name, ".")
		if _, ok := listed[group]; !ok {
			all[schema.GroupVersion{Group: group, Version: version}] = errUnlisted
		}
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

// merge returns the known resources after a response. For each resource it prefers the version
// known before, so that a change of preference alone restarts no watch, then the order of the
// server.
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
		for _, version := range append([]metav1.GroupVersionForDiscovery{group.PreferredVersion}, group.Versions...) {
			gv := schema.GroupVersion{Group: group.Name, Version: version.Version}
			list := byVersion[gv]
			if list == nil {
				continue
			}
			for _, api := range list.APIResources {
				resource := Resource{GroupVersionResource: gv.WithResource(api.Name), Kind: api.Kind, Namespaced: api.Namespaced}
				gr := resource.GroupResource()
				resource.TracksContent = objref.GenerationTracksContent(gr)
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

// setCRD adopts a CustomResourceDefinition that was added or changed.
func (d *Discovery) setCRD(obj any) {
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
	delete(d.paused, gr)
	if ok {
		delete(d.unserved, gr)
		d.crds[crd.Name] = resource
	} else { // its objects exist nevertheless: what is known of them stays
		d.unserved[gr] = true
		if isEstablished(&crd) {
			d.paused[gr] = true
		}
	}
	d.publish()
}

func (d *Discovery) forgetCRD(obj any) {
	if name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.crds, name)
		gr := schema.ParseGroupResource(name) // a CRD is named <plural>.<group>
		delete(d.unserved, gr)
		delete(d.paused, gr)
		d.publish()
	}
}

// watchable returns the resource of a CRD that the space serves: in the storage version, which
// needs no conversion, if that is served, else in the version known before, else in the first
// served version.
func watchable(crd *apiextensionsv1.CustomResourceDefinition, known Resource) (Resource, bool) {
	if !isEstablished(crd) {
		return Resource{}, false
	}
	var stored, found string
	for _, version := range crd.Spec.Versions {
		switch {
		case !version.Served:
		case version.Storage:
			stored = version.Name
		case found == "" || version.Name == known.Version:
			found = version.Name
		}
	}
	found = cmp.Or(stored, found)
	return Resource{
		GroupVersionResource: schema.GroupVersionResource{Group: crd.Spec.Group, Version: found, Resource: crd.Spec.Names.Plural},
		Kind:                 crd.Spec.Names.Kind,
		Namespaced:           crd.Spec.Scope == apiextensionsv1.NamespaceScoped,
		TracksContent:        true,
	}, found != ""
}

func isEstablished(crd *apiextensionsv1.CustomResourceDefinition) bool {
	return slices.ContainsFunc(crd.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
	})
}

// publish combines the results of discovery and of the CRDs. The caller holds the mutex.
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
	notServed := map[any]bool{}
	for gr := range d.paused {
		notServed[gr] = true
	}
	for gv := range d.failed {
		notServed[gv] = true
	}
	if !maps.Equal(d.notified, notServed) {
		d.notified = notServed
		for _, handler := range d.onNotServed {
			handler()
		}
	}
}

// NotServed is why a space does not serve a resource for now, whose objects may exist.
type NotServed int

const (
	// Served says that the space serves the resource, or that it is not known why it does not.
	Served NotServed = iota
	// NoServedVersion says that the CustomResourceDefinition of the resource serves no version.
	NoServedVersion
	// NoResponse says that the API server of the resource's API group does not respond.
	NoResponse
)

// NotServed returns why the space does not serve a resource for now. It returns Served for a
// resource that is gone.
func (d *Discovery) NotServed(gr schema.GroupResource) NotServed {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.paused[gr] {
		return NoServedVersion
	}
	resource, known := d.resources[gr]
	for gv := range d.failed {
		if gv.Group == gr.Group && (!known || gv.Version == resource.Version) && d.crds[gr.String()] == (Resource{}) {
			return NoResponse
		}
	}
	return Served
}

// Serves reports whether the space serves a resource of that name, in that group or with a nil
// group in any, whether or not the filter admits it. known is false before the first discovery, if
// the resource has a CRD that does not serve it for now, if responses have lacked it for a moment
// only, and if the space seems not to serve it but the discovery of a group that could serve it
// failed.
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
		if gr := crd.GroupResource(); match(gr) && !d.unserved[gr] {
			return true, true
		}
	}
	for gr := range d.served {
		if !d.wasCRD[gr] && match(gr) {
			return true, true
		}
	}
	for gr := range d.unserved {
		if match(gr) {
			return false, false
		}
	}
	if group != nil && d.wasCRD[schema.GroupResource{Group: *group, Resource: resource}] {
		return false, true // its CRD was deleted
	}
	if d.err != nil {
		return false, false
	}
	for gr := range d.absent {
		if match(gr) {
			return false, false
		}
	}
	for gv := range d.failed {
		if group == nil || *group == gv.Group {
			return false, false // the discovery of its group failed
		}
	}
	return false, true
}

// Gone reports whether it is certain that the space has no object of the resource: its CRD was
// deleted, or the space does not serve it, and did not dropAfter earlier.
func (d *Discovery) Gone(gr schema.GroupResource) bool {
	if serves, known := d.Serves(&gr.Group, gr.Resource); serves || !known {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.wasCRD[gr] || d.last.Sub(d.first) >= dropAfter
}

// Defined reports whether the resource ever had a CustomResourceDefinition.
func (d *Discovery) Defined(gr schema.GroupResource) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.wasCRD[gr]
}

// Unknown returns the groups whose discovery failed and of which no resource is known, sorted.
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
