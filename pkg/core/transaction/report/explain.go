package report

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	pkgv1beta1 "github.com/starlinghq/starling/api/pkg/v1beta1"
	"github.com/starlinghq/starling/pkg/core/resolve"
	"github.com/starlinghq/starling/pkg/core/text"
	"github.com/starlinghq/starling/pkg/core/transaction"
)

// Facts are what is known of a Transaction and its package.
type Facts struct {
	// Kind and Package are the package: that of the Transaction, or the one that was asked for.
	// Package is nil if there is none; a package of any kind is a Provider here.
	Kind    string
	Package *pkgv1.Provider
	// Transaction is nil if the package has none.
	Transaction *pkgv1alpha1.Transaction
	// Lock is nil if there is none.
	Lock *pkgv1beta1.Lock
	// Holder is the Transaction that holds the Lock, nil if there is none.
	Holder *pkgv1alpha1.Transaction
	Now    time.Time
}

// State is the state of a step.
type State string

// States of steps.
const (
	// Done means that the step is behind the Transaction.
	Done State = "Done"
	// Current means that the Transaction is at the step.
	Current State = "Current"
	// Broken means that the step has failed.
	Broken State = "Broken"
	// Pending means that the step comes after the current or the broken one.
	Pending State = "Pending"
	// Skipped means that the step is not part of the Transaction.
	Skipped State = "Skipped"
)

var marks = map[State]rune{Done: 'x', Current: '>', Broken: '!', Pending: ' ', Skipped: '-'}

// Step is a step of a Transaction.
type Step struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	// Detail says what the step has done, or why it has not.
	Detail string `json:"detail,omitempty"`
}

// Names of steps.
const (
	stepLock      = "Lock"
	stepResolved  = "Resolved"
	stepValidated = "Validated"
	stepInstalled = "Installed"
	stepCommitted = "Committed"
)

// Explanation is the state of a Transaction, step by step.
type Explanation struct {
	// Transaction is its name, "" if there is none.
	Transaction string `json:"transaction,omitempty"`
	// Change says what it does.
	Change string `json:"change,omitempty"`
	// State says how far it is, in one sentence.
	State string `json:"state"`
	Steps []Step `json:"steps,omitempty"`
	// Problem is the first thing that keeps it from going on, nil if there is none.
	Problem *Problem `json:"problem,omitempty"`
	// Warnings are those of the Transaction.
	Warnings []string `json:"warnings,omitempty"`
}

// silence is how long a controller may take to see a new object.
const silence = 10 * time.Second

// Explain returns the state of a Transaction.
func Explain(f *Facts) Explanation {
	if f.Transaction == nil {
		return withoutTransaction(f)
	}
	tx := f.Transaction
	e := Explanation{Transaction: tx.Name, Change: changeOf(tx), State: state(f), Problem: problemOf(f), Warnings: tx.Status.Warnings}
	e.Steps = steps(f, e.Problem)
	return e
}

// withoutTransaction explains a package that has no Transaction.
func withoutTransaction(f *Facts) Explanation {
	name := f.Kind + "/" + f.Package.Name
	if transaction.Paused(f.Package) {
		return Explanation{State: name + " has no Transaction, because it is paused", Problem: &Problem{
			Reason: pkgv1.ReasonReconcilePaused, Message: "the package has the annotation " + pkgv1.AnnotationPaused,
			Next: []string{fmt.Sprintf("kubectl annotate %s %s %s-", strings.ToLower(f.Kind), f.Package.Name, pkgv1.AnnotationPaused)},
		}}
	}
	if c := meta.FindStatusCondition(f.Package.Status.Conditions, pkgv1.PackageConditionInstalled); c != nil && c.Status == metav1.ConditionTrue {
		return Explanation{State: name + " is installed. The Transaction that installed it is not in the history any more"}
	}
	e := Explanation{State: name + " has no Transaction yet"}
	if f.Now.Sub(f.Package.CreationTimestamp.Time) > silence {
		e.Problem = unseen("the package")
	}
	return e
}

// unseen is the problem of an object that no controller has seen.
func unseen(what string) *Problem {
	return &Problem{Reason: "NotObserved", Message: "no controller has seen " + what, Next: []string{
		"Check that the binding-controller of this WDS is running and ready: its log says what it waits for.",
	}}
}

func find(tx *pkgv1alpha1.Transaction, kind string) metav1.Condition {
	if c := meta.FindStatusCondition(tx.Status.Conditions, kind); c != nil {
		return *c
	}
	return metav1.Condition{Type: kind, Status: metav1.ConditionUnknown}
}

