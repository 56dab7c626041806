package transaction

import (
	"fmt"
	"math"
	"strings"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/text"
)

// Texts of conditions. The seed of the API fixes them.
const (
	messageValidated  = "Pre-flight validation completed successfully"
	messageInstalled  = "Package installation completed successfully"
	messageComplete   = "Transaction completed successfully"
	messagePending    = "Installation pending validation completion"
	messageInstalling = "Package installation in progress"
	messageInProgress = "Transaction is currently executing"
	messageInvalid    = "Transaction validation failed"
	messageFailed     = "Transaction installation failed"
	messageGivenUp    = "Package installation has begun, and does not go on"
)

// FailedError is an error with a reason that a condition shows.
type FailedError struct {
	// Reason is a reason of the condition Validated or Installed.
	Reason string
	// Message says what is wrong, for which objects, and what to do.
	Message string
}

// Error implements error.
func (e *FailedError) Error() string { return e.Message }

// OutageError says that a space of the hub cannot be reached. That is no fault of a package, so it
// does not count as a try.
type OutageError struct {
	// What names it: "space its1".
	What string
	// Err is why.
	Err error
}

// Error implements error.
func (e *OutageError) Error() string {
	return fmt.Sprintf("%s cannot be reached, which does not count as a try; the transaction continues when it can: %v", e.What, e.Err)
}

// Unwrap returns why.
func (e *OutageError) Unwrap() error { return e.Err }

// AccessError says that a registry does not let a package be read. The user may be about to give
// the credentials, so it does not count as a try.
type AccessError struct {
	// Source is the repository.
	Source string
	// Err is what the registry says.
	Err error
}

// Error implements error.
func (e *AccessError) Error() string {
	host, _, _ := strings.Cut(e.Source, "/")
	return fmt.Sprintf("%s cannot be read, which does not count as a try: %v. If it exists, put credentials into a Secret of type kubernetes.io/dockerconfigjson "+
		"in namespace starling-system, and name it in spec.packagePullSecrets of the package, or in an ImageConfig with the prefix %s/", e.Source, e.Err, host)
}

// Unwrap returns what the registry says.
func (e *AccessError) Unwrap() error { return e.Err }

// AccessPause is how long to wait before the next try when a registry does not let a package be
// read: registries lock out who tries too often.
const AccessPause = time.Minute

// OutagePause is how long to wait before the next try when a space cannot be reached.
const OutagePause = 10 * time.Second

// Is reports whether the other error has the same reason.
func (e *FailedError) Is(other error) bool {
	failed, ok := other.(*FailedError)
	return ok && failed.Reason == e.Reason
}

// JoinFailures returns one failure with the messages of all, and the reason of the first.
func JoinFailures(failures []*FailedError) *FailedError {
	var messages []string
	for _, failed := range failures {
		messages = append(messages, failed.Message)
	}
	return &FailedError{Reason: failures[0].Reason, Message: strings.Join(messages, "; ")}
}

// Ended reports whether a transaction is over, with or without success.
func Ended(tx *pkgv1alpha1.Transaction) bool { return tx.Status.CompletionTime != nil }

// Succeeded reports whether a transaction has ended with success.
func Succeeded(tx *pkgv1alpha1.Transaction) bool {
	return Ended(tx) && meta.IsStatusConditionTrue(tx.Status.Conditions, pkgv1alpha1.TransactionConditionReady)
}

// Begun reports whether a transaction has begun to install, and has not ended that with success: a
// part of the change may be written.
func Begun(status *pkgv1alpha1.TransactionStatus) bool {
	installed := meta.FindStatusCondition(status.Conditions, pkgv1alpha1.TransactionConditionInstalled)
	return installed != nil && installed.Status != metav1.ConditionTrue &&
		installed.Reason != pkgv1alpha1.ReasonInstallationPending && installed.Reason != pkgv1alpha1.ReasonValidateOnly
}

// Unlimited reports whether a transaction is tried until it succeeds.
func Unlimited(tx *pkgv1alpha1.Transaction) bool { return Limit(tx) == math.MaxInt64 }

// ValidateOnly reports whether a transaction ends after its validation.
func ValidateOnly(tx *pkgv1alpha1.Transaction) bool {
	return tx.Annotations[pkgv1.AnnotationValidateOnly] == "true"
}

// Recorder sets the conditions of a transaction.
type Recorder struct {
	tx  *pkgv1alpha1.Transaction
	now metav1.Time
}

// Record returns a Recorder that changes the status of this transaction.
func Record(tx *pkgv1alpha1.Transaction, now time.Time) Recorder {
	return Recorder{tx: tx, now: metav1.NewTime(now).Rfc3339Copy()}
}

