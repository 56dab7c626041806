package foresight

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned/typed/cluster/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/client"
	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/pkg/core/foresight/forecast"
	"github.com/starlinghq/starling/pkg/core/inventory"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/options"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/workload"
	"github.com/starlinghq/starling/pkg/dynamicinformer"
	"github.com/starlinghq/starling/pkg/spaces"
)

// parallel is how many requests to one space are under way at the same time.
const parallel = 16

// WorldReader reads a forecast.World with the rights of the caller.
type WorldReader struct {
	// WDS is the WDS, and ITSes are its ITSes, none if they are not known.
	WDS   spaces.Connection
	ITSes []spaces.Connection
	// Progress is called with what is being read.
	Progress func(what string)

	readKinds   sync.Once
	servedKinds workload.Kinds
	kindsErr    error

	mu      sync.Mutex
	unknown []forecast.Unknown
}

// Read returns the state of the WDS and its clusters: of objects, their metadata. The error says
// that the WDS cannot be read.
func (r *WorldReader) Read(ctx context.Context) (*forecast.World, error) {
	w := &forecast.World{
		Policies: map[string]*controlv1alpha1.BindingPolicy{}, Bindings: map[string]*controlv1alpha1.Binding{}, Objects: map[objref.Ref]*forecast.Object{},
		Transforms: map[string]*controlv1alpha1.CustomTransform{}, Clusters: map[string]*forecast.Cluster{}, Unread: map[schema.GroupResource]bool{},
		UnreadGroups: map[string]bool{},
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return r.readPolicies(ctx, w) })
	group.Go(func() error { return r.readSettings(ctx, w) })
	group.Go(func() error { return r.readObjects(ctx, w) })
	group.Go(func() error { return r.readClusters(ctx, w) })
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return w, nil
}

// readSettings reads the settings of the controllers.
func (r *WorldReader) readSettings(ctx context.Context, w *forecast.World) error {
	objects, err := dynamic.NewForConfig(r.WDS.Config)
	if err != nil {
		return err
	}
	w.Settings = readSettings(ctx, objects)
	for _, note := range w.Settings.Notes() {
		r.note(forecast.AboutClusters, "%s", note)
	}
	return nil
}

func (r *WorldReader) note(about forecast.About, format string, args ...any) {
	r.add(forecast.Unknown{About: about, Text: fmt.Sprintf(format, args...)})
}

func (r *WorldReader) add(u forecast.Unknown) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unknown = append(r.unknown, u)
}

// readPolicies reads what says which objects go where: all of it is necessary.
func (r *WorldReader) readPolicies(ctx context.Context, w *forecast.World) error {
	c, err := client.New(r.WDS.Config)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		list, err := c.BindingPolicies().List(ctx, metav1.ListOptions{})
		if err != nil {
			return notAWDS(r.WDS.Name, err)
		}
		for i := range list.Items {
			w.Policies[list.Items[i].Name] = &list.Items[i]
		}
		return nil
	})
	group.Go(func() error {
		list, err := c.Bindings().List(ctx, metav1.ListOptions{})
		if err != nil {
			return notAWDS(r.WDS.Name, err)
		}
		for i := range list.Items {
			w.Bindings[list.Items[i].Name] = &list.Items[i]
		}
		return nil
	})
	group.Go(func() error {
		list, err := c.CustomTransforms().List(ctx, metav1.ListOptions{})
		if err != nil {
			return notAWDS(r.WDS.Name, err)
		}
		for i := range list.Items {
			w.Transforms[list.Items[i].Name] = &list.Items[i]
		}
		return nil
	})
	return group.Wait()
}

// notAWDS explains an error that a space without our API returns.
func notAWDS(name string, err error) error {
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("context %q is no WDS, since it does not serve control.kubestellar.io: choose one with --context: %w", name, err)
	}
	return fmt.Errorf("read WDS %q: %w", name, err)
}

