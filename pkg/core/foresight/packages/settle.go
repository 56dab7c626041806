package packages

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	configv1alpha2 "github.com/starlinghq/starling/api/config/v1alpha2"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	packagebinding "github.com/starlinghq/starling/pkg/core/packages/binding"
	"github.com/starlinghq/starling/pkg/core/packages/variant"
)

// settled is what the controllers of Repositories and PackageVariantSets make of a State.
type settled struct {
	*State
	*index
	repositories map[string]*configv1alpha1.Repository
	// variants are the PackageVariants that there are in the end, and gone those that are deleted.
	variants, gone map[string]*configv1alpha1.PackageVariant
	plans          map[string]*variant.SetPlan
	// unknown says of sets why it is not known what they select, by name.
	unknown map[string]string
	// uids are those of the PackageVariants that there are in the end.
	uids map[types.UID]bool
}

// maxRounds bounds how often all sets are planned. Two are enough unless a set takes what another
// one releases.
const maxRounds = 5

func (s *State) settle(ctx context.Context) *settled {
	of := &settled{
		State: s, index: s.index(), repositories: map[string]*configv1alpha1.Repository{},
		variants: maps.Clone(s.Variants), gone: map[string]*configv1alpha1.PackageVariant{}, plans: map[string]*variant.SetPlan{},
		unknown: map[string]string{}, uids: map[types.UID]bool{},
	}
	for name, r := range s.Repositories {
		of.repositories[name] = s.relabelled(r)
	}
	for name, pv := range of.variants {
		if pv.DeletionTimestamp != nil || s.orphaned(pv) {
			of.delete(name)
		}
	}
	for range maxRounds {
		wrote := false
		for _, name := range slices.Sorted(maps.Keys(s.Sets)) {
			wrote = of.plan(ctx, s.Sets[name]) || wrote
		}
		if !wrote {
			break
		}
	}
	for _, pv := range of.variants {
		of.uids[pv.UID] = true
	}
	return of
}

// relabelled returns a Repository with the labels and the conditions that its cluster gives it.
func (s *State) relabelled(r *configv1alpha1.Repository) *configv1alpha1.Repository {
	in := packagebinding.RepositoryInput{Namespace: r.Namespace, Name: r.Name, Cluster: s.World.State(r.Name), Stored: r}
	if c := s.World.Clusters[r.Name]; c != nil {
		in.Labels = c.Labels
	}
	plan := packagebinding.PlanRepository(&in)
	if plan.Update != nil {
		r = plan.Update
	}
	if plan.UpdateStatus != nil {
		r = r.DeepCopy()
		r.Status = *plan.UpdateStatus
	}
	return r
}

// orphaned reports whether the set that controls a PackageVariant does not exist: then the garbage
// collector deletes it.
func (s *State) orphaned(pv *configv1alpha1.PackageVariant) bool {
	owner := metav1.GetControllerOfNoCopy(pv)
	if owner == nil || owner.Kind != "PackageVariantSet" {
		return false
	}
	set := s.Sets[owner.Name]
	return set == nil || set.UID != owner.UID || set.DeletionTimestamp != nil
}

func (s *settled) delete(name string) {
	s.gone[name] = s.variants[name]
	delete(s.variants, name)
}

// plan plans a set, carries the plan out, and reports whether that changed a PackageVariant.
func (s *settled) plan(ctx context.Context, set *configv1alpha2.PackageVariantSet) (wrote bool) {
	if set.DeletionTimestamp != nil {
		return false
	}
	in := &variant.SetInput{
		Set: set, Variants: slices.Collect(maps.Values(s.variants)),
		HasRevisions: func(pkg variant.Package) bool { return len(s.byPackage[pkg]) > 0 },
	}
	in.Objects = func(apiVersion, kind string) ([]variant.Metadata, error) {
		found, err := s.objects(apiVersion, kind)
		if err != nil && !errors.Is(err, variant.ErrNotServed) {
			s.unknown[set.Name] = fmt.Sprintf("which objects it selects: %s %s: %v", apiVersion, kind, err)
		}
		return found, err
	}
	if in.Invalid = variant.ValidateSet(&set.Spec); len(in.Invalid) == 0 {
		in.Compiled, in.Invalid = variant.Compile(&set.Spec)
	}
	if len(in.Invalid) == 0 {
		up := set.Spec.Upstream
		found, err := variant.FindUpstream(up, s.byPackage[variant.Package{Repository: up.Repo, Name: up.Package}])
		if err != nil {
			in.UpstreamErr = err
		} else {
			in.Upstream = variant.MetadataOf(found)
		}
		for _, name := range slices.Sorted(maps.Keys(s.repositories)) {
			r := s.repositories[name]
			in.Repositories = append(in.Repositories, variant.Repository{Metadata: *variant.MetadataOf(r), Detached: variant.Left(r, s.World.State(name))})
		}
	}
	plan := variant.PlanSet(ctx, in)
	s.plans[set.Name] = plan
	for _, pv := range slices.Concat(plan.Create, plan.Update) {
		s.variants[pv.Name] = pv
	}
	for _, pv := range plan.Delete {
		s.delete(pv.Name)
	}
	return len(plan.Create)+len(plan.Update)+len(plan.Delete) > 0
}

// steps returns the next steps for a PackageVariant, or what its deletion does to its packages.
func (s *settled) steps(name string) *variant.Plan {
	pv := s.variants[name]
	if pv == nil {
		pv = s.gone[name].DeepCopy()
		if !slices.Contains(pv.Finalizers, configv1alpha1.PackageVariantFinalizer) {
			return &variant.Plan{} // it is deleted at once
		}
		if pv.DeletionTimestamp == nil {
			pv.DeletionTimestamp = &metav1.Time{}
		}
	}
	in := &variant.Input{
		Variant:     pv,
		Self:        s.World.Settings.Bindings.PackagesUser,
		Origin:      func(lock variant.Lock) *storev1alpha1.PackageRevision { return s.byLock[lock] },
		OwnerExists: func(uid types.UID) bool { return s.uids[uid] },
		// Of objects that may be injected, nothing is known: in both States alike.
		Version: func(configv1alpha1.InjectedObject) string { return "" },
	}
	if up := pv.Spec.Upstream; up != nil {
		in.Upstreams = s.byPackage[variant.Package{Repository: up.Repo, Name: up.Package}]
	}
	if down := pv.Spec.Downstream; down != nil {
		in.Downstreams = slices.Clone(s.byPackage[variant.Package{Repository: down.Repo, Name: down.Package}])
		repository := s.repositories[down.Repo]
		in.HasRepository = repository != nil && repository.DeletionTimestamp == nil
	}
	for _, r := range s.ownedBy(pv) {
		if !slices.Contains(in.Downstreams, r) {
			in.Downstreams = append(in.Downstreams, r)
		}
	}
	return variant.PlanVariant(in)
}
