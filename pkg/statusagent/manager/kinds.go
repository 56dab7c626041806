package manager

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"
	workclient "open-cluster-management.io/api/client/work/clientset/versioned"
	workv1client "open-cluster-management.io/api/client/work/clientset/versioned/typed/work/v1"
	workv1 "open-cluster-management.io/api/work/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/client"
	"github.com/starlinghq/starling/pkg/controller/worker"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
	"github.com/starlinghq/starling/pkg/statusagent"
	"github.com/starlinghq/starling/pkg/writer"
)

// granter gives each agent the right to read the kinds that were delivered to its cluster, besides
// those of Kubernetes that all agents may read. RBAC cannot grant all kinds without their
// subresources and without Secrets, and to read nodes/proxy or pods/exec is to control the cluster.
//
// The kinds are in the status of the works in the mailbox. The rights are a work of their own.
type granter struct {
	inventory *inventory
	works     cache.SharedIndexInformer
	client    workv1client.ManifestWorksGetter
	writer    *writer.Writer
	queue     *worker.Queue[string]
	// excluded kinds are not reported, and standard ones every agent may read.
	excluded corestatus.Excluded
	standard map[schema.GroupResource]bool

	mu sync.Mutex
	// granted are the manifests that were written last, by cluster.
	granted map[string]string
}

func newGranter(config *rest.Config, inventory *inventory, writer *writer.Writer, excluded []string) (*granter, error) {
	works, err := workclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("build client for ManifestWorks: %w", err)
	}
	g := &granter{inventory: inventory, client: works.WorkV1(), writer: writer, granted: map[string]string{}}
	if len(excluded) == 0 {
		excluded = corestatus.DefaultExcludeKinds()
	}
	if g.excluded, err = corestatus.ParseExcluded(excluded); err != nil {
		return nil, err
	}
	if g.standard, err = standardKinds(); err != nil {
		return nil, err
	}
	if g.works, err = client.NewInformer(ourWorks{works}, &workv1.ManifestWork{}, nil); err != nil {
		return nil, fmt.Errorf("build informer for ManifestWorks: %w", err)
	}
	if err := g.works.SetTransform(reduceWork); err != nil {
		return nil, fmt.Errorf("build informer for ManifestWorks: %w", err)
	}
	g.queue = newQueue(inventory, "grant", apierrors.IsNotFound, g.sync)
	g.queue.WaitFor("ManifestWorks", g.works.HasSynced)
	add := func(o cache.ObjectName) { g.queue.Add(o.Namespace) }
	if err := onChange(g.works, add); err != nil {
		return nil, err
	}
	return g, onChange(inventory.addons.Informer(), func(o cache.ObjectName) {
		g.mu.Lock()
		delete(g.granted, o.Namespace) // it may have been removed with the add-on
		g.mu.Unlock()
		add(o)
	})
}

// ourWorks reads the ManifestWorks of Starling.
type ourWorks struct{ client workclient.Interface }

// List implements what an informer needs.
func (w ourWorks) List(ctx context.Context, options metav1.ListOptions) (*workv1.ManifestWorkList, error) {
	options.LabelSelector = controlv1alpha1.LabelWDSUID
	return w.client.WorkV1().ManifestWorks(metav1.NamespaceAll).List(ctx, options)
}

// Watch implements what an informer needs.
func (w ourWorks) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.LabelSelector = controlv1alpha1.LabelWDSUID
	return w.client.WorkV1().ManifestWorks(metav1.NamespaceAll).Watch(ctx, options)
}

// reduceWork keeps of a work which resources its objects have.
func reduceWork(obj any) (any, error) {
	work, ok := obj.(*workv1.ManifestWork)
	if !ok {
		return obj, nil
	}
	kept := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: work.Namespace, Name: work.Name, ResourceVersion: work.ResourceVersion}}
	for gr := range resourcesOf(work) {
		kept.Status.ResourceStatus.Manifests = append(kept.Status.ResourceStatus.Manifests,
			workv1.ManifestCondition{ResourceMeta: workv1.ManifestResourceMeta{Group: gr.Group, Resource: gr.Resource}})
	}
	return kept, nil
}

// resourcesOf returns the resources of the objects of a work, as far as the cluster has reported
// that it has them. OCM's agent may not be allowed to apply an object, and then it may not grant
// the right to read its kind either.
func resourcesOf(work *workv1.ManifestWork) map[schema.GroupResource]bool {
	resources := map[schema.GroupResource]bool{}
	for i := range work.Status.ResourceStatus.Manifests {
		conditions := work.Status.ResourceStatus.Manifests[i].Conditions
		if meta.IsStatusConditionFalse(conditions, workv1.ManifestApplied) && !meta.IsStatusConditionTrue(conditions, workv1.ManifestAvailable) {
			continue
		}
		m := &work.Status.ResourceStatus.Manifests[i].ResourceMeta
		resources[schema.GroupResource{Group: m.Group, Resource: m.Resource}] = true
	}
	return resources
}

