package destinations

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	workv1 "open-cluster-management.io/api/work/v1"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	pkgv1beta1 "github.com/starlinghq/starling/api/pkg/v1beta1"
	"github.com/starlinghq/starling/pkg/client"
	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/pkg/core/destination"
	"github.com/starlinghq/starling/pkg/core/objref"
	corestatus "github.com/starlinghq/starling/pkg/core/status"
	"github.com/starlinghq/starling/pkg/core/transaction"
)

// inITS is what an ITS has of clusters, by cluster.
type inITS struct {
	*ITS
	name    string
	mutex   sync.Mutex
	stored  map[string]map[string][]string
	foreign map[string][]destination.Foreign
	locks   map[string]*pkgv1beta1.Lock
	// properties are those of the ConfigMap of each cluster.
	properties map[string]map[string]string
	// withoutLocks: the ITS does not serve Locks.
	withoutLocks bool
	// beside is the name of the Binding of a package that is validated. Then what other Bindings of
	// the same space deliver is foreign too.
	beside string
}

func newInITS(name string, its *ITS) *inITS {
	return &inITS{
		ITS: its, name: name, stored: map[string]map[string][]string{}, foreign: map[string][]destination.Foreign{}, locks: map[string]*pkgv1beta1.Lock{},
	}
}

// addTo completes a cluster of the ITS.
func (i *inITS) addTo(c *destination.Cluster, space types.UID) {
	c.Stored, c.Foreign = i.stored[c.Name], i.foreign[c.Name]
	c.Packages = destination.ForeignPackages(i.locks[c.Name], space)
}

