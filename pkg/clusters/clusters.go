// Package clusters reads the ManagedClusters of all ITSes: which clusters there are, and which of
// several of one name the name stands for. A process has one Reader, which all its controllers
// share. Who reads one ITS only, and has its own connection to it, uses NewInformer and MemberOf.
//
// As long as an ITS in which a cluster could be has not synced, the cluster is Unknown.
package clusters

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned/typed/cluster/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"github.com/starlinghq/starling/pkg/client"
	coreinventory "github.com/starlinghq/starling/pkg/core/inventory"
	"github.com/starlinghq/starling/pkg/logging"
	"github.com/starlinghq/starling/pkg/spaces"
)

// ManagedClusters is the resource that an ITS must serve.
var ManagedClusters = clusterv1.SchemeGroupVersion.WithResource("managedclusters")

// ITS is an inventory and transport space, as far as it has clusters.
type ITS struct {
	Name string
	// Connect blocks until the ITS serves ManagedClusters. It fails only if a retry is useless, or
	// when the context ends.
	Connect func(ctx context.Context) (Source, error)
}

// Source reads the ManagedClusters of an ITS.
type Source struct {
	// Informer watches them. It is not started.
	Informer cache.SharedIndexInformer
	// List reads their metadata from the API server.
	List client.ListMetadata
}

// NewSource returns a Source that uses the connection.
func NewSource(config *rest.Config) (Source, error) {
	c, err := metadata.NewForConfig(config)
	if err != nil {
		return Source{}, fmt.Errorf("build client for ManagedClusters: %w", err)
	}
	informer, err := NewInformer(config)
	return Source{Informer: informer, List: c.Resource(ManagedClusters).List}, err
}

// Connect returns an ITS that is connected to when it answers.
func Connect(name string, options spaces.Options) ITS {
	return ITS{Name: name, Connect: func(ctx context.Context) (Source, error) {
		space, err := spaces.WaitConnected(ctx, name, options)
		if err != nil {
			return Source{}, err
		}
		if err := spaces.WaitForResources(ctx, space, ManagedClusters); err != nil {
			return Source{}, err
		}
		return NewSource(space.Config)
	}}
}

// NewInformer returns an informer of ManagedClusters that stores of each what a Cluster is made of,
// and no more: with a thousand clusters, claims and conditions would be most of the memory.
func NewInformer(config *rest.Config) (cache.SharedIndexInformer, error) {
	c, err := clusterclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("build client for ManagedClusters: %w", err)
	}
	informer, err := client.NewInformer(c.ManagedClusters(), &clusterv1.ManagedCluster{}, nil)
	if err != nil {
		return nil, err
	}
	return informer, informer.SetTransform(trim)
}

// MemberOf returns what a ManagedCluster contributes to the choice between clusters of one name.
func MemberOf(c *clusterv1.ManagedCluster) coreinventory.Member {
	return coreinventory.Member{
		Candidate: coreinventory.NewCandidate(c, c.Status.Conditions),
		Accepted:  c.Spec.HubAcceptsClient, Leaving: c.DeletionTimestamp != nil,
	}
}

func trim(obj any) (any, error) {
	cluster, ok := obj.(*clusterv1.ManagedCluster)
	if !ok {
		return obj, nil
	}
	annotations := maps.Clone(cluster.Annotations)
	delete(annotations, "kubectl.kubernetes.io/last-applied-configuration")
	return &clusterv1.ManagedCluster{
		ObjectMeta: metav1.ObjectMeta{
			Name: cluster.Name, UID: cluster.UID, ResourceVersion: cluster.ResourceVersion, CreationTimestamp: cluster.CreationTimestamp,
			Labels: cluster.Labels, Annotations: annotations, DeletionTimestamp: cluster.DeletionTimestamp,
		},
		Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: cluster.Spec.HubAcceptsClient},
		Status: clusterv1.ManagedClusterStatus{
			Conditions: coreinventory.Conditions(cluster.Status.Conditions), Version: clusterv1.ManagedClusterVersion{Kubernetes: cluster.Status.Version.Kubernetes},
		},
	}, nil
}

// Cluster is a cluster of an ITS. It is shared, and must not be changed.
type Cluster struct {
	Name                string
	UID                 types.UID
	Labels, Annotations map[string]string
	// Kubernetes is the version that it reports, "" if it has not.
	Kubernetes string
}

func clusterOf(c *clusterv1.ManagedCluster) *Cluster {
	return &Cluster{Name: c.Name, UID: c.UID, Labels: c.Labels, Annotations: c.Annotations, Kubernetes: c.Status.Version.Kubernetes}
}

// Member is one of the clusters of a name that are accepted.
type Member struct {
	ITS string
	UID types.UID
	// Chosen: the name stands for it. Refused: its condition NameTaken says that the name stands
	// for another one.
	Chosen, Refused bool
}