// sync writes the work with the rights of one agent, if they changed.
func (g *granter) sync(ctx context.Context, cluster string) (worker.Result, error) {
	addon, err := g.inventory.addons.Lister().ManagedClusterAddOns(cluster).Get(statusagent.AddonName)
	if err != nil || !addon.DeletionTimestamp.IsZero() || g.inventory.denied(cluster) {
		return worker.Result{}, nil //nolint:nilerr // without an add-on there is no agent
	}
	works, err := g.works.GetIndexer().ByIndex(cache.NamespaceIndex, cluster)
	if err != nil {
		return worker.Result{}, err
	}
	resources := map[schema.GroupResource]bool{}
	for _, item := range works {
		if work, ok := item.(*workv1.ManifestWork); ok {
			maps.Copy(resources, resourcesOf(work))
		}
	}
	rules := g.rules(resources)
	want, err := json.Marshal(grants(rules))
	if err != nil {
		return worker.Result{}, err
	}
	g.mu.Lock()
	granted := g.granted[cluster]
	g.mu.Unlock()
	if granted == string(want) {
		return worker.Result{}, nil
	}
	if err := g.write(ctx, addon, want, len(rules) > 0); err != nil {
		return worker.Result{}, err
	}
	g.mu.Lock()
	g.granted[cluster] = string(want)
	g.mu.Unlock()
	return worker.Result{}, nil
}

// write updates the work, or creates it if it is needed.
func (g *granter) write(ctx context.Context, addon *addonv1alpha1.ManagedClusterAddOn, manifests json.RawMessage, needed bool) error {
	target := writer.Target{Resource: manifestWorks, Namespace: addon.Namespace, Name: statusagent.KindsWork}
	spec := map[string]any{"workload": map[string]any{"manifests": manifests}}
	patch, err := json.Marshal(map[string]any{"spec": spec})
	if err != nil {
		return err
	}
	existing, err := g.client.ManifestWorks(target.Namespace).Get(ctx, target.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && !needed:
		return nil
	case err == nil && sameManifests(existing.Spec.Workload.Manifests, manifests):
		return nil // a restart writes nothing
	case err == nil:
		_, err = g.writer.Patch(ctx, target, types.MergePatchType, patch, "grant")
		return err
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("read the work with the kinds: %w", err)
	}
	work := map[string]any{
		"apiVersion": workv1.GroupVersion.String(), "kind": "ManifestWork",
		"metadata": map[string]any{
			"name": target.Name, "namespace": target.Namespace, "labels": map[string]any{"app.kubernetes.io/part-of": "starling"},
			"ownerReferences": []metav1.OwnerReference{ownedBy(addon)},
		},
		"spec": spec,
	}
	_, err = g.writer.Create(ctx, target, work, "grant")
	return err
}

// sameManifests reports whether a work has these manifests, a list in JSON.
func sameManifests(have []workv1.Manifest, want json.RawMessage) bool {
	raw, err := json.Marshal(have)
	if err != nil {
		return false
	}
	var a, b any
	return json.Unmarshal(raw, &a) == nil && json.Unmarshal(want, &b) == nil && apiequality.Semantic.DeepEqual(a, b)
}

// rules returns the rights to read the resources, except those that every agent may read, and those
// that none reads: excluded kinds, subresources and Secrets.
func (g *granter) rules(resources map[schema.GroupResource]bool) []rbacv1.PolicyRule {
	byGroup := map[string][]string{}
	for gr := range resources {
		if gr.Resource == "" || strings.ContainsAny(gr.Resource, "/*") || strings.Contains(gr.Group, "*") ||
			gr == (schema.GroupResource{Resource: "secrets"}) || g.standard[gr] || g.excluded.Resource(gr) {
			continue
		}
		byGroup[gr.Group] = append(byGroup[gr.Group], gr.Resource)
	}
	rules := []rbacv1.PolicyRule{}
	for _, group := range slices.Sorted(maps.Keys(byGroup)) {
		slices.Sort(byGroup[group])
		rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{group}, Resources: byGroup[group], Verbs: []string{"get", "list", "watch"}})
	}
	return rules
}

// grants returns the manifests that give these rights to the agent in its cluster.
func grants(rules []rbacv1.PolicyRule) []runtime.Object {
	const name = statusagent.HubRole + ":kinds"
	return []runtime.Object{
		&rbacv1.ClusterRole{
			TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
			ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules,
		},
		&rbacv1.ClusterRoleBinding{
			TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRoleBinding"},
			ObjectMeta: metav1.ObjectMeta{Name: name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: statusagent.ServiceAccount, Namespace: statusagent.InstallNamespace}},
		},
	}
}

// standardKinds returns the kinds that every agent may read.
func standardKinds() (map[schema.GroupResource]bool, error) {
	objects, err := manifests("", settings{}, nil)
	if err != nil {
		return nil, err
	}
	kinds := map[schema.GroupResource]bool{}
	for _, obj := range objects {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
		if err != nil {
			return nil, err
		}
		role := &rbacv1.ClusterRole{}
		if content["kind"] != "ClusterRole" {
			continue
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, role); err != nil {
			return nil, err
		}
		for _, rule := range role.Rules {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					kinds[schema.GroupResource{Group: group, Resource: resource}] = true
				}
			}
		}
	}
	return kinds, nil
}
