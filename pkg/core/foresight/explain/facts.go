package explain

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/customize"
	"github.com/starlinghq/starling/pkg/core/foresight"
	"github.com/starlinghq/starling/pkg/core/match"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/core/plan"
	"github.com/starlinghq/starling/pkg/core/settings"
	"github.com/starlinghq/starling/pkg/core/status"
)

// Fleet is what is known of ITSes, clusters and mailboxes.
type Fleet struct {
	Now time.Time
	// NoITS says why no ITS is read, "" if one is. Then nothing is known of clusters and mailboxes.
	NoITS string
	// Cluster is the cluster that was asked for, "" for all.
	Cluster string
	// Clusters has the clusters by name: all, or only the one that was asked for. A name that is
	// not there does not exist; if some could not be read, it may.
	Clusters foresight.Fact[map[string]*foresight.Cluster]
	// Mailboxes has what is known of mailboxes, by cluster.
	Mailboxes map[string]*Mailbox
	// Settings are those of the controllers, as far as they are known.
	Settings settings.Known

	// selected remembers which clusters policies select: objects of one policy have them in common.
	// It may be nil.
	selected map[*controlv1alpha1.BindingPolicy][]string
}

// NewFleet returns a Fleet of which nothing was read yet.
func NewFleet(now time.Time, cluster string) Fleet {
	return Fleet{
		Now: now, Cluster: cluster, Mailboxes: map[string]*Mailbox{}, selected: map[*controlv1alpha1.BindingPolicy][]string{},
	}
}

// unknownSettings says which settings of controllers are not known.
func (f *Fleet) unknownSettings() (notes []string) {
	for _, note := range f.Settings.Notes() {
		notes = append(notes, "unknown: "+note)
	}
	return notes
}

// Mailbox is what is known of one mailbox.
type Mailbox struct {
	// Works are the works in it: of one cluster all, otherwise those of the Bindings that matter.
	Works foresight.Fact[[]*plan.Work]
	// Reports are what the cluster reports of the objects that are explained.
	Reports foresight.Fact[map[objref.Ref]*status.Report]
	// Properties are what templates are expanded with; they are needed only for an object that has
	// templates.
	Properties foresight.Fact[*customize.Properties]

	// places has where the works have an object; nil until that was asked for.
	places map[objref.Ref][]place
}

// Selection is a policy with its Bindings.
type Selection struct {
	Policy *controlv1alpha1.BindingPolicy
	// Bindings are those that the policy owns, that of its name first.
	Bindings foresight.Fact[[]*controlv1alpha1.Binding]
}

// Transactions is what Transactions hold.
type Transactions struct {
	// Holds is the Binding pkgv1.HoldsBinding, which has it; nil if there is none.
	Holds foresight.Fact[*controlv1alpha1.Binding]
	// Running is the Transaction that is being carried out, as the Lock says: its holds end with
	// it. It is read only if something is held, and the zero Holder if there is none.
	Running foresight.Fact[plan.Holder]
}

// Object is what is known of an object. It must not be explained concurrently, and neither must
// others with the same Mailboxes.
type Object struct {
	Fleet

	Ref     objref.Ref
	Version string
	// Live is the object in the WDS, nil if it does not exist. It must not be changed.
	Live foresight.Fact[*unstructured.Unstructured]
	// Namespace has the labels of its Namespace, nil if that does not exist.
	Namespace foresight.Fact[map[string]string]
	// Policies are all policies, or only the one that was asked for.
	Policies foresight.Fact[[]Selection]
	// Policy is the name of the one that was asked for, "" for all.
	Policy string
	// Loose are Bindings that no policy and no package owns, and that list the object.
	Loose []*controlv1alpha1.Binding
	// Packages are the Bindings of packages with works that have the object. They are read only if
	// the object does not exist in the WDS.
	Packages foresight.Fact[[]*controlv1alpha1.Binding]
	Transactions
	// CustomTransforms are those of its kind.
	CustomTransforms foresight.Fact[[]*controlv1alpha1.CustomTransform]

	// manifest is the object as all clusters get it; nil until that was computed.
	manifest *content
}

// Candidate returns what clauses test.
func (o *Object) Candidate() *match.Candidate {
	c := &match.Candidate{
		GroupResource: o.Ref.GroupResource(), Namespace: o.Ref.Namespace, Name: o.Ref.Name,
		NamespaceLabels: o.Namespace.Value, NamespaceKnown: o.Namespace.Value != nil,
	}
	if o.Live.Value != nil {
		c.Labels = o.Live.Value.GetLabels()
	}
	return c
}

// Policy is what is known of a policy.
type Policy struct {
	Fleet

	Name string
	// Selection is the policy and its Bindings; its policy is nil if it does not exist.
	Selection foresight.Fact[Selection]
	Transactions
	// Unserved are what the policy names and the WDS does not serve, or that is no workload.
	Unserved []string
	// Unlisted are the objects that it selects while its Bindings do not list them, sorted; none if
	// they were not asked for.
	Unlisted foresight.Fact[[]objref.Ref]
}

// Cluster is what is known of a cluster and its mailbox.
type Cluster struct {
	Fleet
}

// Package is what is known of a package of a repository.
type Package struct {
	Fleet

	// Namespace, Repository and Name identify it; Revision is the one that was asked for, "" for
	// the latest.
	Namespace, Repository, Name, Revision string
	// Revisions are all revisions of the package.
	Revisions foresight.Fact[[]Revision]
	// Deploys: the Repository exists and spec.deployment is true; RepositoryExists says the first.
	RepositoryExists, Deploys bool
	// Binding is that of the package, nil if there is none.
	Binding foresight.Fact[*controlv1alpha1.Binding]
}

// Revision is what is known of a revision of a package.
type Revision struct {
	// Object is the name of the PackageRevision.
	Object string
	// Shown is its version, as users name it.
	Shown     string
	Lifecycle string
	Latest    bool
	// Gates are the readiness gates that are not True, each with what it says.
	Gates []string
}
