package transactions

import (
	"context"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	pkgv1beta1 "github.com/starlinghq/starling/api/pkg/v1beta1"
	"github.com/starlinghq/starling/pkg/client"
	"github.com/starlinghq/starling/pkg/core/packages/gate"
	"github.com/starlinghq/starling/pkg/packages/informers"
)

// Required are the resources that the WDS must serve before Run.
var Required = []schema.GroupVersionResource{
	pkgv1.Providers, pkgv1.Configurations, pkgv1.Functions, pkgv1.ProviderRevisions, pkgv1.ConfigurationRevisions, pkgv1.FunctionRevisions,
	pkgv1alpha1.Transactions, pkgv1beta1.Locks, pkgv1beta1.ImageConfigs,
}

// Informers watch the objects of pkg.crossplane.io. Their objects are shared: copy before you
// change one.
type Informers struct {
	// Packages and Revisions are by the name of the kind of the packages.
	Packages  map[string]*informers.Informer[pkgv1.Provider]
	Revisions map[string]*informers.Informer[pkgv1.ProviderRevision]

	Transactions *informers.Informer[pkgv1alpha1.Transaction]
	Locks        *informers.Informer[pkgv1beta1.Lock]
	ImageConfigs *informers.Informer[pkgv1beta1.ImageConfig]
}

const (
	byPackage  = "package"
	byRevision = "revision"
)

// NewInformers returns Informers that are not started.
func NewInformers(c *Client) (*Informers, error) {
	i := &Informers{Packages: map[string]*informers.Informer[pkgv1.Provider]{}, Revisions: map[string]*informers.Informer[pkgv1.ProviderRevision]{}}
	for _, kind := range Kinds {
		packages, err := client.NewInformer(c.Packages(kind), &pkgv1.Provider{}, nil)
		if err != nil {
			return nil, err
		}
		i.Packages[kind.Name] = &informers.Informer[pkgv1.Provider]{SharedIndexInformer: packages, Name: kind.Name + "s"}
		revisions, err := client.NewInformer(c.Revisions(kind), &pkgv1.ProviderRevision{}, cache.Indexers{
			byPackage: informers.Index(func(r *pkgv1.ProviderRevision) []string { return []string{r.Labels[pkgv1.LabelPackage]} }),
		})
		if err != nil {
			return nil, err
		}
		i.Revisions[kind.Name] = &informers.Informer[pkgv1.ProviderRevision]{SharedIndexInformer: revisions, Name: kind.RevisionName + "s"}
	}
	transactions, err := client.NewInformer(c.Transactions(), &pkgv1alpha1.Transaction{}, cache.Indexers{
		byPackage: informers.Index(func(tx *pkgv1alpha1.Transaction) []string {
			if _, owner := PackageOf(tx); owner != "" {
				return []string{string(owner)}
			}
			return nil
		}),
		byRevision: informers.Index(func(tx *pkgv1alpha1.Transaction) []string {
			if key, ok := gate.RevisionOf(tx); ok {
				return []string{key.String()}
			}
			return nil
		}),
	})
	if err != nil {
		return nil, err
	}
	i.Transactions = &informers.Informer[pkgv1alpha1.Transaction]{SharedIndexInformer: transactions, Name: "Transactions"}
	locks, err := client.NewInformer(c.Locks(), &pkgv1beta1.Lock{}, nil)
	if err != nil {
		return nil, err
	}
	i.Locks = &informers.Informer[pkgv1beta1.Lock]{SharedIndexInformer: locks, Name: "Locks"}
	configs, err := client.NewInformer(c.ImageConfigs(), &pkgv1beta1.ImageConfig{}, nil)
	if err != nil {
		return nil, err
	}
	i.ImageConfigs = &informers.Informer[pkgv1beta1.ImageConfig]{SharedIndexInformer: configs, Name: "ImageConfigs"}
	return i, nil
}

// Run blocks until ctx ends and all informers have stopped. It returns nil.
func (i *Informers) Run(ctx context.Context) error {
	all := []cache.SharedIndexInformer{i.Transactions, i.Locks, i.ImageConfigs}
	for _, kind := range Kinds {
		all = append(all, i.Packages[kind.Name], i.Revisions[kind.Name])
	}
	var running sync.WaitGroup
	for _, informer := range all {
		running.Go(func() { informer.RunWithContext(ctx) })
	}
	running.Wait()
	return nil
}

// Package returns a package, nil if there is none.
func (i *Informers) Package(ref Ref) *pkgv1.Provider {
	if informer := i.Packages[ref.Kind]; informer != nil {
		return informer.Get("", ref.Name)
	}
	return nil
}

// RevisionsOf returns the revisions of a package, in no order.
func (i *Informers) RevisionsOf(ref Ref) []*pkgv1.ProviderRevision {
	if informer := i.Revisions[ref.Kind]; informer != nil {
		return informer.By(byPackage, ref.Name)
	}
	return nil
}

// TransactionsOf returns the Transactions that were created for a package, in no order. A package
// of the same name that existed before is another one.
func (i *Informers) TransactionsOf(p *pkgv1.Provider) []*pkgv1alpha1.Transaction {
	return i.Transactions.By(byPackage, string(p.UID))
}

// OfRevision returns the Transactions that were created for a PackageRevision, in no order.
func (i *Informers) OfRevision(key types.NamespacedName) []*pkgv1alpha1.Transaction {
	return i.Transactions.By(byRevision, key.String())
}

// PackageOf returns the package that a Transaction was created for, which owns it, and its UID.
// Both are zero for a Transaction that a user created.
func PackageOf(tx *pkgv1alpha1.Transaction) (Ref, types.UID) {
	for _, owner := range tx.OwnerReferences {
		if _, found := KindOf(owner.Kind); found && strings.HasPrefix(owner.APIVersion, pkgv1.GroupName+"/") {
			return Ref{Kind: owner.Kind, Name: owner.Name}, owner.UID
		}
	}
	return Ref{}, ""
}