// readObjects reads the metadata of all objects that could be workload, and autoscalers as they
// are.
func (r *WorldReader) readObjects(ctx context.Context, w *forecast.World) error {
	found, err := discovery.NewDiscoveryClientForConfig(r.WDS.Config)
	if err != nil {
		return err
	}
	list, err := r.listing()
	if err != nil {
		return err
	}
	lists, err := found.ServerPreferredResources()
	if failed, is := errors.AsType[*discovery.ErrGroupDiscoveryFailed](err); is {
		for gv, why := range failed.Groups {
			r.add(forecast.Unknown{
				About: forecast.AboutObjects, Of: schema.GroupResource{Group: gv.Group},
				Text: fmt.Sprintf("the API group %s cannot be read, so what is bound of its objects counts as unchanged: %v", gv, why),
			})
			w.UnreadGroups[gv.Group] = true
		}
	} else if err != nil {
		return fmt.Errorf("read the API of WDS %q: %w", r.WDS.Name, err)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, resource := range Workload(lists) {
		group.Go(func() error {
			r.Progress(resource.GroupResource().String())
			found, err := list(ctx, resource)
			switch {
			case apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err):
				return nil
			case err != nil:
				r.add(forecast.Unknown{
					About: forecast.AboutObjects, Of: resource.GroupResource(),
					Text: fmt.Sprintf("%s cannot be listed, so what is bound of them counts as unchanged: %v", resource.GroupResource(), err),
				})
				r.mu.Lock()
				defer r.mu.Unlock()
				w.Unread[resource.GroupResource()] = true
				return nil
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			for _, o := range found {
				w.Objects[objref.New(resource.GroupResource(), o.Meta.GetNamespace(), o.Meta.GetName())] = o
			}
			return nil
		})
	}
	return group.Wait()
}

// listing returns a function that lists a resource: autoscalers with their content, since the
// options of what they scale depend on it, and the metadata of all others.
func (r *WorldReader) listing() (func(context.Context, match.Resource) ([]*forecast.Object, error), error) {
	config := dynamicinformer.WithoutRetries(quick(r.WDS.Config))
	partial, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	whole, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, resource match.Resource) (all []*forecast.Object, err error) {
		if options.IsAutoscaler(objref.New(resource.GroupResource(), "", "")) {
			list, err := fromCache(ctx, whole.Resource(resource.GroupVersionResource).List)
			if err != nil {
				return nil, err
			}
			for i := range list.Items {
				all = append(all, &forecast.Object{Resource: resource, Meta: &list.Items[i], Read: true})
			}
			return all, nil
		}
		list, err := fromCache(ctx, partial.Resource(resource.GroupVersionResource).List)
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			all = append(all, &forecast.Object{Resource: resource, Meta: metaOf(resource, &list.Items[i])})
		}
		return all, nil
	}, nil
}

// fromCache lists from the cache of the API server. Of objects that cannot be read there is none,
// and the API server asks to try again, forever: then etcd's answer says why.
func fromCache[T any](ctx context.Context, list func(context.Context, metav1.ListOptions) (T, error)) (T, error) {
	found, err := list(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if apierrors.IsTooManyRequests(err) {
		found, err = list(ctx, metav1.ListOptions{})
	}
	return found, err
}

// quick returns a configuration without a limit of its own: it reads a lot once, and the API server
// protects itself.
func quick(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.QPS = -1
	return config
}

// metaOf returns an object that has nothing but the metadata that a forecast needs.
func metaOf(resource match.Resource, partial *metav1.PartialObjectMetadata) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetAPIVersion(resource.GroupVersion().String())
	o.SetKind(resource.Kind)
	o.SetName(partial.Name)
	o.SetNamespace(partial.Namespace)
	o.SetUID(partial.UID)
	o.SetResourceVersion(partial.ResourceVersion)
	o.SetGeneration(partial.Generation)
	o.SetLabels(partial.Labels)
	annotations := partial.Annotations
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	o.SetAnnotations(annotations)
	return o
}

// Workload returns the resources of which objects can be workload, in their preferred versions.
func Workload(lists []*metav1.APIResourceList) []match.Resource {
	var all []match.Resource
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue // no server serves that
		}
		for i := range list.APIResources {
			resource := &list.APIResources[i]
			gvr := gv.WithResource(resource.Name)
			watched := slices.Contains(resource.Verbs, "list") && slices.Contains(resource.Verbs, "watch")
			if strings.Contains(resource.Name, "/") || !watched || match.NeverResource(gvr.GroupResource()) {
				continue
			}
			all = append(all, match.Resource{GroupVersionResource: gvr, Kind: resource.Kind})
		}
	}
	return all
}