// maxMessage bounds the message of a condition: what packages and registries say may be of any
// length, and the API server refuses a status with a longer one than 32 KiB. The status of a
// package quotes it.
const maxMessage = 16 << 10

// setCondition sets a condition. Its time is that of the last change of its status, reason or
// message, as for all conditions of pkg.crossplane.io; elsewhere in Kubernetes only the status
// counts.
func setCondition(conditions *[]metav1.Condition, c metav1.Condition) {
	if before := meta.FindStatusCondition(*conditions, c.Type); before != nil && (before.Reason != c.Reason || before.Message != c.Message) {
		before.LastTransitionTime = c.LastTransitionTime
	}
	meta.SetStatusCondition(conditions, c)
}

func (r Recorder) set(kind string, status metav1.ConditionStatus, reason, message string) {
	setCondition(&r.tx.Status.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: text.Clip(message, maxMessage),
		ObservedGeneration: r.tx.Generation, LastTransitionTime: r.now,
	})
}

func (r Recorder) synced() {
	r.set(pkgv1alpha1.TransactionConditionSynced, metav1.ConditionTrue, pkgv1.ReasonReconcileSuccess, "")
}

// Blocked records that another transaction holds the Lock.
func (r Recorder) Blocked(holder string) {
	r.pending()
	r.set(pkgv1alpha1.TransactionConditionReady, metav1.ConditionUnknown, pkgv1alpha1.ReasonTransactionBlocked,
		"waiting for transaction "+holder+", which holds the Lock")
	r.synced()
}

// Paused records that the transaction is not reconciled.
func (r Recorder) Paused() {
	r.set(pkgv1alpha1.TransactionConditionSynced, metav1.ConditionFalse, pkgv1.ReasonReconcilePaused,
		"remove the annotation "+pkgv1.AnnotationPaused+" to continue")
}

// pending sets what holds before the first validation has ended.
func (r Recorder) pending() {
	if meta.FindStatusCondition(r.tx.Status.Conditions, pkgv1alpha1.TransactionConditionValidated) == nil {
		r.set(pkgv1alpha1.TransactionConditionValidated, metav1.ConditionUnknown, pkgv1alpha1.ReasonValidationPending, "Validation has not ended")
	}
	if meta.FindStatusCondition(r.tx.Status.Conditions, pkgv1alpha1.TransactionConditionInstalled) == nil {
		r.set(pkgv1alpha1.TransactionConditionInstalled, metav1.ConditionUnknown, pkgv1alpha1.ReasonInstallationPending, messagePending)
	}
}

// Started records that the transaction holds the Lock and has this number. It reports whether that
// was not recorded before.
func (r Recorder) Started(number int64) bool {
	before := r.tx.Status.DeepCopy()
	r.tx.Status.TransactionNumber = number
	if r.tx.Status.StartTime == nil {
		r.tx.Status.StartTime = &r.now
	}
	r.pending()
	r.set(pkgv1alpha1.TransactionConditionReady, metav1.ConditionUnknown, pkgv1alpha1.ReasonTransactionInProgress, messageInProgress)
	return !equal(before, &r.tx.Status)
}

// Validated records that the validation has passed, and that the installation begins.
func (r Recorder) Validated() {
	r.set(pkgv1alpha1.TransactionConditionValidated, metav1.ConditionTrue, pkgv1alpha1.ReasonAllValidationsPassed, messageValidated)
	r.set(pkgv1alpha1.TransactionConditionInstalled, metav1.ConditionUnknown, pkgv1alpha1.ReasonInstallationInProgress, messageInstalling)
	r.set(pkgv1alpha1.TransactionConditionReady, metav1.ConditionUnknown, pkgv1alpha1.ReasonTransactionInProgress, messageInProgress)
	r.synced()
}

// OnlyValidated records that the validation has passed, and that this was all. The transaction has
// ended.
func (r Recorder) OnlyValidated() {
	r.set(pkgv1alpha1.TransactionConditionValidated, metav1.ConditionTrue, pkgv1alpha1.ReasonAllValidationsPassed, messageValidated)
	r.set(pkgv1alpha1.TransactionConditionInstalled, metav1.ConditionUnknown, pkgv1alpha1.ReasonValidateOnly, "Only validation was requested; nothing was changed")
	r.set(pkgv1alpha1.TransactionConditionReady, metav1.ConditionTrue, pkgv1alpha1.ReasonTransactionComplete, messageComplete)
	r.synced()
	r.tx.Status.CompletionTime = &r.now
}

