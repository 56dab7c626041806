package transaction

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	pkgv1beta1 "github.com/starlinghq/starling/api/pkg/v1beta1"
)

// HistoryLimit returns how many ended transactions are kept; 0 keeps all. wrong says what is wrong
// with the annotation, in which case the default is returned.
func HistoryLimit(lock *pkgv1beta1.Lock) (limit int, wrong string) {
	text, found := lock.Annotations[pkgv1beta1.AnnotationTransactionHistoryLimit]
	if !found {
		return pkgv1beta1.DefaultTransactionHistoryLimit, ""
	}
	limit, err := strconv.Atoi(text)
	if err != nil || limit < 0 {
		return pkgv1beta1.DefaultTransactionHistoryLimit, fmt.Sprintf("annotation %s: %q is not a number from 0; the default %d is used",
			pkgv1beta1.AnnotationTransactionHistoryLimit, text, pkgv1beta1.DefaultTransactionHistoryLimit)
	}
	return limit, ""
}

// Collect returns the ended transactions that exceed the limit, oldest first. The transaction that
// holds the Lock, and those that have not ended or are being deleted, are never among them. Nor are
// those whose result a gate is waiting for, which do not count.
func Collect(transactions []*pkgv1alpha1.Transaction, lock *pkgv1beta1.Lock, limit int) []*pkgv1alpha1.Transaction {
	if limit == 0 {
		return nil
	}
	var ended []*pkgv1alpha1.Transaction
	for _, tx := range transactions {
		if Ended(tx) && tx.DeletionTimestamp == nil && !Holds(lock, tx) && tx.Annotations[pkgv1.AnnotationAnswersGate] == "" {
			ended = append(ended, tx)
		}
	}
	slices.SortFunc(ended, compareAge)
	return ended[:max(len(ended)-limit, 0)]
}

// compareAge orders transactions as they held the Lock. Those that never did come first.
func compareAge(a, b *pkgv1alpha1.Transaction) int {
	return cmp.Or(cmp.Compare(a.Status.TransactionNumber, b.Status.TransactionNumber),
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// Highest returns the highest number of the transactions.
func Highest(transactions []*pkgv1alpha1.Transaction) int64 {
	highest := int64(0)
	for _, tx := range transactions {
		highest = max(highest, tx.Status.TransactionNumber)
	}
	return highest
}