// readClusters reads the clusters of all ITSes. Without that, the ones that Bindings list stay.
func (r *WorldReader) readClusters(ctx context.Context, w *forecast.World) error {
	if len(r.ITSes) == 0 {
		w.ClustersUnread = true
		r.note(forecast.AboutClusters, "which clusters there are: no ITS is known. Name one with --its-context")
		return nil
	}
	members := map[string]map[string]*clusterv1.ManagedCluster{} // by name and ITS
	properties := map[string]map[string]*corev1.ConfigMap{}      // by ITS and name
	group, ctx := errgroup.WithContext(ctx)
	for _, its := range r.ITSes {
		group.Go(func() error {
			r.Progress("ManagedClusters of " + its.Name)
			list, err := clustersOf(ctx, its)
			if err != nil {
				r.note(forecast.AboutClusters, "the clusters of ITS %s: %v", its.Name, err)
				r.mu.Lock()
				defer r.mu.Unlock()
				w.ClustersUnread = true
				return nil
			}
			maps, err := propertiesOf(ctx, its)
			if err != nil {
				r.note(forecast.AboutTemplates, "the properties of the clusters of ITS %s, so templates are not expanded for them: %v", its.Name, err)
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			for i := range list {
				if members[list[i].Name] == nil {
					members[list[i].Name] = map[string]*clusterv1.ManagedCluster{}
				}
				members[list[i].Name][its.Name] = &list[i]
			}
			properties[its.Name] = maps
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for name, of := range members {
		w.Clusters[name] = clusterOf(name, of, properties, !w.ClustersUnread)
	}
	return nil
}

// clustersOf returns the clusters of an ITS.
func clustersOf(ctx context.Context, its spaces.Connection) ([]clusterv1.ManagedCluster, error) {
	c, err := clusterclient.NewForConfig(quick(its.Config))
	if err != nil {
		return nil, err
	}
	list, err := c.ManagedClusters().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// propertiesOf returns the ConfigMaps of an ITS with properties, by cluster.
func propertiesOf(ctx context.Context, its spaces.Connection) (map[string]*corev1.ConfigMap, error) {
	core, err := kubernetes.NewForConfig(its.Config)
	if err != nil {
		return nil, err
	}
	list, err := core.CoreV1().ConfigMaps(controlv1alpha1.PropertiesNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	found := map[string]*corev1.ConfigMap{}
	for i := range list.Items {
		found[list.Items[i].Name] = &list.Items[i]
	}
	return found, nil
}

// clusterOf returns the cluster that a name stands for.
func clusterOf(name string, of map[string]*clusterv1.ManagedCluster, properties map[string]map[string]*corev1.ConfigMap, all bool) *forecast.Cluster {
	choice := map[string]inventory.Member{}
	var some *clusterv1.ManagedCluster
	for its, c := range of {
		choice[its] = clusters.MemberOf(c)
		some = c
	}
	chosen, state := inventory.Choose(choice, all)
	c := of[chosen]
	if state != inventory.Accepted || c == nil {
		return &forecast.Cluster{Labels: some.Labels, State: state, Refused: refusal(some)}
	}
	cluster := &forecast.Cluster{ITS: chosen, Labels: c.Labels, State: state}
	if maps := properties[chosen]; maps != nil {
		var data map[string]string
		if m := maps[name]; m != nil {
			data = clusters.PropertiesIn(m)
		}
		cluster.Sources = &forecast.Sources{Annotations: c.Annotations, Data: data}
		cluster.Properties = clusters.Properties(name, c.Labels, c.Annotations, data)
	}
	if available := meta.FindStatusCondition(c.Status.Conditions, clusterv1.ManagedClusterConditionAvailable); available == nil || available.Status != metav1.ConditionTrue {
		cluster.Unavailable = "is not available: it gets what is delivered when its agent runs again"
	}
	return cluster
}

func refusal(c *clusterv1.ManagedCluster) string {
	switch {
	case c.DeletionTimestamp != nil:
		return "is being deleted"
	case !c.Spec.HubAcceptsClient:
		return "is not accepted: kubectl starling cluster accept " + c.Name
	}
	return "is no destination, because another ITS has a cluster of its name"
}

// ReadContent reads the objects of two Worlds that a forecast needs. An object that does not exist
// any more stays as it is.
func (r *WorldReader) ReadContent(ctx context.Context, before, after *forecast.World, needs []forecast.Need) error {
	objects, err := dynamic.NewForConfig(quick(r.WDS.Config))
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	resources := make([]match.Resource, len(needs)) // found before the Worlds change
	for i, need := range needs {
		known := before.Objects[need.Ref]
		if known == nil {
			known = after.Objects[need.Ref]
		}
		resources[i] = known.Resource
	}
	for i, need := range needs {
		r.Progress(need.Ref.String())
		group.Go(func() error {
			live, err := objects.Resource(resources[i].GroupVersionResource).Namespace(need.Ref.Namespace).Get(ctx, need.Ref.Name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("read %s: %w", need.Ref, err)
			}
			read := &forecast.Object{Resource: resources[i], Meta: live, Read: true}
			r.mu.Lock()
			defer r.mu.Unlock()
			for _, w := range []struct {
				world  *forecast.World
				wanted bool
			}{{before, need.Before}, {after, need.After}} {
				if w.wanted {
					w.world.Objects[need.Ref] = read
				}
			}
			return nil
		})
	}
	return group.Wait()
}
