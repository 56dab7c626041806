package transaction_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/transaction"
)

var now = time.Date(2026, 1, 15, 10, 34, 0, 0, time.UTC)

func condition(kind, status, reason, message string) metav1.Condition {
	return metav1.Condition{
		Type: kind, Status: metav1.ConditionStatus(status), Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(now), ObservedGeneration: 1,
	}
}

// TestTimeOfAChange: the time of a condition moves with its status, reason or message, and only
// then.
func TestTimeOfAChange(t *testing.T) {
	tx := &pkgv1alpha1.Transaction{}
	at := func(minute int) transaction.Recorder {
		return transaction.Record(tx, now.Add(time.Duration(minute)*time.Minute))
	}
	moved := func() (minutes int) {
		ready := meta.FindStatusCondition(tx.Status.Conditions, "Ready")
		return int(ready.LastTransitionTime.Sub(now.Truncate(time.Second)).Minutes())
	}
	var got []int
	at(0).Blocked("tx-a")
	got = append(got, moved())
	at(1).Blocked("tx-a")
	got = append(got, moved()) // nothing has changed
	at(2).Blocked("tx-b")
	got = append(got, moved()) // another message
	at(3).Started(1)
	got = append(got, moved()) // another reason, and still Unknown
	if diff := cmp.Diff([]int{0, 0, 2, 3}, got); diff != "" {
		t.Error(diff)
	}
}

func TestJoinFailures(t *testing.T) {
	got := transaction.JoinFailures([]*transaction.FailedError{{Reason: "A", Message: "a is wrong"}, {Reason: "B", Message: "cluster c: b is wrong"}})
	if diff := cmp.Diff(&transaction.FailedError{Reason: "A", Message: "a is wrong; cluster c: b is wrong"}, got); diff != "" {
		t.Error(diff)
	}
}

