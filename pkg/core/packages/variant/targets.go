package variant

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	configv1alpha2 "github.com/starlinghq/starling/api/config/v1alpha2"
	"github.com/starlinghq/starling/pkg/core/inventory"
)

// Metadata is the part of an object that expressions and selectors can read. It must not be
// changed.
type Metadata struct {
	Name, Namespace     string
	Labels, Annotations map[string]string
}

// MetadataOf returns the Metadata of an object, nil if there is none.
func MetadataOf(obj metav1.Object) *Metadata {
	if obj == nil {
		return nil
	}
	return &Metadata{Name: obj.GetName(), Namespace: obj.GetNamespace(), Labels: obj.GetLabels(), Annotations: obj.GetAnnotations()}
}

// Left reports whether a Repository is that of a cluster that left, even if its condition does not
// say so yet. The argument cluster is the state of the cluster of its name.
func Left(r *configv1alpha1.Repository, cluster inventory.State) bool {
	return r.Detached() || r.OfCluster() && cluster != inventory.Accepted
}

// Repository is the part of a Repository that planning needs.
type Repository struct {
	Metadata
	// Detached is true if the Repository belongs to a cluster that no longer exists. Its
	// PackageVariants are not deleted.
	Detached bool
}

// ErrNotServed is the error of Objects if the API server does not serve the kind.
var ErrNotServed = errors.New("the kind is not served")

// Objects lists the objects of a kind in the namespace of the set, or of a cluster-scoped kind. It
// returns ErrNotServed, or another error if the objects cannot be read and are therefore unknown.
type Objects func(apiVersion, kind string) ([]Metadata, error)

// Target is one repository or object for which a PackageVariant is wanted.
type Target struct {
	// Spec is the index in spec.targets. Entry is the index in its list of repositories, or -1 if
	// the target has a selector.
	Spec, Entry int
	// Repository and Package are the defaults.
	Repository, Package string
	// Object is the selected object; nil if the target is in a list.
	Object *Metadata
}

// String returns the field of the target, its repository and its package.
func (t *Target) String() string {
	at := fmt.Sprintf("spec.targets[%d]", t.Spec)
	if t.Entry >= 0 {
		at += fmt.Sprintf(".repositories[%d]", t.Entry)
	}
	return fmt.Sprintf("%s: %s/%s", at, t.Repository, t.Package)
}

// unreadable is an entry of spec.targets whose objects could not be listed.
type unreadable struct {
	spec int
	err  error
}

// unroll returns the targets of a valid set, and the entries of spec.targets whose targets are
// unknown because their objects could not be listed. Targets of selectors are sorted by name.
func unroll(spec *configv1alpha2.PackageVariantSetSpec, repositories []Repository, objects Objects) ([]Target, []unreadable) {
	var all []Target
	var failed []unreadable
	upstream := spec.Upstream.Package
	for i := range spec.Targets {
		t := &spec.Targets[i]
		selected := func(s *metav1.LabelSelector, name string, packageNames []string, objects []Metadata) {
			// It was validated, so there is no error.
			selector, err := metav1.LabelSelectorAsSelector(s)
			if err != nil {
				failed = append(failed, unreadable{i, err})
				return
			}
			first := len(all)
			for j := range objects {
				o := &objects[j]
				if name != "" && o.Name != name || !selector.Matches(labels.Set(o.Labels)) {
					continue
				}
				for _, p := range packageNamesOf(packageNames, t.PackageNames, upstream) {
					all = append(all, Target{i, -1, o.Name, p, o})
				}
			}
			slices.SortStableFunc(all[first:], func(a, b Target) int { return cmp.Compare(a.Repository, b.Repository) })
		}
		switch {
		case t.RepositorySelector != nil:
			s := t.RepositorySelector
			of := make([]Metadata, len(repositories))
			for j := range repositories {
				of[j] = repositories[j].Metadata
			}
			selected(&s.LabelSelector, "", s.PackageNames, of)
		case t.ObjectSelector != nil:
			s := t.ObjectSelector
			of, err := objects(s.APIVersion, s.Kind)
			if err != nil {
				failed = append(failed, unreadable{i, fmt.Errorf("%s %s: %w", s.APIVersion, s.Kind, err)})
				continue
			}
			selected(&s.LabelSelector, s.Name, s.PackageNames, of)
		default:
			for j := range t.Repositories {
				r := &t.Repositories[j]
				for _, p := range packageNamesOf(r.PackageNames, t.PackageNames, upstream) {
					all = append(all, Target{i, j, r.Name, p, nil})
				}
			}
		}
	}
	return all, failed
}

func packageNamesOf(own, common []string, upstream string) []string {
	switch {
	case len(own) > 0:
		return own
	case len(common) > 0:
		return common
	}
	return []string{upstream}
}

func targetNames(targets []*Target) []string {
	names := make([]string, 0, len(targets))
	for _, t := range targets {
		names = append(names, t.String())
	}
	return names
}
