package gate

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/version"
	"github.com/starlinghq/starling/pkg/core/text"
	"github.com/starlinghq/starling/pkg/core/transaction"
)

// State is what the gate of a revision is decided by.
type State struct {
	// Revision is nil if it does not exist; UID is that of the object that the package-server
	// serves.
	Revision *storev1alpha1.PackageRevision
	UID      types.UID
	// Package are all revisions of the package, in any order.
	Package []*storev1alpha1.PackageRevision
	// Transactions are those that were created for the revision, in any order.
	Transactions []*pkgv1alpha1.Transaction
	// Installed is true if the installed packages have changed since this was planned last.
	Installed bool
	Now       time.Time
}

// Plan is what to do about the gate of a revision.
type Plan struct {
	// Delete are Transactions whose result is not needed, or that are to be repeated.
	Delete []*pkgv1alpha1.Transaction
	// Release are Transactions that only the history keeps from now on.
	Release []*pkgv1alpha1.Transaction
	// Create is the Transaction that answers the gate.
	Create *pkgv1alpha1.Transaction
	// Condition is that of the revision at its present version; nil if it stays as it is.
	Condition *porchv1alpha1.Condition
	// Again is when to plan again without an event; 0 if that is not needed.
	Again time.Duration
}

// repeatAfter is when a Transaction is repeated that ended without an answer, because an API server
// did not answer.
const repeatAfter = 5 * time.Minute

// PlanGate returns the plan for a State.
func PlanGate(s *State) (Plan, error) {
	p := Plan{}
	r := s.Revision
	if !asks(r) {
		for _, tx := range s.Transactions {
			p.leave(tx, r == nil)
		}
		return p, nil
	}
	wanted := snapshotOf(r, version.Latest(s.Package))
	create, err := newTransaction(r.Name, s.UID, &wanted)
	if err != nil {
		return p, err
	}
	var answer *pkgv1alpha1.Transaction
	for _, tx := range s.Transactions {
		switch {
		case !about(tx, s.UID, &wanted):
			p.leave(tx, tx.Name == create.Name)
		case answer == nil || tx.Name < answer.Name: // the same is never created twice
			answer = tx
		}
	}
	if !complete(r) {
		return p, nil // nobody can propose it yet, and its content will change
	}
	if answer != nil && answer.DeletionTimestamp == nil {
		repeat, again := s.repeats(answer)
		p.Again = again
		if repeat {
			p.Delete, answer = append(p.Delete, answer), nil
		}
	}
	if answer == nil && len(p.Delete) == 0 {
		p.Create = create
	}
	condition := conditionOf(cmp.Or(answer, create))
	if current := find(r); current == nil || *current != condition {
		p.Condition = &condition
	}
	return p, nil
}

// leave ends the part of a Transaction that does not answer a gate.
func (p *Plan) leave(tx *pkgv1alpha1.Transaction, gone bool) {
	switch {
	case tx.DeletionTimestamp != nil:
	case gone || !transaction.Ended(tx):
		p.Delete = append(p.Delete, tx)
	case tx.Annotations[pkgv1.AnnotationAnswersGate] != "":
		p.Release = append(p.Release, tx)
	}
}

// asks reports whether a revision has the gate, and can still be approved.
func asks(r *storev1alpha1.PackageRevision) bool {
	return r != nil && r.DeletionTimestamp == nil && !r.Spec.Lifecycle.Published() && r.Status.ContentDigest != "" &&
		slices.Contains(r.Spec.ReadinessGates, porchv1alpha1.ReadinessGate{ConditionType: porchv1alpha1.ConditionTransactionValidated})
}

// complete reports whether a revision has the content that is to be proposed: its functions have
// run, and its PackageVariant is done.
func complete(r *storev1alpha1.PackageRevision) bool {
	return !slices.ContainsFunc(r.Status.Conditions, func(c porchv1alpha1.Condition) bool {
		return (c.Type == porchv1alpha1.ConditionPipelinePassed || c.Type == configv1alpha1.ConditionPVOperationsComplete) && c.Status != porchv1alpha1.ConditionTrue
	})
}

func find(r *storev1alpha1.PackageRevision) *porchv1alpha1.Condition {
	for i := range r.Status.Conditions {
		if r.Status.Conditions[i].Type == porchv1alpha1.ConditionTransactionValidated {
			return &r.Status.Conditions[i]
		}
	}
	return nil
}

// repeats reports whether a Transaction is to be repeated, and if not, when it is.
func (s *State) repeats(tx *pkgv1alpha1.Transaction) (bool, time.Duration) {
	validated := meta.FindStatusCondition(tx.Status.Conditions, pkgv1alpha1.TransactionConditionValidated)
	switch {
	case validated != nil && (validated.Reason == pkgv1alpha1.ReasonMissingDependency || validated.Reason == pkgv1alpha1.ReasonVersionConflict):
		return s.Installed, 0
	case transaction.Ended(tx) && (validated == nil || validated.Status == metav1.ConditionUnknown):
		wait := tx.Status.CompletionTime.Add(repeatAfter).Sub(s.Now)
		return wait <= 0, max(wait, 0)
	}
	return false, 0
}

const (
	maxMessage    = 2048
	shownWarnings = 3
)

// conditionOf returns the condition of a revision whose gate a Transaction answers. It does not
// depend on how often the Transaction was tried.
func conditionOf(tx *pkgv1alpha1.Transaction) porchv1alpha1.Condition {
	c := porchv1alpha1.Condition{Type: porchv1alpha1.ConditionTransactionValidated, Status: porchv1alpha1.ConditionUnknown, Reason: pkgv1alpha1.ReasonValidationPending}
	synced := meta.FindStatusCondition(tx.Status.Conditions, pkgv1alpha1.TransactionConditionSynced)
	validated := meta.FindStatusCondition(tx.Status.Conditions, pkgv1alpha1.TransactionConditionValidated)
	switch {
	case validated != nil && validated.Status == metav1.ConditionTrue:
		c.Status, c.Reason = porchv1alpha1.ConditionTrue, validated.Reason
		c.Message = "transaction " + tx.Name + " has validated this content"
		if len(tx.Status.Warnings) > 0 {
			c.Message += "; warnings: " + text.Join(tx.Status.Warnings, "; ", shownWarnings)
		}
	case validated != nil && validated.Status == metav1.ConditionFalse:
		c.Status, c.Reason = porchv1alpha1.ConditionFalse, validated.Reason
		c.Message = "transaction " + tx.Name + ": " + validated.Message
	case synced != nil && synced.Status == metav1.ConditionFalse:
		c.Message = "transaction " + tx.Name + " has not validated this content yet: " + synced.Message
	default:
		c.Message = "transaction " + tx.Name + " validates this content"
	}
	c.Message = text.Clip(c.Message, maxMessage)
	return c
}
