package transaction_test

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	pkgv1beta1 "github.com/starlinghq/starling/api/pkg/v1beta1"
	"github.com/starlinghq/starling/pkg/core/transaction"
)

func TestHistoryLimit(t *testing.T) {
	for text, want := range map[string]struct {
		limit int
		wrong bool
	}{"": {10, true}, "0": {0, false}, "3": {3, false}, "-1": {10, true}, "many": {10, true}} {
		lock := &pkgv1beta1.Lock{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{pkgv1beta1.AnnotationTransactionHistoryLimit: text}}}
		if limit, wrong := transaction.HistoryLimit(lock); limit != want.limit || (wrong != "") != want.wrong {
			t.Errorf("%q: limit %d, %q", text, limit, wrong)
		}
	}
	if limit, wrong := transaction.HistoryLimit(&pkgv1beta1.Lock{}); limit != 10 || wrong != "" {
		t.Errorf("without the annotation: limit %d, %q", limit, wrong)
	}
}

func TestCollect(t *testing.T) {
	deleted := ended(numbered(named("deleted", "d"), 1))
	deleted.DeletionTimestamp = &metav1.Time{Time: now}
	transactions := []*pkgv1alpha1.Transaction{
		ended(numbered(named("four", "4"), 4)), ended(numbered(named("two", "2"), 2)), numbered(named("running", "r"), 1), deleted,
		ended(numbered(named("holder", "h"), 1)), ended(numbered(named("three", "3"), 3)), ended(named("never-held", "n")),
	}
	lock := lockOf("holder", "h", "9")
	for limit, want := range map[int][]string{0: nil, 1: {"never-held", "two", "three"}, 2: {"never-held", "two"}, 4: nil, 10: nil} {
		var got []string
		for _, tx := range transaction.Collect(transactions, lock, limit) {
			got = append(got, tx.Name)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("limit %d: %s", limit, diff)
		}
	}
}

// TestCollectInAnyOrder: exactly the newest stay, in whatever order transactions are listed.
func TestCollectInAnyOrder(t *testing.T) {
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 0))
		var transactions []*pkgv1alpha1.Transaction
		count, limit := random.IntN(20), 1+random.IntN(12)
		for i := range count {
			transactions = append(transactions, ended(numbered(named("tx"+strconv.Itoa(i), strconv.Itoa(i)), int64(i+1))))
		}
		random.Shuffle(len(transactions), func(i, j int) { transactions[i], transactions[j] = transactions[j], transactions[i] })
		victims := transaction.Collect(transactions, &pkgv1beta1.Lock{}, limit)
		if len(victims) != max(count-limit, 0) {
			t.Fatalf("seed %d: %d of %d are collected, limit %d", seed, len(victims), count, limit)
		}
		if slices.ContainsFunc(victims, func(tx *pkgv1alpha1.Transaction) bool { return tx.Status.TransactionNumber > int64(count-limit) }) {
			t.Fatalf("seed %d: a new transaction is collected", seed)
		}
	}
}
