package variantsets

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	configv1alpha2 "github.com/starlinghq/starling/api/config/v1alpha2"
	"github.com/starlinghq/starling/pkg/core/packages/variant"
)

// interest is what a set depends on: only changes of that requeue it.
type interest struct {
	upstream variant.Package
	// kinds are those of objectSelectors.
	kinds map[schema.GroupKind][]selector
	// repositories are those of repositorySelectors, named those of lists. any reports whether any
	// Repository may be requested by its name.
	repositories []labels.Selector
	named        map[string]bool
	any          bool
}

type selector struct {
	labels labels.Selector
	name   string
}

// interestOf returns what a set depends on. Invalid parts of the set are ignored.
func interestOf(spec *configv1alpha2.PackageVariantSetSpec) *interest {
	i := &interest{kinds: map[schema.GroupKind][]selector{}, named: map[string]bool{}}
	if up := spec.Upstream; up != nil {
		i.upstream = variant.Package{Repository: up.Repo, Name: up.Package}
	}
	for n := range spec.Targets {
		t := &spec.Targets[n]
		if t.Template != nil && t.Template.Downstream != nil {
			d := t.Template.Downstream
			i.any = i.any || d.RepoExpr != nil
			if d.Repo != nil {
				i.named[*d.Repo] = true
			}
		}
		for r := range t.Repositories {
			i.named[t.Repositories[r].Name] = true
		}
		if s := t.RepositorySelector; s != nil {
			if compiled, err := metav1.LabelSelectorAsSelector(&s.LabelSelector); err == nil {
				i.repositories = append(i.repositories, compiled)
			}
		}
		if s := t.ObjectSelector; s != nil {
			compiled, err := metav1.LabelSelectorAsSelector(&s.LabelSelector)
			group, groupErr := schema.ParseGroupVersion(s.APIVersion)
			if err != nil || groupErr != nil {
				continue
			}
			kind := schema.GroupKind{Group: group.Group, Kind: s.Kind}
			i.kinds[kind] = append(i.kinds[kind], selector{compiled, s.Name})
			i.any = true // the Repositories are named like the objects
		}
	}
	return i
}

// selects reports whether an object of a kind is selected.
func (i *interest) selects(kind schema.GroupKind, m *variant.Metadata) bool {
	if m == nil {
		return false
	}
	for _, s := range i.kinds[kind] {
		if (s.name == "" || s.name == m.Name) && s.labels.Matches(labels.Set(m.Labels)) {
			return true
		}
	}
	return false
}

// asksFor reports whether a Repository is selected, or may be requested by its name.
func (i *interest) asksFor(r *configv1alpha1.Repository) bool {
	if r == nil {
		return false
	}
	if i.any || i.named[r.Name] {
		return true
	}
	for _, s := range i.repositories {
		if s.Matches(labels.Set(r.Labels)) {
			return true
		}
	}
	return false
}
