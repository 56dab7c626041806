package cli

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/rest"
	"k8s.io/kubectl/pkg/util/openapi"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/pkg/foresight"
	"github.com/starlinghq/starling/pkg/spaces"
)

var configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")

// isProperties reports whether an object is the ConfigMap with the properties of a cluster. These
// are in ITSes: if none is known, such a ConfigMap is an object of the WDS as any other.
func (c *change) isProperties(gr schema.GroupResource, namespace string) bool {
	return gr == configMaps.GroupResource() && namespace == controlv1alpha1.PropertiesNamespace && len(c.itses) > 0
}

// applyProperties applies the ConfigMap of a cluster by a dry run in the ITS of the cluster.
func (c *change) applyProperties(info *resource.Info, schemas openapi.OpenAPIResourcesGetter) error {
	its, known := c.itsOf(info.Name)
	if !known {
		c.note(foresight.SetProperties(c.after, info.Name, nil))
		return nil
	}
	client, err := coreClient(its)
	if err != nil {
		return err
	}
	info.Client = client
	live, merged, err := c.try(info, schemas, c.serverSide)
	if err != nil {
		return fmt.Errorf("ITS %s: %w", its.Name, err)
	}
	if live != nil {
		data, err := propertiesIn(live)
		if err != nil {
			return err
		}
		foresight.SetProperties(c.before, info.Name, data)
	}
	data, err := propertiesIn(merged)
	if err != nil {
		return err
	}
	c.note(foresight.SetProperties(c.after, info.Name, data))
	return nil
}

// itsOf returns the ITS that a cluster is in.
func (c *change) itsOf(cluster string) (its spaces.Connection, known bool) {
	of := c.after.Clusters[cluster]
	if of == nil {
		return its, false
	}
	i := slices.IndexFunc(c.itses, func(its spaces.Connection) bool { return its.Name == of.ITS })
	if i < 0 {
		return its, false
	}
	return c.itses[i], true
}

func coreClient(its spaces.Connection) (rest.Interface, error) {
	config := rest.CopyConfig(its.Config)
	config.APIPath, config.GroupVersion = "/api", &corev1.SchemeGroupVersion
	config.NegotiatedSerializer = resource.UnstructuredPlusDefaultContentConfig().NegotiatedSerializer
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("build client for ITS %q: %w", its.Name, err)
	}
	return client, nil
}

func propertiesIn(o *unstructured.Unstructured) (map[string]string, error) {
	m := &corev1.ConfigMap{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, m); err != nil {
		return nil, fmt.Errorf("read ConfigMap %q: %w", o.GetName(), err)
	}
	return clusters.PropertiesIn(m), nil
}

// removeProperties removes the ConfigMaps of clusters, and returns the other deletions.
func (c *change) removeProperties(namespace string) (others []string, err error) {
	if namespace != controlv1alpha1.PropertiesNamespace {
		return c.deletions, nil
	}
	mapper, err := c.flags.ToRESTMapper()
	if err != nil {
		return nil, err
	}
	for _, text := range c.deletions {
		kind, cluster, _ := strings.Cut(text, "/")
		_, gr := schema.ParseResourceArg(strings.ToLower(kind))
		found, err := mapper.ResourceFor(gr.WithVersion(""))
		if err != nil || !c.isProperties(found.GroupResource(), namespace) {
			others = append(others, text) // what is wrong with it is said by who reads it
			continue
		}
		if of := c.after.Clusters[cluster]; of != nil && of.Sources != nil && of.Sources.Data == nil {
			return nil, fmt.Errorf("configmaps %q not found in namespace %s of ITS %s", cluster, namespace, of.ITS)
		}
		c.note(foresight.SetProperties(c.after, cluster, nil))
	}
	return others, nil
}
