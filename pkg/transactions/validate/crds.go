// Package validate checks the CustomResourceDefinitions of a proposal against those and the objects
// of a WDS. It reads only what the proposal changes.
package validate

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/crdcheck"
	"github.com/starlinghq/starling/pkg/core/transaction"
	"github.com/starlinghq/starling/pkg/transactions/live"
	"github.com/starlinghq/starling/pkg/transactions/propose"
)

// CRDs checks CustomResourceDefinitions.
type CRDs struct {
	Objects   dynamic.Interface
	Discovery discovery.DiscoveryInterface
	// Parallel is how many CustomResourceDefinitions are read at the same time.
	Parallel int
}

// pageSize is how many objects are read at once.
const pageSize = 500

// Validate returns the warnings about a proposal. The error is a *transaction.FailedError if the
// proposal would break something.
func (v *CRDs) Validate(ctx context.Context, tx *pkgv1alpha1.Transaction, proposal *propose.Proposal) ([]string, error) {
	in := &crdcheck.Input{
		Objects: v.instances, MayTake: mayTake(proposal), Accepted: crdcheck.Accepted(tx.Annotations[pkgv1.AnnotationAllowBreakingCRDs]),
	}
	var err error
	if in.Deliveries, err = deliveries(proposal); err != nil {
		return nil, err
	}
	if proposal.Revision != nil {
		return revision(ctx, in)
	}
	replaced := replacedCRDs(proposal)
	live, err := v.read(ctx, proposal.Definitions, slices.Concat(names(in.Deliveries), replaced))
	if err != nil {
		return nil, err
	}
	proposal.Unchanged = map[string]bool{}
	for n := range in.Deliveries {
		d := &in.Deliveries[n]
		old := live[d.CRD.Name]
		d.Unchanged = old != nil && crdcheck.Hash(old) == crdcheck.Hash(d.CRD)
		proposal.Unchanged[d.CRD.Name] = d.Unchanged
		if !d.Unchanged {
			in.Updates = append(in.Updates, crdcheck.Update{Old: old, New: d.CRD})
		}
	}
	if in.Existing, err = v.existing(ctx, in.Deliveries, live); err != nil {
		return nil, err
	}
	report, err := v.check(ctx, in)
	if err != nil {
		return nil, err
	}
	if len(replaced) > 0 {
		report.Findings = append(report.Findings, crdcheck.Equivalent(pick(live, replaced), delivered(in.Deliveries))...)
	}
	return result(&report)
}

// revision validates the CustomResourceDefinitions of a PackageRevision as such. They are not
// installed in the WDS: what they break, they break on clusters.
func revision(ctx context.Context, in *crdcheck.Input) ([]string, error) {
	for n := range in.Deliveries {
		in.Updates = append(in.Updates, crdcheck.Update{New: in.Deliveries[n].CRD})
	}
	report, err := crdcheck.Check(ctx, in)
	if err != nil {
		return nil, err
	}
	return result(&report)
}

func result(report *crdcheck.Report) ([]string, error) {
	var warnings []string
	for _, warning := range report.Warnings() {
		warnings = append(warnings, warning.String())
	}
	if failures := report.Errors(); len(failures) > 0 {
		return warnings, &transaction.FailedError{Reason: string(report.Reason()), Message: crdcheck.Message(failures)}
	}
	return warnings, nil
}