// Installed records that the change is done, and that only the Lock is left to write. note, unless
// it is empty, is added to the message.
func (r Recorder) Installed(note string) {
	message := messageInstalled
	if note != "" {
		message += ". " + note
	}
	r.set(pkgv1alpha1.TransactionConditionInstalled, metav1.ConditionTrue, pkgv1alpha1.ReasonInstallationComplete, message)
	r.synced()
}

// Complete records that the change is done and that the Lock lists it. The transaction has ended.
func (r Recorder) Complete() {
	r.set(pkgv1alpha1.TransactionConditionReady, metav1.ConditionTrue, pkgv1alpha1.ReasonTransactionComplete, messageComplete)
	r.synced()
	r.tx.Status.CompletionTime = &r.now
}

// Superseded records that the package has changed since, so that nothing is left to do. The
// transaction has ended.
func (r Recorder) Superseded(by string) {
	r.pending()
	r.givenUp()
	r.set(pkgv1alpha1.TransactionConditionReady, metav1.ConditionFalse, pkgv1alpha1.ReasonSuperseded, by)
	r.synced()
	r.tx.Status.CompletionTime = &r.now
}

// Interrupted records an error that is no failure of the transaction: a registry or an API server
// did not answer, say. It counts as a try all the same, unless counts is false.
func (r Recorder) Interrupted(err error, counts bool) {
	r.set(pkgv1alpha1.TransactionConditionSynced, metav1.ConditionFalse, pkgv1.ReasonReconcileError, err.Error())
	if counts {
		r.failed()
	}
	if Ended(r.tx) {
		reason, message := r.failure()
		r.set(pkgv1alpha1.TransactionConditionReady, metav1.ConditionFalse, reason, message+": "+err.Error())
	}
}

// failure returns what a failure is of: of the installation if an earlier try has written a part.
func (r Recorder) failure() (reason, message string) {
	if Begun(&r.tx.Status) {
		return pkgv1alpha1.ReasonInstallationFailed, messageFailed
	}
	return pkgv1alpha1.ReasonValidationFailed, messageInvalid
}

// Invalid records that the validation has failed. What an earlier try has written stays recorded.
func (r Recorder) Invalid(failure *FailedError) {
	r.failed()
	reason, message := r.failure()
	r.set(pkgv1alpha1.TransactionConditionValidated, metav1.ConditionFalse, failure.Reason, failure.Message)
	r.set(pkgv1alpha1.TransactionConditionReady, metav1.ConditionFalse, reason, message)
	if !r.givenUp() {
		r.set(pkgv1alpha1.TransactionConditionInstalled, metav1.ConditionUnknown, pkgv1alpha1.ReasonInstallationPending, messagePending)
	}
	r.synced()
}

// givenUp records that an installation which has begun does not go on. It reports whether one has.
func (r Recorder) givenUp() bool {
	begun := Begun(&r.tx.Status)
	if begun && !meta.IsStatusConditionFalse(r.tx.Status.Conditions, pkgv1alpha1.TransactionConditionInstalled) {
		r.set(pkgv1alpha1.TransactionConditionInstalled, metav1.ConditionFalse, pkgv1alpha1.ReasonPackageInstallationFailed, messageGivenUp)
	}
	return begun
}

// NotInstalled records that the installation has failed.
func (r Recorder) NotInstalled(failure *FailedError) {
	r.failed()
	r.set(pkgv1alpha1.TransactionConditionInstalled, metav1.ConditionFalse, failure.Reason, failure.Message)
	r.set(pkgv1alpha1.TransactionConditionReady, metav1.ConditionFalse, pkgv1alpha1.ReasonInstallationFailed, messageFailed)
	r.synced()
}

// failed counts a failure. The last one ends the transaction.
func (r Recorder) failed() {
	r.tx.Status.Failures++
	if r.tx.Status.Failures >= Limit(r.tx) {
		r.tx.Status.CompletionTime = &r.now
	}
}

// Limit returns after how many failures a transaction ends: at least 1.
func Limit(tx *pkgv1alpha1.Transaction) int64 {
	if tx.Spec.RetryLimit == nil {
		return pkgv1alpha1.DefaultRetryLimit
	}
	return max(*tx.Spec.RetryLimit, 1)
}

// Pauses between two tries of a transaction. What a user has to repair takes longer than what
// another transaction is about to do.
const (
	firstPause = 5 * time.Second
	maxPause   = 5 * time.Minute
)

// Pause returns how long to wait before the next try: 5 seconds, doubled with each failure, at most
// 5 minutes.
func Pause(failures int64) time.Duration {
	if failures > 7 {
		return maxPause
	}
	return min(firstPause<<max(failures-1, 0), maxPause)
}

func equal(a, b *pkgv1alpha1.TransactionStatus) bool { return apiequality.Semantic.DeepEqual(a, b) }
