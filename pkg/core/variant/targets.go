package variant

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	configv1alpha2 "github.com/starlinghq/starling/api/config/v1alpha2"
)

// Metadata is all that is known of an object here. Whoever is given one must not change it.
type Metadata struct {
	Name, Namespace     string
	Labels, Annotations map[string]string
}

// Repository is what is known of a Repository.
type Repository struct {
	Metadata
	// Detached tells that it is that of a cluster which left; what is kept in it stays.
	Detached bool
}

// ErrNotServed is why objects cannot be listed if there is no such kind.
var ErrNotServed = errors.New("the kind is not served")

// Objects lists the objects of a kind in the namespace of the set, or of a kind without namespaces. It returns ErrNotServed, or another
// error if they cannot be read; then nothing is known of them.
type Objects func(apiVersion, kind string) ([]Metadata, error)

// Target is one thing that a PackageVariant is to be made for.
type Target struct {
	// Spec is the index in spec.targets, Entry that in its list of repositories, -1 with selectors.
	Spec, Entry int
	// Repository and Package are the defaults.
	Repository, Package string
	// Object is what was selected; nil with a list.
	Object *Metadata
}

// String names the target by its field and what stands there.
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

// unroll returns the targets of a valid set, those of selectors in the order of names, and the entries of spec.targets that could not be
// read. Of these it is not known what they select.
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