// conditions are those of a Transaction.
type conditions struct{ validated, installed, ready, synced metav1.Condition }

func conditionsOf(tx *pkgv1alpha1.Transaction) conditions {
	return conditions{
		find(tx, pkgv1alpha1.TransactionConditionValidated), find(tx, pkgv1alpha1.TransactionConditionInstalled),
		find(tx, pkgv1alpha1.TransactionConditionReady), find(tx, pkgv1alpha1.TransactionConditionSynced),
	}
}

// failures says how often a Transaction has failed, and how often it may.
func failures(tx *pkgv1alpha1.Transaction) string {
	if transaction.Unlimited(tx) {
		return text.Count(tx.Status.Failures, "time")
	}
	return fmt.Sprintf("%s of %d", text.Count(tx.Status.Failures, "time"), transaction.Limit(tx))
}

// state says in one sentence how far a Transaction is.
func state(f *Facts) string {
	tx := f.Transaction
	c := conditionsOf(tx)
	switch {
	case transaction.Succeeded(tx) && transaction.ValidateOnly(tx):
		return "complete: validated only, and nothing was changed"
	case transaction.Succeeded(tx):
		return "complete after " + duration.HumanDuration(tx.Status.CompletionTime.Sub(tx.CreationTimestamp.Time))
	case c.ready.Reason == pkgv1alpha1.ReasonSuperseded:
		return "superseded: " + c.ready.Message
	case transaction.Ended(tx):
		return fmt.Sprintf("failed %s, and is not tried again", failures(tx))
	case tx.DeletionTimestamp != nil:
		return "is being deleted"
	case c.synced.Reason == pkgv1.ReasonReconcilePaused:
		return "paused"
	case c.ready.Reason == pkgv1alpha1.ReasonTransactionBlocked && tx.Status.Failures > 0:
		return fmt.Sprintf("%s; it failed %s before", c.ready.Message, failures(tx))
	case c.ready.Reason == pkgv1alpha1.ReasonTransactionBlocked:
		return c.ready.Message
	case tx.Status.Failures > 0 && c.ready.Status == metav1.ConditionFalse || c.synced.Status == metav1.ConditionFalse:
		return fmt.Sprintf("failed %s; the next try is %s after the last one", failures(tx),
			duration.HumanDuration(transaction.Pause(tx.Status.Failures)))
	case len(tx.Status.Conditions) == 0:
		return "not started"
	}
	return "running"
}

// steps returns all steps. Those before the problem are done.
func steps(f *Facts, problem *Problem) []Step {
	tx := f.Transaction
	c := conditionsOf(tx)
	at := stepCommitted
	switch {
	case c.ready.Reason == pkgv1alpha1.ReasonTransactionBlocked, len(tx.Status.Conditions) == 0, tx.Status.TransactionNumber == 0:
		at = stepLock
	case c.validated.Status != metav1.ConditionTrue && len(tx.Status.ProposedLockPackages) == 0:
		at = stepResolved
	case c.validated.Status != metav1.ConditionTrue:
		at = stepValidated
	case c.installed.Status != metav1.ConditionTrue:
		at = stepInstalled
	}
	if problem != nil && problem.Step != "" {
		at = problem.Step
	}
	list := []Step{
		{Name: stepLock, Detail: lockDetail(f)},
		{Name: stepResolved, Detail: "the Lock lists " + text.Count(len(tx.Status.ProposedLockPackages), "package") + " afterwards"},
		{Name: stepValidated, Detail: c.validated.Message},
		{Name: stepInstalled, Detail: c.installed.Message},
		{Name: stepCommitted, Detail: "the Lock lists what was installed"},
	}
	reached := Done
	for i := range list {
		s := &list[i]
		switch {
		case c.ready.Reason == pkgv1alpha1.ReasonSuperseded:
			s.State, s.Detail = Skipped, ""
			continue
		case transaction.ValidateOnly(tx) && (s.Name == stepInstalled || s.Name == stepCommitted):
			s.State, s.Detail = Skipped, "only validation was requested"
			continue
		case transaction.Succeeded(tx), s.Name != at && reached == Done:
			s.State = Done
			continue
		case s.Name != at:
			s.State, s.Detail = Pending, ""
			continue
		}
		reached, s.State = Pending, Current
		if problem != nil && s.Name != stepLock {
			s.State, s.Detail = Broken, problem.Reason
		} else if s.Name != stepLock {
			s.Detail = "in progress"
		}
		if problem != nil && s.Name == stepLock && problem.Step == stepLock {
			s.State = Broken
		}
	}
	return list
}

