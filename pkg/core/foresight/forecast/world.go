package forecast

import (
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/binding"
	"github.com/starlinghq/starling/pkg/core/customize"
	"github.com/starlinghq/starling/pkg/core/inventory"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/settings"
)

// World is the state of a WDS and of its clusters at one moment. What is in it must not change: a
// change is made to a Clone.
type World struct {
	// Policies are by name. Bindings are by name, of all owners.
	Policies map[string]*controlv1alpha1.BindingPolicy
	Bindings map[string]*controlv1alpha1.Binding
	// Objects are all objects that could be workload, and all Namespaces. Autoscalers are Read, if
	// they can be: how the objects that they scale are applied depends on their content.
	Objects map[objref.Ref]*Object
	// Transforms are the CustomTransforms, by name.
	Transforms map[string]*controlv1alpha1.CustomTransform
	// Clusters are those that an ITS has, by name.
	Clusters map[string]*Cluster
	// Unread are resources whose objects could not be listed. What Bindings list of them stays.
	Unread map[schema.GroupResource]bool
	// UnreadGroups are API groups of which it is not known which resources they have. What Bindings
	// list of those that are not in Objects stays.
	UnreadGroups map[string]bool
	// ClustersUnread: some ITS could not be read, so that a cluster that is not in Clusters may
	// exist.
	ClustersUnread bool
	// Departed says how objects left that are not in Objects any more.
	Departed binding.Departed
	// Settings are those of the controllers, as far as they are known.
	Settings settings.Known
}

// Object is an object of the WDS.
type Object struct {
	// Resource is its resource, in the version in which it is read.
	Resource match.Resource
	// Meta has the metadata, and nothing else unless the content was read.
	Meta *unstructured.Unstructured
	// Read: Meta has the whole object.
	Read bool
}

// Cluster is a cluster of an ITS.
type Cluster struct {
	// ITS is the name of the ITS that it is in; "" if it is Refused.
	ITS    string
	Labels map[string]string
	// Properties are the data of templates; nil if they are not known. Sources are what they are
	// made of besides the labels.
	Properties *customize.Properties
	Sources    *Sources
	// State is what is known of it: it is a destination if it is Accepted. Refused says why it is
	// none, as "is not accepted"; "" if it is one.
	State   inventory.State
	Refused string
	// Unavailable says why the cluster does not get anything now; "" if it does.
	Unavailable string
	// Others are what other sources deliver there: packages, and other WDSes. Only those of objects
	// that Needs returns are necessary.
	Others map[objref.Ref]Other
}

// Sources are what the properties of a cluster are made of, besides its labels.
type Sources struct {
	// Annotations are those of the ManagedCluster, Data is that of the ConfigMap; nil if there is
	// none.
	Annotations, Data map[string]string
}

// Clone returns a World that can be changed: its maps are copies, what is in them is shared.
func (w *World) Clone() *World {
	c := *w
	c.Policies, c.Bindings, c.Objects = maps.Clone(w.Policies), maps.Clone(w.Bindings), maps.Clone(w.Objects)
	c.Transforms, c.Clusters = maps.Clone(w.Transforms), maps.Clone(w.Clusters)
	c.Departed = binding.Departed{Deleted: cloneSet(w.Departed.Deleted), WithOthers: cloneSet(w.Departed.WithOthers)}
	return &c
}

func cloneSet(set map[objref.Ref]bool) map[objref.Ref]bool {
	c := maps.Clone(set)
	if c == nil {
		c = map[objref.Ref]bool{}
	}
	return c
}

var (
	namespaces  = schema.GroupResource{Resource: "namespaces"}
	definitions = schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}
)

// Delete removes an object, and with it those in its Namespace or of its kind.
func (w *World) Delete(ref objref.Ref) {
	if w.Objects[ref] == nil {
		return
	}
	delete(w.Objects, ref)
	w.Departed.Deleted[ref] = true
	for other := range w.Objects {
		inIt := ref.GroupResource() == namespaces && other.Namespace == ref.Name
		ofIt := ref.GroupResource() == definitions && other.GroupResource() == schema.ParseGroupResource(ref.Name)
		if inIt || ofIt {
			delete(w.Objects, other)
			w.Departed.WithOthers[other] = true
		}
	}
}

// unread reports whether the WDS may have objects of a resource that are not in Objects: they could
// not be listed, or are no workload, and only a Binding that a user wrote lists them.
func (w *World) unread(gr schema.GroupResource) bool {
	return w.Unread[gr] || w.UnreadGroups[gr.Group] || match.NeverResource(gr)
}

// properties returns the data of templates for a cluster, nil if they are not known.
func (w *World) properties(cluster string) *customize.Properties {
	if c := w.Clusters[cluster]; c != nil {
		return c.Properties
	}
	return nil
}
