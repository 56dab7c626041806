package transaction_test

import (
	"errors"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	pkgv1beta1 "github.com/starlinghq/starling/api/pkg/v1beta1"
	"github.com/starlinghq/starling/pkg/core/transaction"
)

func named(name, uid string) *pkgv1alpha1.Transaction {
	return &pkgv1alpha1.Transaction{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid)}}
}

func numbered(tx *pkgv1alpha1.Transaction, number int64) *pkgv1alpha1.Transaction {
	tx.Status.TransactionNumber = number
	return tx
}

func ended(tx *pkgv1alpha1.Transaction) *pkgv1alpha1.Transaction {
	now := metav1.Now()
	tx.Status.CompletionTime = &now
	return tx
}

// lockOf returns a Lock; empty values leave an annotation out.
func lockOf(holder, uid, next string) *pkgv1beta1.Lock {
	lock := &pkgv1beta1.Lock{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"other": "x"}}}
	for key, value := range map[string]string{
		pkgv1beta1.AnnotationCurrentTransaction: holder, pkgv1beta1.AnnotationCurrentTransactionUID: uid, pkgv1beta1.AnnotationNextTransactionNumber: next,
	} {
		if value != "" {
			lock.Annotations[key] = value
		}
	}
	return lock
}

func TestAcquire(t *testing.T) {
	type result struct {
		Holder, UID, Next string
		Number            int64
		Written, Repaired bool
		Held              string
	}
	cases := map[string]struct {
		lock      *pkgv1beta1.Lock
		tx        *pkgv1alpha1.Transaction
		abandoned bool
		highest   int64
		want      result
	}{
		"New": {
			lock: &pkgv1beta1.Lock{}, tx: named("a", "1"),
			want: result{Holder: "a", UID: "1", Next: "2", Number: 1, Written: true},
		},
		"Free": {
			lock: lockOf("", "", "42"), tx: named("a", "1"),
			want: result{Holder: "a", UID: "1", Next: "43", Number: 42, Written: true},
		},
		"NumberStays": {
			lock: lockOf("", "", "42"), tx: numbered(named("a", "1"), 7),
			want: result{Holder: "a", UID: "1", Next: "42", Number: 7, Written: true},
		},
		"Mine": {
			lock: lockOf("a", "1", "43"), tx: numbered(named("a", "1"), 42),
			want: result{Number: 42},
		},
		"MineWithoutUID": {
			lock: lockOf("a", "", "43"), tx: numbered(named("a", "1"), 42),
			want: result{Number: 42},
		},
		"MineAndTheNumberWasNotRecorded": {
			lock: lockOf("a", "1", "43"), tx: named("a", "1"),
			want: result{Number: 42},
		},
		"OfOneOfTheSameName": {
			lock: lockOf("a", "2", "43"), tx: named("a", "1"),
			want: result{Held: "a"},
		},
		"Held": {
			lock: lockOf("b", "2", "43"), tx: named("a", "1"),
			want: result{Held: "b"},
		},
		"Abandoned": {
			lock: lockOf("b", "2", "43"), tx: named("a", "1"), abandoned: true,
			want: result{Holder: "a", UID: "1", Next: "44", Number: 43, Written: true},
		},
		"MalformedNumber": {
			lock: lockOf("", "", "x"), tx: named("a", "1"), highest: 9,
			want: result{Holder: "a", UID: "1", Next: "11", Number: 10, Written: true, Repaired: true},
		},
		"NegativeNumber": {
			lock: lockOf("", "", "-3"), tx: named("a", "1"), highest: 9,
			want: result{Holder: "a", UID: "1", Next: "11", Number: 10, Written: true, Repaired: true},
		},
		"MineAndTheNumberWasEdited": {
			lock: lockOf("a", "1", "3"), tx: numbered(named("a", "1"), 42),
			want: result{Holder: "a", UID: "1", Next: "43", Number: 42, Written: true},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := tc.lock.DeepCopy()
			acquired, err := transaction.Acquire(tc.lock, tc.tx, tc.abandoned, tc.highest)
			got := result{Number: acquired.Number, Repaired: acquired.Repaired != ""}
			if held := (*transaction.HeldError)(nil); errors.As(err, &held) {
				got.Held = held.Holder
			}
			if (err != nil) != errors.Is(err, transaction.ErrLockHeldByAnotherTransaction) {
				t.Errorf("error %v", err)
			}
			if lock := acquired.Lock; lock != nil {
				got.Written = true
				got.Holder, got.UID = transaction.Holder(lock), lock.Annotations[pkgv1beta1.AnnotationCurrentTransactionUID]
				got.Next = lock.Annotations[pkgv1beta1.AnnotationNextTransactionNumber]
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(before, tc.lock); diff != "" {
				t.Error("changed its input:", diff)
			}
		})
	}
}

