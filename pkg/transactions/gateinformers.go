package transactions

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	pkgv1beta1 "github.com/starlinghq/starling/api/pkg/v1beta1"
	"github.com/starlinghq/starling/pkg/client"
	"github.com/starlinghq/starling/pkg/core/packages/gate"
	"github.com/starlinghq/starling/pkg/packages/informers"
)

// GateInformers watch what answers the gates of PackageRevisions. Event handlers must be added
// before Run. Their objects are shared: copy before you change one.
type GateInformers struct {
	Transactions *informers.Informer[pkgv1alpha1.Transaction]
	Locks        *informers.Informer[pkgv1beta1.Lock]
}

const byRevision = "revision"

// NewGateInformers returns GateInformers that are not started.
func NewGateInformers(c *Client) (*GateInformers, error) {
	transactions, err := client.NewInformer(c.Transactions(), &pkgv1alpha1.Transaction{}, cache.Indexers{
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
	locks, err := client.NewInformer(c.Locks(), &pkgv1beta1.Lock{}, nil)
	if err != nil {
		return nil, err
	}
	return &GateInformers{
		Transactions: &informers.Informer[pkgv1alpha1.Transaction]{SharedIndexInformer: transactions, Name: "Transactions"},
		Locks:        &informers.Informer[pkgv1beta1.Lock]{SharedIndexInformer: locks, Name: "Locks"},
	}, nil
}

// Run blocks until ctx ends and all informers have stopped.
func (i *GateInformers) Run(ctx context.Context) {
	var running sync.WaitGroup
	running.Go(func() { i.Transactions.RunWithContext(ctx) })
	i.Locks.RunWithContext(ctx)
	running.Wait()
}

// OfRevision returns the Transactions that were created for a PackageRevision, in no order.
func (i *GateInformers) OfRevision(key types.NamespacedName) []*pkgv1alpha1.Transaction {
	return i.Transactions.By(byRevision, key.String())
}