// Reader reads the ManagedClusters of all ITSes. Make one with New, and Run it once. It is safe for
// concurrent use.
type Reader struct {
	itses []ITS

	mu                  sync.Mutex
	onChange, onMembers []func(name string)
	synced              []bool
	// lists read the clusters of each ITS from its API server; nil until it is connected.
	lists []client.ListMetadata
	// clusters are those of each ITS, by name.
	clusters []map[string]*clusterv1.ManagedCluster
	// chosen are the names that were seen to stand for a cluster of the ITS since the start. They
	// count only until all ITSes have synced, and are forgotten then.
	chosen []map[string]bool
}

// New returns a Reader that does nothing until Run.
func New(itses ...ITS) *Reader {
	r := &Reader{itses: itses, synced: make([]bool, len(itses)), lists: make([]client.ListMetadata, len(itses))}
	for range itses {
		r.clusters = append(r.clusters, map[string]*clusterv1.ManagedCluster{})
		r.chosen = append(r.chosen, map[string]bool{})
	}
	return r
}

// OnChange adds a handler for the names of which Get returns something else now. It receives ""
// when an ITS has synced: what was Unknown may be known now. It must not block. Added while the
// Reader runs, it first receives all that is known.
func (r *Reader) OnChange(handler func(name string)) { r.subscribe(&r.onChange, handler) }

// OnMembers is OnChange for all clusters, also those that are not accepted and those that are
// refused.
func (r *Reader) OnMembers(handler func(name string)) { r.subscribe(&r.onMembers, handler) }

func (r *Reader) subscribe(handlers *[]func(string), handler func(string)) {
	r.mu.Lock()
	*handlers = append(slices.Clip(*handlers), handler)
	names, synced := r.names(), slices.Contains(r.synced, true)
	r.mu.Unlock()
	for _, name := range names {
		handler(name)
	}
	if synced {
		handler("")
	}
}

// Run reads until the context ends, and waits for all that it started.
func (r *Reader) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	for i := range r.itses {
		running.Go(func() {
			if err := r.run(ctx, i); err != nil && ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "Cannot read the clusters of the ITS; they stay as they are", logging.Space, r.itses[i].Name)
			}
		})
	}
	<-ctx.Done()
	return nil
}

func (r *Reader) run(ctx context.Context, i int) error {
	source, err := r.itses[i].Connect(ctx)
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.lists[i] = source.List
	r.mu.Unlock()
	registration, err := source.Informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { r.set(i, obj) },
		UpdateFunc: func(_, obj any) { r.set(i, obj) },
		DeleteFunc: func(obj any) { r.remove(i, obj) },
	})
	if err != nil {
		return fmt.Errorf("watch ManagedClusters: %w", err)
	}
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { source.Informer.RunWithContext(ctx) })
	if cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		r.setSynced(i)
	}
	return nil
}

func (r *Reader) setSynced(i int) {
	r.mu.Lock()
	r.synced[i] = true
	for _, name := range r.names() {
		r.noteChosen(name)
	}
	if r.all() {
		for _, names := range r.chosen {
			clear(names)
		}
	}
	handlers := slices.Concat(r.onChange, r.onMembers)
	r.mu.Unlock()
	for _, handler := range handlers {
		handler("")
	}
}

func (r *Reader) set(i int, obj any) {
	if cluster, ok := obj.(*clusterv1.ManagedCluster); ok {
		r.change(cluster.Name, func() { r.clusters[i][cluster.Name] = cluster })
	}
}

func (r *Reader) remove(i int, obj any) {
	if name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj); err == nil {
		r.change(name, func() { delete(r.clusters[i], name) })
	}
}

// change makes a change of a cluster. Most changes of ManagedClusters do not change what Get
// returns.
func (r *Reader) change(name string, do func()) {
	r.mu.Lock()
	before, was := r.get(name)
	do()
	r.noteChosen(name)
	after, is := r.get(name)
	handlers := r.onMembers
	if was != is || !reflect.DeepEqual(before, after) {
		handlers = slices.Concat(r.onChange, r.onMembers)
	}
	r.mu.Unlock()
	for _, handler := range handlers {
		handler(name)
	}
}

// noteChosen remembers which cluster the name stands for, until all ITSes have synced.
func (r *Reader) noteChosen(name string) {
	if r.all() {
		return
	}
	if chosen, state := r.choose(name); state == coreinventory.Accepted {
		r.chosen[chosen][name] = true
	}
}

// Get returns what is known of a cluster. The Cluster is nil unless it is Accepted.
func (r *Reader) Get(name string) (*Cluster, coreinventory.State) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.get(name)
}

func (r *Reader) get(name string) (*Cluster, coreinventory.State) {
	chosen, state := r.choose(name)
	if state != coreinventory.Accepted {
		return nil, state
	}
	return clusterOf(r.clusters[chosen][name]), state
}