// readITSes reads all ITSes, at once.
func (d *Destinations) readITSes(ctx context.Context, g *gathered) error {
	g.its = map[string]*inITS{}
	group, ctx := errgroup.WithContext(ctx)
	for name, its := range d.ITSes {
		in := newInITS(name, its)
		g.its[name] = in
		group.Go(func() error {
			err := in.read(ctx, d.WDSUID, g.input, "")
			if err == nil && g.varies {
				err = in.readProperties(ctx)
			}
			return in.failed(ctx, err)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for name, in := range g.its {
		if in.withoutLocks {
			g.warnings = append(g.warnings, fmt.Sprintf("space %s does not serve Locks of pkg.crossplane.io: which packages other workload definition spaces have on its clusters is not known", name))
		}
	}
	return nil
}

// failed returns an error of the ITS, which may be nil. One that is no answer is an outage, unless
// the time of the caller is over.
func (i *inITS) failed(ctx context.Context, err error) error {
	var answer apierrors.APIStatus
	switch {
	case err == nil:
		return nil
	case errors.As(err, &answer), ctx.Err() != nil:
		return fmt.Errorf("space %s: %w", i.name, err)
	}
	return &transaction.OutageError{What: "space " + i.name, Err: err}
}

// read reads what is known of all clusters, or of one.
func (i *inITS) read(ctx context.Context, space types.UID, in *destination.Input, cluster string) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	group.Go(func() error { return i.readLocks(ctx, cluster) })
	if len(in.Changes) > 0 {
		group.Go(func() error { return i.readWorks(ctx, space, in, cluster) })
	}
	var before []string
	for n := range in.Changes {
		if crd := in.Changes[n].Before; crd != nil {
			before = append(before, crd.Name)
		}
	}
	for _, selector := range reportSelectors(before) {
		group.Go(func() error { return i.readReports(ctx, before, selector, cluster) })
	}
	return group.Wait()
}

func (i *inITS) readLocks(ctx context.Context, cluster string) error {
	options := metav1.ListOptions{}
	if cluster != "" {
		options.FieldSelector = "metadata.name=" + cluster
	}
	list, err := i.ITS.locks.Locks().List(ctx, options)
	if apierrors.IsNotFound(err) {
		i.withoutLocks = true
		return nil
	} else if err != nil {
		return fmt.Errorf("list Locks: %w", err)
	}
	for n := range list.Items {
		i.locks[list.Items[n].Name] = &list.Items[n]
	}
	return nil
}

// readProperties reads the properties that templates use, as the transport does.
func (i *inITS) readProperties(ctx context.Context) error {
	i.properties = map[string]map[string]string{}
	err := client.EachItem(ctx, i.configMaps.ConfigMaps(controlv1alpha1.PropertiesNamespace).List, metav1.ListOptions{}, func(m *corev1.ConfigMap) error {
		i.properties[m.Name] = clusters.PropertiesIn(m)
		return nil
	})
	if err != nil {
		return fmt.Errorf("list ConfigMaps with properties of clusters: %w", err)
	}
	return nil
}

// fewReports is the number of CRDs up to which the reports on each are read by themselves: the
// server looks at all reports for each request. Those on more are found in one list of all.
const fewReports = 5

// reportSelectors returns the field selectors of the lists in which the reports on these CRDs are.
// The report on an object has the same name in each mailbox.
func reportSelectors(crds []string) []string {
	if len(crds) > fewReports {
		return []string{""}
	}
	var selectors []string
	for _, crd := range crds {
		selectors = append(selectors, "metadata.name="+corestatus.ReportName(refOf(crd)))
	}
	return selectors
}

// readReports reads which versions of CRDs clusters store.
func (i *inITS) readReports(ctx context.Context, crds []string, selector, cluster string) error {
	wanted := map[string]bool{}
	for _, crd := range crds {
		wanted[crd] = true
	}
	_, err := i.control.ListWorkStatuses(ctx, metav1.ListOptions{FieldSelector: selector}, func(ws *controlv1alpha1.WorkStatus) {
		source := &ws.Spec.SourceRef
		if ws.Status == nil || source.Resource != definitions.Resource || !wanted[source.Name] || ws.Name != corestatus.ReportName(refOf(source.Name)) ||
			cluster != "" && ws.Namespace != cluster {
			return
		}
		status := struct {
			StoredVersions []string `json:"storedVersions"`
		}{}
		if json.Unmarshal(ws.Status.Raw, &status) != nil || len(status.StoredVersions) == 0 {
			return
		}
		i.mutex.Lock()
		defer i.mutex.Unlock()
		if i.stored[ws.Namespace] == nil {
			i.stored[ws.Namespace] = map[string][]string{}
		}
		i.stored[ws.Namespace][source.Name] = status.StoredVersions
	})
	if apierrors.IsNotFound(err) {
		return nil // nothing reports in this ITS
	} else if err != nil {
		return fmt.Errorf("list WorkStatuses of CustomResourceDefinitions: %w", err)
	}
	return nil
}

// workPage is how many works are read at once: each may be large.
const workPage = 100

var works = workv1.SchemeGroupVersion.WithResource("manifestworks")

// readWorks reads what other spaces deliver of the CRDs that change, and of their kinds.
func (i *inITS) readWorks(ctx context.Context, space types.UID, in *destination.Input, cluster string) error {
	options := metav1.ListOptions{
		Limit: workPage, LabelSelector: controlv1alpha1.LabelWDSUID + "," + controlv1alpha1.LabelWDSUID + "!=" + string(space),
	}
	if i.beside != "" {
		options.LabelSelector = controlv1alpha1.LabelWDSUID
	}
	err := client.EachItem(ctx, i.objects.Resource(works).Namespace(cluster).List, options, func(work *unstructured.Unstructured) error {
		return i.addWork(space, work, in)
	})
	if err != nil {
		return fmt.Errorf("list ManifestWorks: %w", err)
	}
	return nil
}

func (i *inITS) addWork(space types.UID, o *unstructured.Unstructured, in *destination.Input) error {
	work := &workv1.ManifestWork{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, work); err != nil {
		return fmt.Errorf("decode ManifestWork %s/%s: %w", o.GetNamespace(), o.GetName(), err)
	}
	own := work.Labels[controlv1alpha1.LabelWDSUID] == string(space)
	from := destination.Foreign{Space: work.Labels[controlv1alpha1.LabelWDSName], Binding: work.Annotations[controlv1alpha1.AnnotationBinding]}
	if own {
		from.Space = ""
	}
	if work.DeletionTimestamp != nil || own && from.Binding == i.beside {
		return nil
	}
	for n := range work.Spec.Workload.Manifests {
		content := &unstructured.Unstructured{}
		if json.Unmarshal(work.Spec.Workload.Manifests[n].Raw, &content.Object) != nil {
			continue // no cluster applies it
		}
		ref, concerns := concerned(content, in)
		if !concerns || claims(work, ref) {
			continue
		}
		object, err := destination.NewObject(ref, normalized(content))
		if err != nil {
			continue // no cluster applies it
		}
		from.Object = object
		i.foreign[work.Namespace] = append(i.foreign[work.Namespace], from)
	}
	return nil
}

// normalized returns an object with the number types that schemas are checked with.
func normalized(o *unstructured.Unstructured) *unstructured.Unstructured {
	decoded := &unstructured.Unstructured{}
	raw, err := o.MarshalJSON()
	if err != nil || decoded.UnmarshalJSON(raw) != nil {
		return o
	}
	return decoded
}

// concerned returns the identity of a CRD that changes, or of a custom resource of one.
func concerned(o *unstructured.Unstructured, in *destination.Input) (objref.Ref, bool) {
	gvk := o.GroupVersionKind()
	for n := range in.Changes {
		c := &in.Changes[n]
		crd := c.After
		if crd == nil {
			crd = c.Before
		}
		switch {
		case gvk.Group == definitions.Group && gvk.Kind == definitionKind && o.GetName() == crd.Name:
			return refOf(crd.Name), true
		case gvk.Group == crd.Spec.Group && gvk.Kind == crd.Spec.Names.Kind:
			return objref.New(resourceOf(c), o.GetNamespace(), o.GetName()), true
		}
	}
	return objref.Ref{}, false
}

// claims reports whether a work only claims an object, and applies nothing.
func claims(work *workv1.ManifestWork, ref objref.Ref) bool {
	for n := range work.Spec.ManifestConfigs {
		c := &work.Spec.ManifestConfigs[n]
		if id := c.ResourceIdentifier; id.Group == ref.Group && id.Resource == ref.Resource && id.Namespace == ref.Namespace && id.Name == ref.Name {
			return c.UpdateStrategy != nil && c.UpdateStrategy.Type == workv1.UpdateStrategyTypeReadOnly
		}
	}
	return false
}
