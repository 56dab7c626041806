// Package destinations takes a proposal to the clusters that it concerns: it validates the proposal
// for each of them, holds its objects in the mailboxes while it is installed, and records in the
// Lock of each cluster, in its inventory and transport space, what the cluster has afterwards.
//
// The decisions are those of pkg/core/destination. What they need is read from the API servers:
// policies, Bindings and custom resources from the workload definition space (WDS); stored versions
// that clusters report, works of other WDSes and Locks from the inventory and transport spaces.
package destinations

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	componentmetrics "k8s.io/component-base/metrics"
	"k8s.io/utils/clock"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	pkgv1beta1 "github.com/starlinghq/starling/api/pkg/v1beta1"
	"github.com/starlinghq/starling/pkg/client"
	"github.com/starlinghq/starling/pkg/clusters"
	"github.com/starlinghq/starling/pkg/core/destination"
	"github.com/starlinghq/starling/pkg/core/inventory"
	"github.com/starlinghq/starling/pkg/core/text"
	"github.com/starlinghq/starling/pkg/core/transaction"
	"github.com/starlinghq/starling/pkg/metrics"
	"github.com/starlinghq/starling/pkg/transactions"
	"github.com/starlinghq/starling/pkg/transactions/live"
	"github.com/starlinghq/starling/pkg/transactions/propose"
	"github.com/starlinghq/starling/pkg/writer"
)

// Clusters are the clusters of all ITSes. *clusters.Reader is one.
type Clusters interface {
	// List returns the accepted clusters, and whether every ITS has synced.
	List() (list []*clusters.Cluster, complete bool)
	// Home returns the ITS of a cluster.
	Home(name string) (its string, state inventory.State)
	// OnChange adds a handler for the clusters that change.
	OnChange(handler func(name string))
}

// ITS is an inventory and transport space.
type ITS struct {
	control    *client.Client
	objects    dynamic.Interface
	configMaps corev1client.ConfigMapsGetter
	locks      *transactions.Client
	writer     *writer.Writer
}

// NewITS returns an ITS that is connected to by config.
func NewITS(name string, config *rest.Config, manager string) (*ITS, error) {
	control, controlErr := client.New(config)
	objects, objectsErr := dynamic.NewForConfig(config)
	core, coreErr := corev1client.NewForConfig(config)
	locks, locksErr := transactions.NewClient(config)
	writer, writerErr := writer.New(config, name, manager)
	if err := errors.Join(controlErr, objectsErr, coreErr, locksErr, writerErr); err != nil {
		return nil, fmt.Errorf("build clients for space %s: %w", name, err)
	}
	return &ITS{control, objects, core, locks, writer}, nil
}

// Config is what Destinations work with. All is required.
type Config struct {
	// WDS connects to the WDS. WDSName is its name, and WDSUID its identity.
	WDS     *rest.Config
	WDSName string
	WDSUID  types.UID
	// Writer writes to the WDS.
	Writer *writer.Writer
	// Clusters reads the clusters. Its owner runs it.
	Clusters Clusters
	// ITSes are the inventory and transport spaces, by the names that Clusters has for them.
	ITSes map[string]*ITS
	// PackageNamespaces are those whose Repositories deliver to clusters, and Repositories reads
	// them.
	PackageNamespaces []string
	Repositories      Repositories
	// Patience is how long to wait until the transport has observed a hold.
	Patience time.Duration
	// Recheck is how often clusters that keep what they have are validated again.
	Recheck time.Duration
	Clock   clock.Clock
}

// Destinations are the clusters of a WDS, as far as transactions concern them. Validate, Freeze and
// Commit are called for one Transaction at a time, in this order.
type Destinations struct {
	Config
	control  *client.Client
	objects  dynamic.Interface
	metadata metadata.Interface
	packages *transactions.Client
	live     *live.Reader
	// removals writes what clusters do with objects of packages that are removed.
	removals *writer.Writer

	mutex sync.Mutex
	// last is what was validated last.
	last *validated
}

// validated is a proposal that was validated.
type validated struct {
	transaction types.UID
	*gathered
	result *destination.Result
	// packages are those of the proposal.
	packages []pkgv1beta1.LockPackage
	// continues: clusters where the proposal would break something keep what they have.
	continues bool
}

// parallel is how many requests to one space are under way at the same time.
const parallel = 10

var validations = componentmetrics.NewCounterVec(&componentmetrics.CounterOpts{
	Namespace:      "starling",
	Name:           "transaction_destinations_total",
	Help:           "Destinations that transactions were validated for, and validations that this took: one for all destinations in the same situation.",
	StabilityLevel: componentmetrics.ALPHA,
}, []string{"count"})

// New returns Destinations.
func New(config Config) (*Destinations, error) {
	control, controlErr := client.New(config.WDS)
	objects, objectsErr := dynamic.NewForConfig(config.WDS)
	partial, metadataErr := metadata.NewForConfig(config.WDS)
	packages, packagesErr := transactions.NewClient(config.WDS)
	definitions, definitionsErr := live.NewReader(config.WDS)
	removals, removalsErr := writer.New(config.WDS, config.WDSName, transaction.RemovalManager)
	if err := errors.Join(controlErr, objectsErr, metadataErr, packagesErr, definitionsErr, removalsErr); err != nil {
		return nil, fmt.Errorf("build clients: %w", err)
	}
	metrics.Register(validations)
	return &Destinations{
		Config: config, control: control, objects: objects, metadata: partial, packages: packages, live: definitions, removals: removals,
	}, nil
}

// Validate returns warnings about destinations of a proposal. The error is a
// *transaction.FailedError if the proposal would break something on a cluster, unless the user lets
// the others continue.
func (d *Destinations) Validate(ctx context.Context, tx *pkgv1alpha1.Transaction, proposal *propose.Proposal) ([]string, error) {
	d.remember(nil)
	gather := d.gather
	if proposal.Revision != nil {
		gather = func(ctx context.Context, tx *pkgv1alpha1.Transaction, proposal *propose.Proposal) (*gathered, error) {
			return d.gatherRevision(ctx, tx, proposal.Revision)
		}
	}
	in, err := gather(ctx, tx, proposal)
	if err != nil {
		return nil, err
	}
	result, err := destination.Evaluate(ctx, in.input)
	if err != nil {
		return nil, err
	}
	validations.WithLabelValues("destinations").Add(float64(len(result.Destinations)))
	validations.WithLabelValues("validations").Add(float64(result.Situations))
	warnings := slices.Concat(in.warnings, result.Warnings())
	v := &validated{
		transaction: tx.UID, gathered: in, result: result, packages: proposal.Packages,
		continues: tx.Annotations[pkgv1.AnnotationDestinationPolicy] == pkgv1.DestinationPolicyContinue,
	}
	if failure := result.Failure(); failure != nil {
		if !v.continues {
			return warnings, failure
		}
		warnings = append(warnings, "these clusters keep what they have: "+failure.Message)
	}
	if n := len(result.Destinations); n > 0 {
		proposal.Notes = append(proposal.Notes, fmt.Sprintf("validated for %s, of which %d keep what they have", text.Count(n, "cluster"), len(result.Failing())))
	}
	d.remember(v)
	return warnings, nil
}

func (d *Destinations) remember(v *validated) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.last = v
}

// of returns what was validated for a Transaction.
func (d *Destinations) of(tx *pkgv1alpha1.Transaction) (*validated, error) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if d.last == nil || d.last.transaction != tx.UID {
		return nil, fmt.Errorf("destinations of transaction %q were not validated", tx.Name)
	}
	return d.last, nil
}