// Home returns the name of the ITS whose cluster the name stands for, if it is Accepted.
func (r *Reader) Home(name string) (its string, state coreinventory.State) {
	r.mu.Lock()
	defer r.mu.Unlock()
	chosen, state := r.choose(name)
	if state != coreinventory.Accepted {
		return "", state
	}
	return r.itses[chosen].Name, state
}

// ReadLabels reads the labels of accepted clusters from their ITSes; those that do not exist any
// more are missing. unread has the clusters of ITSes that do not respond, by the name of the ITS.
// It blocks for a few seconds at most.
func (r *Reader) ReadLabels(ctx context.Context, names []string) (labels map[string]map[string]string, unread map[string][]string) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	homes := map[int][]string{}
	r.mu.Lock()
	lists := slices.Clone(r.lists)
	for _, name := range names {
		if its, state := r.choose(name); state == coreinventory.Accepted {
			homes[its] = append(homes[its], name)
		}
	}
	r.mu.Unlock()
	labels, unread = map[string]map[string]string{}, map[string][]string{}
	var reading sync.WaitGroup
	var mu sync.Mutex
	for its, names := range homes {
		reading.Go(func() { // at once, so that an ITS that does not respond holds up no other
			read, err := client.ReadLabels(ctx, lists[its], names)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				klog.FromContext(ctx).Error(err, "Cannot read the labels of clusters", logging.Space, r.itses[its].Name)
				unread[r.itses[its].Name] = names
				return
			}
			maps.Copy(labels, read)
		})
	}
	reading.Wait()
	return labels, unread
}

// readTimeout bounds what waits for an ITS that does not respond.
const readTimeout = 3 * time.Second

// choose returns in which ITS the cluster is that the name stands for, if it is Accepted.
func (r *Reader) choose(name string) (its int, state coreinventory.State) {
	members := map[int]coreinventory.Member{}
	for i := range r.clusters {
		var m coreinventory.Member
		if c := r.clusters[i][name]; c != nil {
			m = MemberOf(c)
		}
		m.Chosen = r.chosen[i][name]
		members[i] = m
	}
	return coreinventory.Choose(members, r.all())
}

func (r *Reader) all() bool { return !slices.Contains(r.synced, false) }

// names returns the names of all clusters, sorted.
func (r *Reader) names() []string {
	names := map[string]bool{}
	for _, clusters := range r.clusters {
		for name := range clusters {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// List returns all clusters that are Accepted, sorted by name, and whether every ITS has synced: if
// not, there may be more.
func (r *Reader) List() (list []*Cluster, complete bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range r.names() {
		if c, state := r.get(name); state == coreinventory.Accepted {
			list = append(list, c)
		}
	}
	return list, r.all()
}

// ListPending returns the clusters that their ITSes have not accepted, sorted by name.
func (r *Reader) ListPending() []*Cluster {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []*Cluster
	for _, name := range r.names() {
		if _, state := r.choose(name); state == coreinventory.Accepted {
			continue
		}
		for _, clusters := range r.clusters {
			if c := clusters[name]; c != nil && !c.Spec.HubAcceptsClient && c.DeletionTimestamp == nil {
				list = append(list, clusterOf(c))
				break
			}
		}
	}
	return list
}

// Denied reports whether an ITS has a cluster of that name, and none accepts it: not yet, or no
// longer.
func (r *Reader) Denied(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	denied := false
	for _, clusters := range r.clusters {
		if c := clusters[name]; c != nil && c.DeletionTimestamp == nil {
			if c.Spec.HubAcceptsClient {
				return false
			}
			denied = true
		}
	}
	return denied
}

// Members returns the accepted clusters of a name, in the order of the ITSes.
func (r *Reader) Members(name string) []Member {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.members(name)
}

func (r *Reader) members(name string) []Member {
	chosen, state := r.choose(name)
	var members []Member
	for i, clusters := range r.clusters {
		if c := clusters[name]; c != nil && c.Spec.HubAcceptsClient && c.DeletionTimestamp == nil {
			members = append(members, Member{
				ITS: r.itses[i].Name, UID: c.UID, Chosen: state == coreinventory.Accepted && i == chosen,
				Refused: coreinventory.NewCandidate(c, c.Status.Conditions).Refused,
			})
		}
	}
	return members
}

// Contested returns the names of clusters that several ITSes accept, or that are refused, sorted.
func (r *Reader) Contested() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var contested []string
	for _, name := range r.names() {
		if members := r.members(name); len(members) > 1 || len(members) == 1 && members[0].Refused {
			contested = append(contested, name)
		}
	}
	return contested
}

// Unsynced returns the names of the ITSes that have not synced.
func (r *Reader) Unsynced() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []string
	for i, synced := range r.synced {
		if !synced {
			names = append(names, r.itses[i].Name)
		}
	}
	return names
}

// Ready returns an error that names the ITSes that have not synced.
func (r *Reader) Ready() error {
	if missing := r.Unsynced(); len(missing) > 0 {
		return fmt.Errorf("ManagedClusters have not synced: %s", strings.Join(missing, ", "))
	}
	return nil
}
