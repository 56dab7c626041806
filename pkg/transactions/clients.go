package transactions

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	pkgv1beta1 "github.com/starlinghq/starling/api/pkg/v1beta1"
	"github.com/starlinghq/starling/pkg/client"
)

// Types of clients. Each reads from the API server, not from a cache.
type (
	packageClient     = gentype.ClientWithList[*pkgv1.Provider, *pkgv1.ProviderList]
	revisionClient    = gentype.ClientWithList[*pkgv1.ProviderRevision, *pkgv1.ProviderRevisionList]
	transactionClient = gentype.ClientWithList[*pkgv1alpha1.Transaction, *pkgv1alpha1.TransactionList]
	lockClient        = gentype.ClientWithList[*pkgv1beta1.Lock, *pkgv1beta1.LockList]
	imageConfigClient = gentype.ClientWithList[*pkgv1beta1.ImageConfig, *pkgv1beta1.ImageConfigList]
)

// Client reads the objects of pkg.crossplane.io in one space. It is safe for concurrent use.
type Client struct {
	v1, v1alpha1, v1beta1 rest.Interface
	codec                 runtime.ParameterCodec
}

// NewClient returns a Client for the space that config connects to.
func NewClient(config *rest.Config) (*Client, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{pkgv1alpha1.AddToScheme, pkgv1beta1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	for _, kind := range Kinds {
		scheme.AddKnownTypeWithName(pkgv1.GroupVersion.WithKind(kind.Name), &pkgv1.Provider{})
		scheme.AddKnownTypeWithName(pkgv1.GroupVersion.WithKind(kind.Name+"List"), &pkgv1.ProviderList{})
		scheme.AddKnownTypeWithName(pkgv1.GroupVersion.WithKind(kind.RevisionName), &pkgv1.ProviderRevision{})
		scheme.AddKnownTypeWithName(pkgv1.GroupVersion.WithKind(kind.RevisionName+"List"), &pkgv1.ProviderRevisionList{})
	}
	metav1.AddToGroupVersion(scheme, pkgv1.GroupVersion)
	c := &Client{codec: runtime.NewParameterCodec(scheme)}
	for version, restClient := range map[schema.GroupVersion]*rest.Interface{
		pkgv1.GroupVersion: &c.v1, pkgv1alpha1.GroupVersion: &c.v1alpha1, pkgv1beta1.GroupVersion: &c.v1beta1,
	} {
		built, err := client.NewREST(config, scheme, version)
		if err != nil {
			return nil, fmt.Errorf("build client for %s: %w", version, err)
		}
		*restClient = built
	}
	return c, nil
}

// Packages reads packages of a kind.
func (c *Client) Packages(kind Kind) *packageClient {
	return gentype.NewClientWithList(kind.Packages.Resource, c.v1, c.codec, "",
		func() *pkgv1.Provider { return &pkgv1.Provider{} }, func() *pkgv1.ProviderList { return &pkgv1.ProviderList{} })
}

// Revisions reads revisions of packages of a kind.
func (c *Client) Revisions(kind Kind) *revisionClient {
	return gentype.NewClientWithList(kind.Revisions.Resource, c.v1, c.codec, "",
		func() *pkgv1.ProviderRevision { return &pkgv1.ProviderRevision{} }, func() *pkgv1.ProviderRevisionList { return &pkgv1.ProviderRevisionList{} })
}

// Transactions reads Transactions.
func (c *Client) Transactions() *transactionClient {
	return gentype.NewClientWithList(pkgv1alpha1.Transactions.Resource, c.v1alpha1, c.codec, "",
		func() *pkgv1alpha1.Transaction { return &pkgv1alpha1.Transaction{} },
		func() *pkgv1alpha1.TransactionList { return &pkgv1alpha1.TransactionList{} })
}

// Locks reads Locks.
func (c *Client) Locks() *lockClient {
	return gentype.NewClientWithList(pkgv1beta1.Locks.Resource, c.v1beta1, c.codec, "",
		func() *pkgv1beta1.Lock { return &pkgv1beta1.Lock{} }, func() *pkgv1beta1.LockList { return &pkgv1beta1.LockList{} })
}

// ImageConfigs reads ImageConfigs.
func (c *Client) ImageConfigs() *imageConfigClient {
	return gentype.NewClientWithList(pkgv1beta1.ImageConfigs.Resource, c.v1beta1, c.codec, "",
		func() *pkgv1beta1.ImageConfig { return &pkgv1beta1.ImageConfig{} },
		func() *pkgv1beta1.ImageConfigList { return &pkgv1beta1.ImageConfigList{} })
}