// deliveries returns the CustomResourceDefinitions of a proposal. API groups are reserved in the
// WDS only: clusters may get, say, those of the Gateway API. The error is a
// *transaction.FailedError.
func deliveries(proposal *propose.Proposal) ([]crdcheck.Delivery, error) {
	var all []crdcheck.Delivery
	add := func(p crdcheck.Package, objects []*unstructured.Unstructured, installs bool) error {
		for _, o := range objects {
			if o.GetKind() != "CustomResourceDefinition" {
				continue
			}
			crd, err := typed(o)
			if err != nil {
				return &transaction.FailedError{
					Reason: pkgv1alpha1.ReasonInvalidPackage, Message: fmt.Sprintf("package %s: CustomResourceDefinition %s: %v", p.Name, o.GetName(), err),
				}
			}
			if owner := reserved(crd.Spec.Group); installs && owner != "" {
				return &transaction.FailedError{
					Reason: pkgv1alpha1.ReasonCRDConflict, Message: fmt.Sprintf("package %s has CRD %s, but only %s may define kinds of group %s", p.Name, crd.Name, owner, crd.Spec.Group),
				}
			}
			all = append(all, crdcheck.Delivery{Package: p, CRD: crd})
		}
		return nil
	}
	for n := range proposal.Install {
		p := &proposal.Install[n]
		if p.Inactive {
			continue
		}
		if err := add(crdcheck.Package{Source: p.Locked.Source, Name: p.Name}, p.Objects, true); err != nil {
			return nil, err
		}
	}
	if r := proposal.Revision; r != nil {
		return all, add(crdcheck.Package{Source: r.Package(), Name: r.Name}, r.After.CRDs, false)
	}
	return all, nil
}

// check makes the checks, those of several CustomResourceDefinitions at the same time: the API
// server compiles a schema for the first request for its objects.
func (v *CRDs) check(ctx context.Context, in *crdcheck.Input) (crdcheck.Report, error) {
	conflicts := *in
	conflicts.Updates = nil
	report, err := crdcheck.Check(ctx, &conflicts)
	if err != nil {
		return report, err
	}
	reports := make([]crdcheck.Report, len(in.Updates))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(max(v.Parallel, 1))
	for n := range in.Updates {
		group.Go(func() (err error) {
			reports[n], err = crdcheck.Check(ctx, &crdcheck.Input{Updates: in.Updates[n : n+1], Objects: in.Objects, Accepted: in.Accepted})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return report, err
	}
	for n := range reports {
		report.Findings = append(report.Findings, reports[n].Findings...)
	}
	return report, nil
}

// reserved returns whose API group it is, "" if packages may have it.
func reserved(group string) string {
	for suffix, owner := range map[string]string{
		"k8s.io": "Kubernetes", "kubernetes.io": "Kubernetes", "open-cluster-management.io": "Open Cluster Management",
		"kubestellar.io": "Starling", "porch.kpt.dev": "Starling", "starling.io": "Starling",
		"pkg.crossplane.io": "Starling", "apiextensions.crossplane.io": "Crossplane",
	} {
		if group == suffix || strings.HasSuffix(group, "."+suffix) {
			return owner
		}
	}
	return ""
}

// mayTake reports whether a package may take a CustomResourceDefinition from its controller.
func mayTake(proposal *propose.Proposal) func(crdcheck.Package, crdcheck.Owner) bool {
	return func(p crdcheck.Package, owner crdcheck.Owner) bool {
		return proposal.MayTake(p.Source, transaction.Owner{Kind: owner.Kind, Name: owner.Name, UID: owner.UID})
	}
}

// replacedCRDs returns the names of the CustomResourceDefinitions of packages that are replaced.
func replacedCRDs(proposal *propose.Proposal) []string {
	var found []string
	for _, removal := range proposal.Remove {
		r := proposal.Revisions[removal.Revision]
		if r == nil || !removal.Replaced {
			continue
		}
		for _, ref := range r.Status.ObjectRefs {
			if ref.Kind == "CustomResourceDefinition" {
				found = append(found, ref.Name)
			}
		}
	}
	return found
}

func typed(o *unstructured.Unstructured) (*apiextensionsv1.CustomResourceDefinition, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	return crd, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, crd)
}

func names(deliveries []crdcheck.Delivery) []string {
	found := make([]string, 0, len(deliveries))
	for _, d := range deliveries {
		found = append(found, d.CRD.Name)
	}
	return found
}

func delivered(deliveries []crdcheck.Delivery) []*apiextensionsv1.CustomResourceDefinition {
	var crds []*apiextensionsv1.CustomResourceDefinition
	for _, d := range deliveries {
		crds = append(crds, d.CRD)
	}
	return crds
}

func pick(live map[string]*apiextensionsv1.CustomResourceDefinition, names []string) []*apiextensionsv1.CustomResourceDefinition {
	var crds []*apiextensionsv1.CustomResourceDefinition
	for _, name := range names {
		if crd := live[name]; crd != nil {
			crds = append(crds, crd)
		}
	}
	return crds
}

// read returns those of the CustomResourceDefinitions that exist, by name.
func (v *CRDs) read(ctx context.Context, definitions *live.Definitions, names []string) (map[string]*apiextensionsv1.CustomResourceDefinition, error) {
	found := map[string]*apiextensionsv1.CustomResourceDefinition{}
	var mutex sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(max(v.Parallel, 1))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		group.Go(func() error {
			crd, err := definitions.Typed(ctx, name)
			if crd == nil {
				return err
			}
			mutex.Lock()
			defer mutex.Unlock()
			found[name] = crd
			return nil
		})
	}
	return found, group.Wait()
}

