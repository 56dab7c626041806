package install

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	"github.com/starlinghq/starling/pkg/client"
	"github.com/starlinghq/starling/pkg/core/text"
	"github.com/starlinghq/starling/pkg/core/transaction"
)

// Loss is what the removal of a package would delete.
type Loss struct {
	// Objects are the objects of the package.
	Objects []string
	// InUse are CustomResourceDefinitions of which objects exist, with their number.
	InUse []string
	// Users are these objects, if their deletion is allowed.
	Users []string
	// Stuck are those that have finalizers, with the command that removes them: nothing
	// in the space does.
	Stuck []string
}

// Loss returns what Remove would delete.
func (i *Installer) Loss(ctx context.Context, r Removal) (Loss, error) {
	var loss Loss
	revisions, err := i.Revisions(ctx, r.Kind, r.Name)
	if err != nil {
		return loss, err
	}
	var mutex sync.Mutex
	err = i.eachOf(ctx, revisions, func(ctx context.Context, resource schema.GroupVersionResource, live *unstructured.Unstructured) error {
		use, err := i.use(ctx, resource, live)
		var users, stuck []string
		if use != "" && err == nil && r.AllowDeletion {
			users, stuck, err = i.users(ctx, live)
		}
		mutex.Lock()
		defer mutex.Unlock()
		loss.Objects = append(loss.Objects, live.GroupVersionKind().GroupKind().String()+"/"+live.GetName())
		if use != "" {
			loss.InUse = append(loss.InUse, use)
		}
		loss.Users, loss.Stuck = append(loss.Users, users...), append(loss.Stuck, stuck...)
		return err
	})
	slices.Sort(loss.Objects)
	slices.Sort(loss.InUse)
	slices.Sort(loss.Users)
	slices.Sort(loss.Stuck)
	return loss, err
}

// users returns the objects of a CustomResourceDefinition, and of those whose deletion would not
// end the commands that mend that.
func (i *Installer) users(ctx context.Context, crd *unstructured.Unstructured) (names, commands []string, err error) {
	instances, served := instancesOf(crd)
	if !served {
		return nil, nil, nil
	}
	err = client.EachItem(ctx, i.Live.Metadata.Resource(instances).List, metav1.ListOptions{}, func(o *metav1.PartialObjectMetadata) error {
		names = append(names, instances.GroupResource().String()+" "+strings.TrimPrefix(o.Namespace+"/"+o.Name, "/"))
		finalizers := slices.DeleteFunc(slices.Clone(o.Finalizers), func(f string) bool { // the garbage collector removes these
			return f == metav1.FinalizerOrphanDependents || f == metav1.FinalizerDeleteDependents
		})
		if len(finalizers) == 0 {
			return nil
		}
		in := ""
		if o.Namespace != "" {
			in = " --namespace " + o.Namespace
		}
		commands = append(commands, fmt.Sprintf(`kubectl patch %s %s%s --type=merge -p '{"metadata":{"finalizers":null}}'`, instances.GroupResource(), o.Name, in))
		return nil
	})
	if apierrors.IsNotFound(err) {
		return nil, nil, nil
	}
	return names, commands, err
}

// instancesOf returns the resource of the objects of a CustomResourceDefinition, and whether one is
// served.
func instancesOf(crd *unstructured.Unstructured) (resource schema.GroupVersionResource, served bool) {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "plural")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, item := range versions {
		version, _ := item.(map[string]any)
		if served, _ := version["served"].(bool); served {
			return schema.GroupVersionResource{Group: group, Version: fmt.Sprint(version["name"]), Resource: plural}, true
		}
	}
	return resource, false
}

// use returns how many objects of a CustomResourceDefinition exist, as a text; "" if none or if it
// is something else.
func (i *Installer) use(ctx context.Context, resource schema.GroupVersionResource, crd *unstructured.Unstructured) (string, error) {
	if resource != definitions {
		return "", nil
	}
	instances, served := instancesOf(crd)
	if !served {
		return "", nil
	}
	list, err := i.Objects.Resource(instances).List(ctx, metav1.ListOptions{Limit: 1})
	switch {
	case apierrors.IsNotFound(err): // it is not established
		return "", nil
	case err != nil:
		return "", fmt.Errorf("list %s: %w", instances.GroupResource(), err)
	case len(list.Items) == 0:
		return "", nil
	}
	count := int64(len(list.Items))
	if more := list.GetRemainingItemCount(); more != nil {
		count += *more
	}
	return text.Count(count, "object") + " of " + crd.GetName(), nil
}

// inUse is why a package is not removed.
func inUse(name string, use []string) error {
	return &transaction.FailedError{
		Reason: pkgv1alpha1.ReasonResourcesInUse,
		Message: fmt.Sprintf("the deletion of package %s would delete %s: delete them first, or allow it with the annotation %s: \"true\" on the package",
			name, text.List(use, 10), pkgv1.AnnotationAllowDeletion),
	}
}

// CheckRemoval returns a *transaction.FailedError with reason ResourcesInUse if objects of
// CustomResourceDefinitions would be deleted, and that is not allowed, or would not end. That is
// said before anything is deleted.
func CheckRemoval(r Removal, loss Loss) error {
	switch {
	case !r.AllowDeletion && len(loss.InUse) > 0:
		return inUse(r.Name, loss.InUse)
	case len(loss.Stuck) > 0:
		return &transaction.FailedError{
			Reason: pkgv1alpha1.ReasonResourcesInUse,
			Message: fmt.Sprintf("the deletion of package %s would delete %s, of which %s finalizers that nothing in a workload definition space removes, so it would not end. "+
				"Delete these objects first. If what their finalizers wait for is done, remove them: %s",
				r.Name, text.List(loss.InUse, 10), text.Plural(len(loss.Stuck), "1 has", fmt.Sprintf("%d have", len(loss.Stuck))), text.Join(loss.Stuck, "; ", 5)),
		}
	}
	return nil
}
