package cli

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	pkgv1beta1 "github.com/starlinghq/starling/api/pkg/v1beta1"
	"github.com/starlinghq/starling/pkg/core/transaction"
	"github.com/starlinghq/starling/pkg/core/transaction/report"
	"github.com/starlinghq/starling/pkg/transactions"
)

// getLock returns the Lock, nil if there is none.
func getLock(ctx context.Context, client *transactions.Client) (*pkgv1beta1.Lock, error) {
	lock, err := client.Locks().Get(ctx, pkgv1beta1.LockName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // nothing was installed yet
	}
	return lock, err
}

// factsOf returns what is known of a Transaction, or of the last one of a package.
func factsOf(ctx context.Context, client *transactions.Client, name string, ref transactions.Ref, now time.Time) (*report.Facts, error) {
	f := &report.Facts{Kind: ref.Kind, Now: now}
	var err error
	if ref.Name == "" {
		if f.Transaction, err = client.Transactions().Get(ctx, name, metav1.GetOptions{}); err != nil {
			return nil, err
		}
		ref, _ = transactions.PackageOf(f.Transaction)
		f.Kind = ref.Kind
	} else {
		kind, _ := transactions.KindOf(ref.Kind)
		if f.Package, err = client.Packages(kind).Get(ctx, ref.Name, metav1.GetOptions{}); err != nil {
			return nil, err
		}
		all, err := client.Transactions().List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		f.Transaction = transaction.Last(ofPackage(all, f.Package))
	}
	if f.Lock, err = getLock(ctx, client); err != nil || f.Lock == nil {
		return f, err
	}
	if holder := transaction.Holder(f.Lock); holder != "" {
		f.Holder, err = client.Transactions().Get(ctx, holder, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			f.Holder, err = nil, nil
		}
	}
	return f, err
}

// ofPackage returns the Transactions that a package has created.
func ofPackage(all *pkgv1alpha1.TransactionList, p *pkgv1.Provider) []*pkgv1alpha1.Transaction {
	var own []*pkgv1alpha1.Transaction
	for i := range all.Items {
		if _, uid := transactions.PackageOf(&all.Items[i]); uid != "" && uid == p.UID {
			own = append(own, &all.Items[i])
		}
	}
	return own
}

// treeOf returns what is installed.
func treeOf(ctx context.Context, client *transactions.Client) (report.Tree, error) {
	lock, err := getLock(ctx, client)
	if err != nil {
		return report.Tree{}, err
	}
	all, err := client.Transactions().List(ctx, metav1.ListOptions{})
	if err != nil {
		return report.Tree{}, err
	}
	var objects []report.Object
	for _, kind := range transactions.Kinds {
		packages, err := client.Packages(kind).List(ctx, metav1.ListOptions{})
		if err != nil {
			return report.Tree{}, fmt.Errorf("list %s: %w", kind.Packages.Resource, err)
		}
		revisions, err := client.Revisions(kind).List(ctx, metav1.ListOptions{})
		if err != nil {
			return report.Tree{}, fmt.Errorf("list %s: %w", kind.Revisions.Resource, err)
		}
		for i := range packages.Items {
			o := report.Object{Kind: kind.Name, Package: &packages.Items[i], Transactions: ofPackage(all, &packages.Items[i])}
			for j := range revisions.Items {
				if revisions.Items[j].Labels[pkgv1.LabelPackage] == o.Package.Name {
					o.Revisions = append(o.Revisions, &revisions.Items[j])
				}
			}
			objects = append(objects, o)
		}
	}
	return report.NewTree(lock, objects), nil
}
