package forecast

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/inventory"
	packagebinding "github.com/starlinghq/starling/pkg/core/packages/binding"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/version"
)

// Approval is what happens if revisions of a package are approved.
type Approval struct {
	// Package is namespace/repository/name.
	Package string `json:"package"`
	// Revisions are those that were to be approved.
	Revisions []ApprovedRevision `json:"revisions"`
	// Binding is the one that delivers another version to Cluster then: After instead of Before.
	// All are "" if what is delivered does not change; Before is "" if nothing was delivered.
	Binding string `json:"binding,omitempty"`
	Cluster string `json:"cluster,omitempty"`
	Before  string `json:"before,omitempty"`
	After   string `json:"after,omitempty"`
	// Why is why what is delivered does not change; "" if it does, or if all are refused.
	Why string `json:"why,omitempty"`
	// Problems are about files of the version that is delivered then.
	Problems []string `json:"problems,omitempty"`
}

// ApprovedRevision is a PackageRevision that was to be approved.
type ApprovedRevision struct {
	Name string `json:"name"`
	// Version is the one with which it is published; "" if it is refused.
	Version string `json:"version,omitempty"`
	// Refused says why it cannot be approved; "" if it can.
	Refused string `json:"refused,omitempty"`
}

// Changes reports whether any revision is approved.
func (a *Approval) Changes() bool {
	return slices.ContainsFunc(a.Revisions, func(r ApprovedRevision) bool { return r.Refused == "" })
}

// Package is a package of which revisions are approved.
type Package struct {
	ID packagebinding.Package
	// Repository is the one that it is in; nil if that does not exist.
	Repository *configv1alpha1.Repository
	// Before are its revisions, and After are those after the approval.
	Before, After []*storev1alpha1.PackageRevision
	// Approved are those that were to be approved.
	Approved []ApprovedRevision
}

// bind returns the Binding of a package, nil if there is none, as the controller writes it. taken
// is true if another Binding has its name.
func (p *Package) bind(w *World, revisions []*storev1alpha1.PackageRevision, stored *controlv1alpha1.Binding) (b *controlv1alpha1.Binding, taken bool) {
	in := packagebinding.Input{Package: p.ID, Revisions: revisions, Repository: p.Repository, Stored: stored, Cluster: w.State(p.ID.Repository)}
	if c := w.Clusters[p.ID.Repository]; c != nil {
		in.Drained = inventory.Drained(c.Labels)
	}
	switch plan := packagebinding.PlanBinding(&in); {
	case plan.Taken:
		return nil, true
	case plan.Create != nil:
		return plan.Create, false
	case plan.Update != nil:
		return plan.Update, false
	case plan.Delete:
		return nil, false
	}
	return stored, false
}

// State returns what is known of a cluster.
func (w *World) State(cluster string) inventory.State {
	switch c := w.Clusters[cluster]; {
	case c != nil:
		return c.State
	case w.ClustersUnread:
		return inventory.Unknown
	}
	return inventory.Absent
}

// clauseOf returns the revision that a Binding of a package delivers, nil if it delivers none to
// any cluster.
func clauseOf(b *controlv1alpha1.Binding) *controlv1alpha1.PackageClause {
	if b == nil || len(b.Spec.Workload.Packages) == 0 || len(b.Spec.Destinations) == 0 {
		return nil
	}
	return &b.Spec.Workload.Packages[0]
}

// Version returns how users name the version of a revision.
func Version(r *storev1alpha1.PackageRevision) string {
	return cmp.Or(version.Of(r).Tag, strconv.Itoa(r.Spec.Revision))
}

// versionOf returns the version of the revision of a name, or the name.
func versionOf(revisions []*storev1alpha1.PackageRevision, name string) string {
	for _, r := range revisions {
		if r.Name == name {
			return Version(r)
		}
	}
	return name
}

// unchanged returns why what is delivered of a package does not change.
func (d *Delivery) unchanged() string {
	p, repository := d.pkg, d.pkg.ID.Repository
	latest := version.Latest(p.After)
	cluster := d.after.Clusters[repository]
	switch {
	case latest == nil:
		return "no revision of it is published"
	case !slices.ContainsFunc(p.Approved, func(r ApprovedRevision) bool { return r.Name == latest.Name }):
		return fmt.Sprintf("revision %s stays the latest one", versionOf(p.After, latest.Name))
	case p.Repository == nil:
		return fmt.Sprintf("there is no Repository %s in namespace %s", repository, p.ID.Namespace)
	case !p.Repository.Spec.Deployment:
		return fmt.Sprintf("Repository %s is no cluster repository: what is in it is not delivered, but can be cloned", repository)
	case d.taken:
		return fmt.Sprintf("Binding %s has the name that its Binding needs, and does not belong to it", packagebinding.Name(p.ID))
	case cluster == nil && d.after.ClustersUnread:
		return "no ITS that could be read has a cluster " + repository
	case cluster == nil:
		return "no ITS has a cluster " + repository
	case cluster.Refused != "":
		return "cluster " + repository + " " + cluster.Refused
	case inventory.Drained(cluster.Labels):
		return fmt.Sprintf("cluster %[1]s is drained: kubectl starling cluster undrain %[1]s", repository)
	}
	return "it is delivered already"
}
