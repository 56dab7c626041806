// Package lock acquires and releases the Lock of a workload definition space for Transactions.
package lock

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	pkgv1beta1 "github.com/starlinghq/starling/api/pkg/v1beta1"
	"github.com/starlinghq/starling/pkg/core/transaction"
	"github.com/starlinghq/starling/pkg/writer"
)

// Reader reads single objects from the API server. What a cache has may be old, and the Lock
// decides what is installed.
type Reader interface {
	Lock(ctx context.Context) (*pkgv1beta1.Lock, error)
	Transaction(ctx context.Context, name string) (*pkgv1alpha1.Transaction, error)
	// Highest returns the highest number of all Transactions.
	Highest(ctx context.Context) (int64, error)
}

// Manager gives the Lock to one Transaction at a time. It keeps no state, so several may work on
// one Lock: each write is based on the resourceVersion that it decided on.
type Manager struct {
	Reader Reader
	Writer *writer.Writer
}

var target = writer.Target{Resource: pkgv1beta1.Locks, Name: pkgv1beta1.LockName}

// Held is the Lock while a Transaction holds it.
type Held struct {
	// Packages are those that are installed.
	Packages []pkgv1beta1.LockPackage
	// Number is the number of the Transaction. The caller records it before it does anything else.
	Number int64
	// Repaired says what was wrong with annotations of the Lock, "" if nothing was.
	Repaired string
}

// Acquire makes the Transaction the holder, or finds that it is. The error wraps
// transaction.ErrLockHeldByAnotherTransaction if another one is; it is a *transaction.HeldError
// then, unless another was quicker.
func (m *Manager) Acquire(ctx context.Context, tx *pkgv1alpha1.Transaction) (Held, error) {
	lock, err := m.read(ctx)
	if err != nil {
		return Held{}, err
	}
	abandoned := false
	if transaction.Holder(lock) != "" && !transaction.Holds(lock, tx) {
		holder, err := m.holder(ctx, lock)
		if err != nil {
			return Held{}, err
		}
		abandoned = holder == nil
	}
	highest := int64(0)
	if !transaction.KnowsNext(lock) {
		if highest, err = m.Reader.Highest(ctx); err != nil {
			return Held{}, fmt.Errorf("list transactions: %w", err)
		}
	}
	acquired, err := transaction.Acquire(lock, tx, abandoned, highest)
	if err != nil {
		return Held{}, err
	}
	held := Held{Packages: lock.Packages, Number: acquired.Number, Repaired: acquired.Repaired}
	if acquired.Lock == nil {
		return held, nil
	}
	switch _, err := m.Writer.Update(ctx, target, acquired.Lock, "acquire"); {
	case apierrors.IsConflict(err):
		return Held{}, fmt.Errorf("%w, or it was changed at this moment", transaction.ErrLockHeldByAnotherTransaction)
	case err != nil:
		return Held{}, err
	}
	return held, nil
}

// Commit records these packages in the Lock and releases it, in one write. The error wraps
// transaction.ErrTransactionDoesNotHoldLock if the Transaction does not hold it.
func (m *Manager) Commit(ctx context.Context, tx *pkgv1alpha1.Transaction, packages []pkgv1beta1.LockPackage) error {
	return m.release(ctx, tx, func(*pkgv1beta1.Lock) []pkgv1beta1.LockPackage { return packages }, "commit")
}

// Release releases the Lock, and leaves the packages as they are. It does nothing if the
// Transaction does not hold it.
func (m *Manager) Release(ctx context.Context, tx *pkgv1alpha1.Transaction) error {
	err := m.release(ctx, tx, func(lock *pkgv1beta1.Lock) []pkgv1beta1.LockPackage { return lock.Packages }, "release")
	if errors.Is(err, transaction.ErrTransactionDoesNotHoldLock) {
		return nil
	}
	return err
}

func (m *Manager) release(ctx context.Context, tx *pkgv1alpha1.Transaction, packages func(*pkgv1beta1.Lock) []pkgv1beta1.LockPackage, reason string) error {
	lock, err := m.read(ctx)
	if err != nil {
		return err
	}
	released, err := transaction.Release(lock, tx, packages(lock))
	if err != nil {
		return err
	}
	_, err = m.Writer.Update(ctx, target, released, reason)
	return err
}

// Holder returns the Transaction that holds the Lock, nil if none does.
func (m *Manager) Holder(ctx context.Context) (*pkgv1alpha1.Transaction, error) {
	lock, err := m.Reader.Lock(ctx)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // there is none, which is not an error
	} else if err != nil {
		return nil, fmt.Errorf("get Lock %q: %w", pkgv1beta1.LockName, err)
	}
	return m.holder(ctx, lock)
}

// holder returns the Transaction that holds the Lock and has not abandoned it, nil if none does.
func (m *Manager) holder(ctx context.Context, lock *pkgv1beta1.Lock) (*pkgv1alpha1.Transaction, error) {
	name := transaction.Holder(lock)
	if name == "" {
		return nil, nil //nolint:nilnil // there is none, which is not an error
	}
	switch holder, err := m.Reader.Transaction(ctx, name); {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // there is none, which is not an error
	case err != nil:
		return nil, fmt.Errorf("get transaction %q, which holds the Lock: %w", name, err)
	case transaction.Abandoned(lock, holder):
		return nil, nil //nolint:nilnil // there is none, which is not an error
	default:
		return holder, nil
	}
}

// Holds reports whether the Transaction holds the Lock.
func (m *Manager) Holds(ctx context.Context, tx *pkgv1alpha1.Transaction) (bool, error) {
	lock, err := m.Reader.Lock(ctx)
	if apierrors.IsNotFound(err) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("get Lock %q: %w", pkgv1beta1.LockName, err)
	}
	return transaction.Holds(lock, tx), nil
}

// read returns the Lock, which it creates if there is none.
func (m *Manager) read(ctx context.Context) (*pkgv1beta1.Lock, error) {
	lock, err := m.Reader.Lock(ctx)
	if apierrors.IsNotFound(err) {
		created := &pkgv1beta1.Lock{ObjectMeta: metav1.ObjectMeta{Name: pkgv1beta1.LockName}}
		created.SetGroupVersionKind(pkgv1beta1.GroupVersion.WithKind("Lock"))
		if _, err := m.Writer.Create(ctx, target, created, "missing"); err != nil && !apierrors.IsAlreadyExists(err) {
			return nil, err
		}
		lock, err = m.Reader.Lock(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("get Lock %q: %w", pkgv1beta1.LockName, err)
	}
	lock.SetGroupVersionKind(pkgv1beta1.GroupVersion.WithKind("Lock"))
	return lock, nil
}