// lockDetail says who holds the Lock.
func lockDetail(f *Facts) string {
	tx := f.Transaction
	c := conditionsOf(tx)
	if c.ready.Reason == pkgv1alpha1.ReasonTransactionBlocked {
		if f.Holder != nil && f.Holder.Name == waitsFor(c.ready.Message) {
			return c.ready.Message + ": " + state(&Facts{Transaction: f.Holder, Lock: f.Lock, Now: f.Now})
		}
		return c.ready.Message
	}
	if tx.Status.TransactionNumber == 0 {
		return "not acquired"
	}
	detail := fmt.Sprintf("transaction number %d", tx.Status.TransactionNumber)
	if f.Lock != nil && transaction.Holds(f.Lock, tx) {
		detail += ", holds the Lock"
	}
	return detail
}

// problemOf returns the first thing that keeps a Transaction from going on, nil if there is none.
func problemOf(f *Facts) *Problem {
	tx := f.Transaction
	if transaction.Succeeded(tx) {
		return nil
	}
	c := conditionsOf(tx)
	var p *Problem
	switch {
	case c.ready.Reason == pkgv1alpha1.ReasonSuperseded:
		p = &Problem{Reason: c.ready.Reason, Message: c.ready.Message}
	case c.synced.Reason == pkgv1.ReasonReconcilePaused:
		p = &Problem{Reason: c.synced.Reason, Message: "the Transaction has the annotation " + pkgv1.AnnotationPaused}
	case c.ready.Reason == pkgv1alpha1.ReasonTransactionBlocked:
		p = &Problem{Step: stepLock, Reason: c.ready.Reason, Message: c.ready.Message}
	case c.synced.Status == metav1.ConditionFalse:
		p = &Problem{Step: interrupted(tx, &c), Reason: c.synced.Reason, Message: c.synced.Message}
	case c.validated.Status == metav1.ConditionFalse:
		p = &Problem{Step: notValidated(&c), Reason: c.validated.Reason, Message: c.validated.Message}
		if p.Step == stepResolved && p.Reason != pkgv1alpha1.ReasonInvalidPackage {
			p.Message, p.Chain, p.Hint = resolve.Parts(c.validated.Message)
		}
	case c.installed.Status == metav1.ConditionFalse:
		p = &Problem{Step: stepInstalled, Reason: c.installed.Reason, Message: c.installed.Message}
	case len(tx.Status.Conditions) == 0 && f.Now.Sub(tx.CreationTimestamp.Time) > silence:
		p = unseen("the Transaction")
		p.Step = stepLock
		return p
	default:
		if !transaction.Ended(tx) {
			return nil
		}
		p = &Problem{Reason: cmp.Or(c.ready.Reason, "Unknown"), Message: c.ready.Message}
	}
	p.Next = next(f, p)
	return p
}

// interrupted returns the step at which something did not answer.
func interrupted(tx *pkgv1alpha1.Transaction, c *conditions) string {
	switch {
	case c.installed.Status == metav1.ConditionTrue:
		return stepCommitted
	case c.validated.Status == metav1.ConditionTrue:
		return stepInstalled
	case len(tx.Status.ProposedLockPackages) > 0:
		return stepValidated
	}
	return stepResolved
}

// notValidated returns the step whose reason it is. What the validation of clusters finds begins
// with their names.
func notValidated(c *conditions) string {
	switch c.validated.Reason {
	case pkgv1alpha1.ReasonMissingDependency, pkgv1alpha1.ReasonVersionConflict, pkgv1alpha1.ReasonCircularDependency, pkgv1alpha1.ReasonInvalidPackage:
		if !strings.HasPrefix(c.validated.Message, "cluster") {
			return stepResolved
		}
	}
	return stepValidated
}

// Draw writes the explanation.
func (e *Explanation) Draw(w io.Writer) {
	if e.Transaction == "" {
		fmt.Fprintln(w, e.State+".")
	} else {
		fmt.Fprintf(w, "Transaction %s: %s\nState: %s\n\n", e.Transaction, e.Change, e.State)
	}
	steps := make([]text.Step, len(e.Steps))
	for i, s := range e.Steps {
		steps[i] = text.Step{Mark: marks[s.State], Name: s.Name, Detail: s.Detail}
	}
	text.WriteSteps(w, steps)
	if e.Problem != nil {
		e.Problem.draw(w)
	}
	if len(e.Warnings) > 0 {
		fmt.Fprintln(w, "\nWarnings:")
		for _, warning := range e.Warnings {
			fmt.Fprintln(w, "  - "+warning)
		}
	}
}