// existing returns what could be in conflict with the deliveries: the CustomResourceDefinitions of
// the same names, and for new ones all kinds of their groups.
func (v *CRDs) existing(ctx context.Context, deliveries []crdcheck.Delivery, live map[string]*apiextensionsv1.CustomResourceDefinition) ([]crdcheck.Existing, error) {
	var existing []crdcheck.Existing
	groups := map[string]bool{}
	for _, d := range deliveries {
		crd := live[d.CRD.Name]
		if crd == nil {
			groups[d.CRD.Spec.Group] = true
			continue
		}
		e := crdcheck.Existing{Name: crd.Name, Group: crd.Spec.Group, Names: crd.Status.AcceptedNames}
		if owner := transaction.ControllerOf(crd); owner != nil {
			e.Controller = &crdcheck.Owner{Kind: owner.Kind, Name: owner.Name, UID: owner.UID}
		}
		existing = append(existing, e)
	}
	if len(groups) == 0 {
		return existing, nil
	}
	served, err := v.Discovery.ServerGroups()
	if err != nil {
		return nil, fmt.Errorf("discover API groups: %w", err)
	}
	others := map[string]crdcheck.Existing{}
	for _, group := range served.Groups {
		if !groups[group.Name] {
			continue
		}
		for _, version := range group.Versions {
			resources, err := v.Discovery.ServerResourcesForGroupVersion(version.GroupVersion)
			if apierrors.IsNotFound(err) {
				continue // it is gone
			} else if err != nil {
				return nil, fmt.Errorf("discover API %s: %w", version.GroupVersion, err)
			}
			for _, r := range resources.APIResources {
				name := r.Name + "." + group.Name
				if live[name] != nil || strings.Contains(r.Name, "/") {
					continue
				}
				others[name] = crdcheck.Existing{Name: name, Group: group.Name, Names: apiextensionsv1.CustomResourceDefinitionNames{
					Plural: r.Name, Singular: r.SingularName, Kind: r.Kind, ShortNames: r.ShortNames,
				}}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(others)) {
		existing = append(existing, others[name])
	}
	return existing, ctx.Err()
}

// instances returns all objects of a CustomResourceDefinition in a version, page by page.
func (v *CRDs) instances(ctx context.Context, crd, version string) iter.Seq2[map[string]any, error] {
	return func(yield func(map[string]any, error) bool) {
		plural, group, _ := strings.Cut(crd, ".")
		options := metav1.ListOptions{Limit: pageSize}
		for {
			page, err := v.Objects.Resource(schema.GroupVersionResource{Group: group, Version: version, Resource: plural}).List(ctx, options)
			if err != nil {
				yield(nil, fmt.Errorf("list %s: %w", crd, err))
				return
			}
			for n := range page.Items {
				if !yield(page.Items[n].Object, nil) {
					return
				}
			}
			if options.Continue = page.GetContinue(); options.Continue == "" {
				return
			}
		}
	}
}