func TestRelease(t *testing.T) {
	packages := []pkgv1beta1.LockPackage{{Name: "p-1"}}
	released, err := transaction.Release(lockOf("a", "1", "5"), named("a", "1"), packages)
	if err != nil {
		t.Fatal(err)
	}
	want := lockOf("", "", "5")
	want.Packages = packages
	if diff := cmp.Diff(want, released); diff != "" {
		t.Error(diff)
	}
	for name, lock := range map[string]*pkgv1beta1.Lock{"free": lockOf("", "", "5"), "held": lockOf("b", "2", "5"), "re-created": lockOf("a", "2", "5")} {
		if _, err := transaction.Release(lock, named("a", "1"), packages); !errors.Is(err, transaction.ErrTransactionDoesNotHoldLock) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestAbandoned(t *testing.T) {
	lock := lockOf("a", "1", "5")
	for name, tc := range map[string]struct {
		holder *pkgv1alpha1.Transaction
		want   bool
	}{
		"gone":       {nil, true},
		"re-created": {named("a", "2"), true},
		"ended":      {ended(named("a", "1")), true},
		"running":    {named("a", "1"), false},
	} {
		if got := transaction.Abandoned(lock, tc.holder); got != tc.want {
			t.Errorf("%s: abandoned %v, want %v", name, got, tc.want)
		}
	}
}

// TestNumbers: over random histories with crashes at any step and edits of the annotation, no two
// transactions hold the Lock, and no two get the same number.
func TestNumbers(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 0))
		lock := &pkgv1beta1.Lock{}
		transactions := make([]*pkgv1alpha1.Transaction, 6)
		for i := range transactions {
			transactions[i] = named("tx"+strconv.Itoa(i), strconv.Itoa(i))
		}
		given := map[int64]string{}
		for range 60 {
			tx := transactions[random.IntN(len(transactions))]
			if transaction.Ended(tx) {
				continue
			}
			if random.IntN(10) == 0 && transaction.Holder(lock) == "" {
				lock.Annotations = map[string]string{pkgv1beta1.AnnotationNextTransactionNumber: "edited"}
			}
			var holder *pkgv1alpha1.Transaction
			for _, other := range transactions {
				if transaction.Holds(lock, other) {
					holder = other
				}
			}
			acquired, err := transaction.Acquire(lock, tx, transaction.Abandoned(lock, holder), transaction.Highest(transactions))
			if err != nil {
				if holder == nil || transaction.Ended(holder) || holder == tx {
					t.Fatalf("seed %d: %v, but the holder is %v", seed, err, holder)
				}
				continue
			}
			if holder != nil && holder != tx && !transaction.Ended(holder) {
				t.Fatalf("seed %d: %s took the Lock of %s", seed, tx.Name, holder.Name)
			}
			if acquired.Lock != nil {
				lock = acquired.Lock
			}
			if random.IntN(4) == 0 {
				continue // crashed before the number was recorded
			}
			if other, found := given[acquired.Number]; found && other != tx.Name {
				t.Fatalf("seed %d: number %d of %s and of %s", seed, acquired.Number, other, tx.Name)
			}
			given[acquired.Number] = tx.Name
			tx.Status.TransactionNumber = acquired.Number
			switch random.IntN(3) {
			case 0:
				continue // crashed during its work
			case 1:
				ended(tx) // crashed after it recorded its end, before it released the Lock
			default:
				if lock, err = transaction.Release(lock, tx, nil); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				if random.IntN(2) == 0 {
					ended(tx)
				}
			}
		}
	}
}