// TestStatus compares the whole status with the examples of the API.
func TestStatus(t *testing.T) {
	synced := condition("Synced", "True", "ReconcileSuccess", "")
	validated := condition("Validated", "True", "AllValidationsPassed", "Pre-flight validation completed successfully")
	pending := condition("Installed", "Unknown", "InstallationPending", "Installation pending validation completion")
	unvalidated := condition("Validated", "Unknown", "ValidationPending", "Validation has not ended")
	end := metav1.NewTime(now)
	limit := int64(1)
	cases := map[string]struct {
		do   func(transaction.Recorder)
		want pkgv1alpha1.TransactionStatus
	}{
		"Blocked": {
			do: func(r transaction.Recorder) { r.Blocked("tx-b") },
			want: pkgv1alpha1.TransactionStatus{Conditions: []metav1.Condition{
				unvalidated, pending, synced,
				condition("Ready", "Unknown", "TransactionBlocked", "waiting for transaction tx-b, which holds the Lock"),
			}},
		},
		"Started": {
			do: func(r transaction.Recorder) { r.Started(42) },
			want: pkgv1alpha1.TransactionStatus{TransactionNumber: 42, StartTime: &end, Conditions: []metav1.Condition{
				unvalidated, pending,
				condition("Ready", "Unknown", "TransactionInProgress", "Transaction is currently executing"),
			}},
		},
		"Installing": {
			do: func(r transaction.Recorder) { r.Validated() },
			want: pkgv1alpha1.TransactionStatus{Conditions: []metav1.Condition{
				validated, synced,
				condition("Installed", "Unknown", "InstallationInProgress", "Package installation in progress"),
				condition("Ready", "Unknown", "TransactionInProgress", "Transaction is currently executing"),
			}},
		},
		"Invalid": {
			do: func(r transaction.Recorder) {
				r.Invalid(&transaction.FailedError{Reason: "MissingDependency", Message: "Package provider-aws-s3 requires provider-family-aws >=v1.1.0, but no compatible version found"})
			},
			want: pkgv1alpha1.TransactionStatus{Failures: 1, Conditions: []metav1.Condition{
				condition("Validated", "False", "MissingDependency", "Package provider-aws-s3 requires provider-family-aws >=v1.1.0, but no compatible version found"),
				pending, synced,
				condition("Ready", "False", "ValidationFailed", "Transaction validation failed"),
			}},
		},
		"NotInstalled": {
			do: func(r transaction.Recorder) {
				r.Validated()
				r.NotInstalled(&transaction.FailedError{Reason: "CRDInstallationFailed", Message: "Failed to install CRD buckets.s3.aws.crossplane.io"})
			},
			want: pkgv1alpha1.TransactionStatus{Failures: 1, Conditions: []metav1.Condition{
				validated, synced,
				condition("Installed", "False", "CRDInstallationFailed", "Failed to install CRD buckets.s3.aws.crossplane.io"),
				condition("Ready", "False", "InstallationFailed", "Transaction installation failed"),
			}},
		},
		"InvalidAfterAFailedInstallation": { // it must not say that nothing was changed
			do: func(r transaction.Recorder) {
				r.Validated()
				r.NotInstalled(&transaction.FailedError{Reason: "CRDInstallationFailed", Message: "Failed to install CRD buckets.s3.aws.crossplane.io"})
				r.Invalid(&transaction.FailedError{Reason: "MissingDependency", Message: "gone"})
			},
			want: pkgv1alpha1.TransactionStatus{Failures: 2, Conditions: []metav1.Condition{
				condition("Validated", "False", "MissingDependency", "gone"), synced,
				condition("Installed", "False", "CRDInstallationFailed", "Failed to install CRD buckets.s3.aws.crossplane.io"),
				condition("Ready", "False", "InstallationFailed", "Transaction installation failed"),
			}},
		},
		"InvalidAfterAnInterruption": {
			do: func(r transaction.Recorder) {
				r.Validated()
				r.Invalid(&transaction.FailedError{Reason: "MissingDependency", Message: "gone"})
			},
			want: pkgv1alpha1.TransactionStatus{Failures: 1, Conditions: []metav1.Condition{
				condition("Validated", "False", "MissingDependency", "gone"), synced,
				condition("Installed", "False", "PackageInstallationFailed", "Package installation has begun, and does not go on"),
				condition("Ready", "False", "InstallationFailed", "Transaction installation failed"),
			}},
		},
		"Complete": {
			do: func(r transaction.Recorder) { r.Validated(); r.Installed(""); r.Complete() },
			want: pkgv1alpha1.TransactionStatus{CompletionTime: &end, Conditions: []metav1.Condition{
				validated, synced,
				condition("Installed", "True", "InstallationComplete", "Package installation completed successfully"),
				condition("Ready", "True", "TransactionComplete", "Transaction completed successfully"),
			}},
		},
		"OnlyValidated": {
			do: func(r transaction.Recorder) { r.OnlyValidated() },
			want: pkgv1alpha1.TransactionStatus{CompletionTime: &end, Conditions: []metav1.Condition{
				validated, synced,
				condition("Installed", "Unknown", "ValidateOnly", "Only validation was requested; nothing was changed"),
				condition("Ready", "True", "TransactionComplete", "Transaction completed successfully"),
			}},
		},
		"Superseded": {
			do: func(r transaction.Recorder) { r.Superseded("the package has changed") },
			want: pkgv1alpha1.TransactionStatus{CompletionTime: &end, Conditions: []metav1.Condition{
				unvalidated, pending, synced,
				condition("Ready", "False", "Superseded", "the package has changed"),
			}},
		},
		"RegistryIsDown": {
			do: func(r transaction.Recorder) { r.Started(1); r.Interrupted(errors.New("no answer"), true) },
			want: pkgv1alpha1.TransactionStatus{Failures: 1, TransactionNumber: 1, StartTime: &end, Conditions: []metav1.Condition{
				unvalidated, pending,
				condition("Ready", "Unknown", "TransactionInProgress", "Transaction is currently executing"),
				condition("Synced", "False", "ReconcileError", "no answer"),
			}},
		},
		"RegistryIsDownAtTheLastTry": {
			do: func(r transaction.Recorder) {
				for range 5 {
					r.Interrupted(errors.New("no answer"), true)
				}
			},
			want: pkgv1alpha1.TransactionStatus{Failures: 5, CompletionTime: &end, Conditions: []metav1.Condition{
				condition("Synced", "False", "ReconcileError", "no answer"),
				condition("Ready", "False", "ValidationFailed", "Transaction validation failed: no answer"),
			}},
		},
		"ConflictOfWrites": {
			do: func(r transaction.Recorder) { r.Interrupted(errors.New("conflict"), false) },
			want: pkgv1alpha1.TransactionStatus{Conditions: []metav1.Condition{
				condition("Synced", "False", "ReconcileError", "conflict"),
			}},
		},
	}
	sorted := cmpopts.SortSlices(func(a, b metav1.Condition) bool { return a.Type < b.Type })
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tx := &pkgv1alpha1.Transaction{ObjectMeta: metav1.ObjectMeta{Generation: 1}}
			tc.do(transaction.Record(tx, now))
			if diff := cmp.Diff(tc.want, tx.Status, sorted); diff != "" {
				t.Error(diff)
			}
		})
	}

	tx := &pkgv1alpha1.Transaction{Spec: pkgv1alpha1.TransactionSpec{RetryLimit: &limit}}
	transaction.Record(tx, now).Invalid(&transaction.FailedError{Reason: "x"})
	if !transaction.Ended(tx) || transaction.Succeeded(tx) {
		t.Errorf("after its only try: %+v", tx.Status)
	}
}

// TestLimit: each transaction is tried at least once.
func TestLimit(t *testing.T) {
	zero, three := int64(0), int64(3)
	for limit, want := range map[*int64]int64{nil: 5, &zero: 1, &three: 3} {
		if got := transaction.Limit(&pkgv1alpha1.Transaction{Spec: pkgv1alpha1.TransactionSpec{RetryLimit: limit}}); got != want {
			t.Errorf("limit %v: %d tries, want %d", limit, got, want)
		}
	}
}

func TestPause(t *testing.T) {
	for failures, want := range map[int64]time.Duration{0: 5 * time.Second, 1: 5 * time.Second, 2: 10 * time.Second, 5: 80 * time.Second, 7: 5 * time.Minute, 1 << 40: 5 * time.Minute} {
		if got := transaction.Pause(failures); got != want {
			t.Errorf("after %d failures: %s, want %s", failures, got, want)
		}
	}
}

func TestFailedErrorsAreComparedByReason(t *testing.T) {
	err := error(&transaction.FailedError{Reason: "VersionConflict", Message: "a"})
	if !errors.Is(err, &transaction.FailedError{Reason: "VersionConflict"}) || errors.Is(err, &transaction.FailedError{Reason: "CRDConflict"}) {
		t.Error("errors.Is does not compare the reason")
	}
}
