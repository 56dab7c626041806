package transaction

import (
	"errors"
	"fmt"
	"maps"
	"strconv"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	pkgv1beta1 "github.com/starlinghq/starling/api/pkg/v1beta1"
)

// Errors of the Lock.
var (
	// ErrLockHeldByAnotherTransaction is wrapped by the error of Acquire if another transaction
	// holds the Lock.
	ErrLockHeldByAnotherTransaction = errors.New("lock is held by another transaction")
	// ErrTransactionDoesNotHoldLock is wrapped by the error of Release if the transaction does not
	// hold the Lock.
	ErrTransactionDoesNotHoldLock = errors.New("transaction does not hold the lock")
)

// HeldError says which transaction holds the Lock.
type HeldError struct{ Holder string }

// Error implements error.
func (e *HeldError) Error() string {
	return fmt.Sprintf("%v: %s", ErrLockHeldByAnotherTransaction, e.Holder)
}

// Unwrap returns ErrLockHeldByAnotherTransaction.
func (e *HeldError) Unwrap() error { return ErrLockHeldByAnotherTransaction }

// Holder returns the name of the transaction that holds the Lock, "" if there is none.
func Holder(lock *pkgv1beta1.Lock) string {
	return lock.Annotations[pkgv1beta1.AnnotationCurrentTransaction]
}

// Holds reports whether the transaction holds the Lock. Another one of the same name does not.
func Holds(lock *pkgv1beta1.Lock, tx *pkgv1alpha1.Transaction) bool {
	if Holder(lock) != tx.Name {
		return false
	}
	uid, found := lock.Annotations[pkgv1beta1.AnnotationCurrentTransactionUID]
	return !found || uid == string(tx.UID)
}

// Abandoned reports whether the transaction that holds the Lock will not release it, so that
// another one may take it. The holder is the transaction of the name Holder(lock) as the API server
// returned it, nil if there is none: what a cache lacks may exist.
func Abandoned(lock *pkgv1beta1.Lock, holder *pkgv1alpha1.Transaction) bool {
	return holder == nil || !Holds(lock, holder) || Ended(holder)
}

// MayInstall reports whether the transaction that holds the Lock may be about to install a package,
// as a dependency: its proposal has the package, or is not known yet.
func MayInstall(holder *pkgv1alpha1.Transaction, p *pkgv1.Provider) bool {
	proposed := holder.Status.ProposedLockPackages
	return len(proposed) == 0 || Find(proposed, sourceOf(p.Spec.Package)) != nil
}

// Acquired is the Lock as a transaction needs it.
type Acquired struct {
	// Lock is the Lock to write; nil if it is as it must be.
	Lock *pkgv1beta1.Lock
	// Number is the number of the transaction.
	Number int64
	// Repaired says what was wrong with the annotations of the Lock, "" if nothing was.
	Repaired string
}

// Acquire returns what makes the transaction the holder of the Lock. The error is a *HeldError if
// another one holds it and has not abandoned it. highest is the highest number of all transactions;
// it counts only if the Lock does not have the next one.
func Acquire(lock *pkgv1beta1.Lock, tx *pkgv1alpha1.Transaction, abandoned bool, highest int64) (Acquired, error) {
	next, repaired := nextNumber(lock, highest)
	number := tx.Status.TransactionNumber
	if Holds(lock, tx) {
		if number == 0 {
			number = max(next-1, 1) // the number was given, and then not recorded
		}
		if repaired == "" && next > number {
			return Acquired{Number: number}, nil
		}
	} else if holder := Holder(lock); holder != "" && !abandoned {
		return Acquired{}, &HeldError{Holder: holder}
	}
	if number == 0 {
		number = next
	}
	written := withAnnotations(lock, map[string]string{
		pkgv1beta1.AnnotationCurrentTransaction:    tx.Name,
		pkgv1beta1.AnnotationCurrentTransactionUID: string(tx.UID),
		pkgv1beta1.AnnotationNextTransactionNumber: strconv.FormatInt(max(next, number+1), 10),
	})
	return Acquired{Lock: written, Number: number, Repaired: repaired}, nil
}

// KnowsNext reports whether the Lock has the number of the next transaction.
func KnowsNext(lock *pkgv1beta1.Lock) bool {
	const none = -1
	number, _ := nextNumber(lock, none-1)
	return number != none
}

// nextNumber returns the number of the next transaction, and what was wrong with the annotation.
func nextNumber(lock *pkgv1beta1.Lock, highest int64) (number int64, wrong string) {
	text, found := lock.Annotations[pkgv1beta1.AnnotationNextTransactionNumber]
	if !found {
		return highest + 1, ""
	}
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil || number < 1 {
		return highest + 1, fmt.Sprintf("annotation %s: %q is not a positive number; continued with %d",
			pkgv1beta1.AnnotationNextTransactionNumber, text, highest+1)
	}
	return number, ""
}

// Release returns the Lock with these packages and without holder. The error wraps
// ErrTransactionDoesNotHoldLock if the transaction is not the holder.
func Release(lock *pkgv1beta1.Lock, tx *pkgv1alpha1.Transaction, packages []pkgv1beta1.LockPackage) (*pkgv1beta1.Lock, error) {
	if !Holds(lock, tx) {
		if holder := Holder(lock); holder != "" {
			return nil, fmt.Errorf("%w: %s holds it", ErrTransactionDoesNotHoldLock, holder)
		}
		return nil, ErrTransactionDoesNotHoldLock
	}
	released := withAnnotations(lock, nil)
	delete(released.Annotations, pkgv1beta1.AnnotationCurrentTransaction)
	delete(released.Annotations, pkgv1beta1.AnnotationCurrentTransactionUID)
	released.Packages = packages
	return released, nil
}

// withAnnotations returns a copy of the Lock with further annotations.
func withAnnotations(lock *pkgv1beta1.Lock, annotations map[string]string) *pkgv1beta1.Lock {
	copied := lock.DeepCopy()
	if copied.Annotations == nil {
		copied.Annotations = map[string]string{}
	}
	maps.Copy(copied.Annotations, annotations)
	return copied
}
