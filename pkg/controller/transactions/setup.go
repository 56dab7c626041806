package transactions

import (
	"cmp"
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"

	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	pkgv1beta1 "github.com/starlinghq/starling/api/pkg/v1beta1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/transaction"
	"github.com/starlinghq/starling/pkg/packages/content"
	"github.com/starlinghq/starling/pkg/packages/informers"
	"github.com/starlinghq/starling/pkg/transactions"
	"github.com/starlinghq/starling/pkg/transactions/destinations"
	"github.com/starlinghq/starling/pkg/transactions/fetch"
	"github.com/starlinghq/starling/pkg/transactions/install"
	"github.com/starlinghq/starling/pkg/transactions/live"
	"github.com/starlinghq/starling/pkg/transactions/lock"
	"github.com/starlinghq/starling/pkg/transactions/propose"
	"github.com/starlinghq/starling/pkg/transactions/validate"
	"github.com/starlinghq/starling/pkg/writer"
	"github.com/starlinghq/starling/pkg/xpkg"
)

// SetupConfig is what Setup needs.
type SetupConfig struct {
	// WDS is the WDS, WDSName its name in metrics.
	WDS     *rest.Config
	WDSName string
	// Fetcher reads packages from registries and directories.
	Fetcher *xpkg.Fetcher
	// Namespace has the pull secrets.
	Namespace string
	// HubVersion is compared with the versions of Crossplane that packages support. If it is empty,
	// nothing is compared.
	HubVersion string
	// WDSUID is the identity of the WDS, and Clusters and ITSes are those that its objects go to.
	// Without an ITS they are not needed.
	WDSUID   types.UID
	Clusters destinations.Clusters
	ITSes    map[string]*destinations.ITS
	// PackageNamespaces are those whose Repositories deliver packages to clusters.
	PackageNamespaces []string
	// Recheck is how often clusters that keep what they have are validated again; zero is a minute.
	Recheck time.Duration
	Events  events.EventRecorder
	Clock   clock.Clock
}

const (
	// parallelWrites is how many objects of a package are written at the same time.
	parallelWrites = 10
	// patience is how long an installation waits until a CustomResourceDefinition is established.
	patience = 30 * time.Second
	// holdPatience is how long it waits until the transport obeys a hold.
	holdPatience = 5 * time.Second
	// recheck is the default of SetupConfig.Recheck.
	recheck = time.Minute
)

// Setup returns the controller and what it watches, which are not running yet.
func Setup(config SetupConfig) (*Controller, *transactions.Informers, error) {
	client, err := transactions.NewClient(config.WDS)
	if err != nil {
		return nil, nil, err
	}
	watch, err := transactions.NewInformers(client)
	if err != nil {
		return nil, nil, err
	}
	writer, err := writer.New(config.WDS, config.WDSName, transaction.FieldManager)
	if err != nil {
		return nil, nil, err
	}
	core, err := kubernetes.NewForConfig(config.WDS)
	if err != nil {
		return nil, nil, fmt.Errorf("build client for Secrets: %w", err)
	}
	objects, err := dynamic.NewForConfig(config.WDS)
	if err != nil {
		return nil, nil, fmt.Errorf("build dynamic client: %w", err)
	}
	definitions, err := live.NewReader(config.WDS)
	if err != nil {
		return nil, nil, err
	}
	found, err := discovery.NewDiscoveryClientForConfig(config.WDS)
	if err != nil {
		return nil, nil, fmt.Errorf("build discovery client: %w", err)
	}
	partial, err := metadata.NewForConfig(config.WDS)
	if err != nil {
		return nil, nil, fmt.Errorf("build metadata client: %w", err)
	}
	installed := &live.Objects{Metadata: partial, Mapper: restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(found))}
	packages := &fetch.Reader{Fetcher: config.Fetcher, ImageConfigs: watch.ImageConfigs.All, Secrets: core.CoreV1().Secrets(config.Namespace)}
	revisions, err := newRevisions(&config)
	if err != nil {
		return nil, nil, err
	}
	watched, err := newObjects(config.WDS)
	if err != nil {
		return nil, nil, err
	}
	to, err := newDestinations(&config, writer, revisions)
	if err != nil {
		return nil, nil, err
	}
	built := Config{
		Watch: watch, Client: client, Writer: writer,
		Lock:       &lock.Manager{Reader: &reader{client}, Writer: writer},
		Packages:   packages,
		Proposer:   &propose.Proposer{Client: client, Definitions: definitions, Live: installed, Packages: packages, HubVersion: config.HubVersion, Revisions: revisions},
		Validators: []Validator{&validate.CRDs{Objects: objects, Discovery: found, Parallel: parallelWrites}},
		Installer: &install.Installer{
			Client: client, Objects: objects, Live: installed, Discovery: found,
			Writer: writer, Parallel: parallelWrites, Patience: patience,
		},
		Objects: watched, Events: config.Events, Clock: config.Clock,
	}
	if to != nil {
		built.Validators, built.Destinations, built.Records = append(built.Validators, to), to, to
	}
	controller, err := New(built)
	return controller, watch, err
}

// newDestinations returns the clusters, nil if there is no ITS.
func newDestinations(config *SetupConfig, w *writer.Writer, repositories destinations.Repositories) (*destinations.Destinations, error) {
	if len(config.ITSes) == 0 {
		return nil, nil //nolint:nilnil // packages may be installed without clusters
	}
	return destinations.New(destinations.Config{
		WDS: config.WDS, WDSName: config.WDSName, WDSUID: config.WDSUID, Writer: w, Clusters: config.Clusters, ITSes: config.ITSes,
		PackageNamespaces: config.PackageNamespaces, Repositories: repositories, Patience: holdPatience, Recheck: cmp.Or(config.Recheck, recheck),
		Clock: config.Clock,
	})
}

// revisions reads what a PackageRevision is validated by.
type revisions struct {
	*informers.Reader
	content *content.Store
}

func newRevisions(config *SetupConfig) (*revisions, error) {
	reader, err := informers.NewReader(config.WDS)
	if err != nil {
		return nil, err
	}
	files, err := content.New(config.WDS, config.Clock)
	if err != nil {
		return nil, err
	}
	return &revisions{reader, files}, nil
}

// Files implements propose.Revisions.
func (r *revisions) Files(ctx context.Context, revision *storev1alpha1.PackageRevision) (kpt.Files, error) {
	return r.content.Get(ctx, revision.Content.Digest)
}

// reader reads what the Lock is about.
type reader struct{ client *transactions.Client }

func (r *reader) Lock(ctx context.Context) (*pkgv1beta1.Lock, error) {
	return r.client.Locks().Get(ctx, pkgv1beta1.LockName, metav1.GetOptions{})
}

func (r *reader) Transaction(ctx context.Context, name string) (*pkgv1alpha1.Transaction, error) {
	return r.client.Transactions().Get(ctx, name, metav1.GetOptions{})
}

// Highest is used only if the Lock does not have the next number.
func (r *reader) Highest(ctx context.Context) (int64, error) {
	list, err := r.client.Transactions().List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	all := make([]*pkgv1alpha1.Transaction, 0, len(list.Items))
	for n := range list.Items {
		all = append(all, &list.Items[n])
	}
	return transaction.Highest(all), nil
}
