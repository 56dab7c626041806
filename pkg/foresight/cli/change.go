package cli

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/starlinghq/starling/pkg/core/foresight/forecast"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/foresight"
	"github.com/starlinghq/starling/pkg/spaces"
)

// change makes the change of the flags in the copy of a World. The other one gets what the objects
// are now.
type change struct {
	*planner
	itses         []spaces.Connection
	before, after *forecast.World
	// notes are about objects of the change that have no effect on clusters, and unknown is about
	// those whose effect is not known.
	notes, unknown []string
	// packages are the changes of PackageVariantSets, PackageVariants and Repositories.
	packages []packageChange
}

// packageChange is an object before and after the change, nil where it does not exist.
type packageChange struct {
	resource      schema.GroupResource
	before, after *unstructured.Unstructured
}

func (c *change) note(text string, unknown bool) {
	switch {
	case text == "":
	case unknown:
		c.unknown = append(c.unknown, text)
	default:
		c.notes = append(c.notes, text)
	}
}

func (c *change) make() error {
	if len(c.files.Filenames) > 0 || c.files.Kustomize != "" {
		if err := c.apply(); err != nil {
			return err
		}
	}
	if len(c.deletions) > 0 {
		if err := c.remove(); err != nil {
			return err
		}
	}
	for _, text := range c.labels {
		cluster, key, value, err := parseLabel(text)
		if err != nil {
			return err
		}
		if err := foresight.Label(c.after, cluster, map[string]*string{key: value}); err != nil {
			return err
		}
	}
	return nil
}

// parseLabel parses cluster/NAME=KEY=VALUE or cluster/NAME=KEY-. The value is nil for the latter.
func parseLabel(text string) (cluster, key string, value *string, err error) {
	name, label, found := strings.Cut(strings.TrimPrefix(text, "cluster/"), "=")
	key, set, sets := strings.Cut(label, "=")
	switch {
	case !strings.HasPrefix(text, "cluster/") || !found || name == "" || key == "" || !sets && !strings.HasSuffix(key, "-"):
		return "", "", nil, fmt.Errorf("invalid --label %q: must be cluster/NAME=KEY=VALUE, or cluster/NAME=KEY- to remove the label", text)
	case sets:
		return name, key, &set, nil
	}
	return name, strings.TrimSuffix(key, "-"), nil, nil
}

// apply applies manifests by a dry run. A Namespace or a CustomResourceDefinition that comes with
// them does not exist then, so what is in it or of its kind cannot be tried at the API server: it
// is planned as it is in the file.
func (c *change) apply() error {
	result, factory, err := c.manifests(&c.files)
	if err != nil {
		return err
	}
	return result.Visit(func(info *resource.Info, err error) error {
		if err != nil {
			return err
		}
		if c.isProperties(info.Mapping.Resource.GroupResource(), info.Namespace) {
			return c.applyProperties(info, factory)
		}
		live, merged, err := c.try(info, factory, c.serverSide)
		if err != nil {
			return err
		}
		if gr := info.Mapping.Resource.GroupResource(); foresight.OfPackages(gr) {
			c.packages = append(c.packages, packageChange{gr, live, merged})
			return nil
		}
		if live != nil {
			if _, err := foresight.Set(c.before, info.Mapping.Resource, live); err != nil {
				return err
			}
		}
		note, err := foresight.Set(c.after, info.Mapping.Resource, merged)
		c.note(note, false)
		return err
	})
}

// remove removes the objects of --delete.
func (c *change) remove() error {
	namespace, err := c.namespace()
	if err != nil {
		return err
	}
	ofWDS, err := c.removeProperties(namespace)
	if err != nil || len(ofWDS) == 0 {
		return err
	}
	result := resource.NewBuilder(c.flags).Unstructured().NamespaceParam(namespace).DefaultNamespace().
		ResourceTypeOrNameArgs(false, ofWDS...).Flatten().ContinueOnError().Do()
	if err := result.Err(); err != nil {
		return err
	}
	return result.Visit(func(info *resource.Info, err error) error {
		if err != nil {
			return err
		}
		live, is := info.Object.(*unstructured.Unstructured)
		if gr := info.Mapping.Resource.GroupResource(); is && foresight.OfPackages(gr) {
			c.packages = append(c.packages, packageChange{gr, live, nil})
			return nil
		}
		foresight.Remove(c.after, objref.New(info.Mapping.Resource.GroupResource(), info.Namespace, info.Name))
		return nil
	})
}
