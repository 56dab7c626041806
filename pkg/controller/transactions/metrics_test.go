package transactions

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
)

// TestLockTimes: each try waits, all tries of an installation hold the Lock once, and nothing
// is kept of a Transaction that has ended.
func TestLockTimes(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	tx := &pkgv1alpha1.Transaction{ObjectMeta: metav1.ObjectMeta{UID: types.UID("1"), CreationTimestamp: metav1.NewTime(at(0))}}
	l := newLockTimes()

	l.want(tx, at(10))
	l.want(tx, at(12))
	if waited, acquired := l.acquire(tx, at(15)); !acquired || waited != 15*time.Second {
		t.Errorf("the first try waited %s (%t), want 15s since the creation", waited, acquired)
	}
	l.want(tx, at(16))
	if _, acquired := l.acquire(tx, at(17)); acquired {
		t.Error("a Transaction that holds the Lock acquired it again")
	}
	if held, released := l.release(tx, at(20)); !released || held != 5*time.Second {
		t.Errorf("held %s (%t), want 5s", held, released)
	}
	if _, released := l.release(tx, at(21)); released {
		t.Error("released twice")
	}

	tx.Status.TransactionNumber = 1
	l.want(tx, at(30))
	if waited, acquired := l.acquire(tx, at(31)); !acquired || waited != time.Second {
		t.Errorf("the second try waited %s (%t), want 1s", waited, acquired)
	}
	l.release(tx, at(32))
	l.want(tx, at(40))
	tx.DeletionTimestamp = &metav1.Time{Time: at(41)}
	l.release(tx, at(41))
	if len(l.wanted)+len(l.holder) > 0 {
		t.Errorf("%d and %d times are left", len(l.wanted), len(l.holder))
	}
}
