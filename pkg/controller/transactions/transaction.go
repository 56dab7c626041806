package transactions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	pkgv1beta1 "github.com/starlinghq/starling/api/pkg/v1beta1"
	"github.com/starlinghq/starling/pkg/controller/worker"
	"github.com/starlinghq/starling/pkg/core/text"
	"github.com/starlinghq/starling/pkg/core/transaction"
	"github.com/starlinghq/starling/pkg/transactions"
	"github.com/starlinghq/starling/pkg/transactions/install"
	"github.com/starlinghq/starling/pkg/transactions/propose"
	"github.com/starlinghq/starling/pkg/writer"
)

// syncTransaction brings a Transaction as far as it gets.
func (c *Controller) syncTransaction(ctx context.Context, name string) (worker.Result, error) {
	cached := c.Watch.Transactions.Get("", name)
	if cached == nil {
		c.tryAt(name, time.Time{})
		c.deny(name, false)
		return worker.Result{}, nil
	}
	if transaction.Ended(cached) && cached.DeletionTimestamp == nil {
		return worker.Result{}, c.after(ctx, cached)
	}
	if wait := c.wait(name); wait > 0 && cached.DeletionTimestamp == nil && c.superseded(cached) == "" {
		return worker.Result{After: wait}, nil
	}
	// The next write is based on what is read here.
	tx, err := c.Client.Transactions().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return worker.Result{}, nil
	} else if err != nil {
		return worker.Result{}, fmt.Errorf("get transaction %q: %w", name, err)
	}
	tx.TypeMeta = metav1.TypeMeta{APIVersion: pkgv1alpha1.GroupVersion.String(), Kind: "Transaction"}
	t := &try{Controller: c, tx: tx, written: tx.Status.DeepCopy()}
	switch {
	case tx.DeletionTimestamp != nil:
		return worker.Result{}, c.finalize(ctx, tx)
	case transaction.Ended(tx):
		return worker.Result{}, c.after(ctx, tx)
	case transaction.Paused(tx):
		t.record().Paused()
		return worker.Result{}, t.write(ctx)
	case !slices.Contains(tx.Finalizers, pkgv1alpha1.TransactionFinalizer):
		return worker.Result{}, c.patchMetadata(ctx, writer.Target{Resource: pkgv1alpha1.Transactions, Name: tx.Name}, tx.ResourceVersion,
			map[string]any{"finalizers": append(slices.Clone(tx.Finalizers), pkgv1alpha1.TransactionFinalizer)})
	}
	return t.run(ctx)
}

// superseded returns why a Transaction has nothing left to do, "" if it has.
func (c *Controller) superseded(tx *pkgv1alpha1.Transaction) string {
	if tx.Spec.Install == nil {
		return ""
	}
	snapshot := &tx.Spec.Install.Package
	return transaction.SupersededBy(tx, c.Watch.Package(transactions.Ref{Kind: snapshot.Kind, Name: snapshot.Metadata.Name}))
}

// before returns the Transaction that is to be carried out before this one, nil if there is none:
// the oldest first, so that none waits forever.
func (c *Controller) before(tx *pkgv1alpha1.Transaction) *pkgv1alpha1.Transaction {
	if next := c.first(); next != nil && next.UID != tx.UID && precedes(next, tx) {
		return next
	}
	return nil
}

// first returns the Transaction that is to be carried out first, nil if there is none. It is the
// same for all that wait: their status names it, and a write for each sync would never end.
func (c *Controller) first() *pkgv1alpha1.Transaction {
	var first *pkgv1alpha1.Transaction
	for _, tx := range c.Watch.Transactions.All() {
		if (first == nil || precedes(tx, first)) && c.runs(tx) {
			first = tx
		}
	}
	return first
}

// releaseLock releases the Lock, if the Transaction holds it.
func (c *Controller) releaseLock(ctx context.Context, tx *pkgv1alpha1.Transaction) error {
	err := c.Lock.Release(ctx, tx)
	if err == nil {
		c.released(tx)
	}
	return err
}

// runs reports whether a Transaction has something to do now.
func (c *Controller) runs(tx *pkgv1alpha1.Transaction) bool {
	return !transaction.Ended(tx) && tx.DeletionTimestamp == nil && !transaction.Paused(tx) && c.wait(tx.Name) <= 0 && c.superseded(tx) == ""
}

// precedes reports whether a Transaction was created before another one.
func precedes(a, b *pkgv1alpha1.Transaction) bool {
	order := a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	return order < 0 || order == 0 && a.Name < b.Name
}

// after does what is left when a Transaction has ended: the Lock is released, and old Transactions
// are collected.
func (c *Controller) after(ctx context.Context, tx *pkgv1alpha1.Transaction) error {
	lock := c.Watch.Locks.Get("", pkgv1beta1.LockName)
	if lock == nil {
		return nil
	}
	if transaction.Holds(lock, tx) {
		if err := c.releaseLock(ctx, tx); err != nil {
			return err
		}
	}
	limit, wrong := transaction.HistoryLimit(lock)
	if wrong != "" {
		about := lock.DeepCopy() // its type does not say its kind
		about.TypeMeta = metav1.TypeMeta{APIVersion: pkgv1beta1.GroupVersion.String(), Kind: "Lock"}
		c.Events.Eventf(about, nil, corev1.EventTypeWarning, "HistoryLimitInvalid", "Collect", "%s", wrong)
	}
	for _, old := range transaction.Collect(c.Watch.Transactions.All(), lock, limit) {
		if err := c.collect(ctx, old); err != nil {
			return err
		}
	}
	return nil
}

// handBack gives objects back to the revisions that are still active, if the Transaction has begun
// to install, holds the Lock, and does not continue.
func (c *Controller) handBack(ctx context.Context, tx *pkgv1alpha1.Transaction) error {
	if !transaction.Begun(&tx.Status) {
		return nil
	}
	if holds, err := c.Lock.Holds(ctx, tx); err != nil || !holds {
		return err
	}
	var packages []install.Package
	for _, locked := range tx.Status.ProposedLockPackages {
		kind, _ := transactions.KindOf(ptr.Deref(locked.Kind, ""))
		r, err := c.Client.Revisions(kind).Get(ctx, locked.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			return fmt.Errorf("get %s %q: %w", kind.RevisionName, locked.Name, err)
		}
		packages = append(packages, install.Package{Locked: locked, Kind: kind, Name: r.Labels[pkgv1.LabelPackage]})
	}
	err := c.Installer.HandBack(ctx, packages, nil)
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) { // it would be refused again, and the others wait
		c.Events.Eventf(tx, nil, corev1.EventTypeWarning, "NotHandedBack", string(tx.Spec.Change), "%s", text.Clip(err.Error(), maxEvent))
		return nil
	}
	return err
}

// collect deletes a Transaction because of the limit of the history. The mark says so to finalize.
func (c *Controller) collect(ctx context.Context, tx *pkgv1alpha1.Transaction) error {
	target := writer.Target{Resource: pkgv1alpha1.Transactions, Name: tx.Name}
	if tx.Annotations[pkgv1alpha1.AnnotationCollected] == "" {
		err := c.patchMetadata(ctx, target, tx.ResourceVersion, map[string]any{"annotations": map[string]string{pkgv1alpha1.AnnotationCollected: "true"}})
		if apierrors.IsNotFound(err) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return ignoreNotFound(c.Writer.Delete(ctx, target, tx.UID, "history"))
}

// finalize releases the Lock of a Transaction that is being deleted. If a user deletes one that is
// carried out again, its package gets another one.
func (c *Controller) finalize(ctx context.Context, tx *pkgv1alpha1.Transaction) error {
	if !slices.Contains(tx.Finalizers, pkgv1alpha1.TransactionFinalizer) {
		return nil
	}
	if err := c.handBack(ctx, tx); err != nil {
		return err
	}
	if err := c.releaseLock(ctx, tx); err != nil {
		return err
	}
	ref, uid := transactions.PackageOf(tx)
	p := c.Watch.Package(ref)
	if c.again(tx, ref) && p != nil && p.UID == uid &&
		p.Labels[pkgv1.LabelGeneration] != "" && p.Labels[pkgv1.LabelGeneration] == tx.Labels[pkgv1.LabelGeneration] {
		kind, _ := transactions.KindOf(ref.Kind)
		err := c.patchMetadata(ctx, writer.Target{Resource: kind.Packages, Name: p.Name}, p.ResourceVersion,
			map[string]any{"labels": map[string]any{pkgv1.LabelGeneration: nil}})
		if ignoreNotFound(err) != nil {
			return err
		}
	}
	finalizers := slices.DeleteFunc(slices.Clone(tx.Finalizers), func(f string) bool { return f == pkgv1alpha1.TransactionFinalizer })
	return ignoreNotFound(c.patchMetadata(ctx, writer.Target{Resource: pkgv1alpha1.Transactions, Name: tx.Name}, tx.ResourceVersion, map[string]any{"finalizers": finalizers}))
}

// try is one try of a Transaction.
type try struct {
	*Controller
	tx *pkgv1alpha1.Transaction
	// written is the status as the API server has it.
	written *pkgv1alpha1.TransactionStatus
	// pause is how long to wait after an error that does not count as a try; 0 if it counts.
	pause time.Duration
}

func (t *try) record() transaction.Recorder { return transaction.Record(t.tx, t.Clock.Now()) }

// write writes the status, if it has changed. A conflict says that somebody else did.
func (t *try) write(ctx context.Context) error {
	if apiequality.Semantic.DeepEqual(t.written, &t.tx.Status) {
		return nil
	}
	written, err := t.Writer.Update(ctx, writer.Target{Resource: pkgv1alpha1.Transactions, Name: t.tx.Name, Subresource: "status"}, t.tx, "status")
	if err != nil {
		return err
	}
	t.tx.ResourceVersion, t.written = written.ResourceVersion, t.tx.Status.DeepCopy()
	return nil
}

// run acquires the Lock and carries the Transaction out.
func (t *try) run(ctx context.Context) (worker.Result, error) {
	// What is installed is in the Lock before anything else, also if the package has changed since.
	if installed := meta.IsStatusConditionTrue(t.tx.Status.Conditions, pkgv1alpha1.TransactionConditionInstalled); installed {
		return worker.Result{}, t.commit(ctx)
	}
	if why := t.superseded(t.tx); why != "" {
		if err := t.handBack(ctx, t.tx); err != nil {
			return worker.Result{}, err
		}
		t.record().Superseded(why)
		t.warnOfHalf()
		if err := t.write(ctx); err != nil {
			return worker.Result{}, err
		}
		return worker.Result{}, t.releaseLock(ctx, t.tx)
	}
	t.times.want(t.tx, t.Clock.Now())
	if other := t.before(t.tx); other != nil {
		holds, err := t.Lock.Holds(ctx, t.tx)
		if err != nil {
			return worker.Result{}, err
		}
		if !holds {
			return t.blocked(ctx, other.Name)
		}
	}
	held, err := t.Lock.Acquire(ctx, t.tx)
	by, blocked := errors.AsType[*transaction.HeldError](err)
	switch {
	case blocked:
		return t.blocked(ctx, by.Holder)
	case errors.Is(err, transaction.ErrLockHeldByAnotherTransaction):
		return worker.Result{After: minBackOff}, nil
	case err != nil:
		return worker.Result{}, err
	}
	t.acquired(t.tx)
	if held.Repaired != "" {
		t.Events.Eventf(t.tx, nil, corev1.EventTypeWarning, "LockRepaired", "Acquire", "%s", held.Repaired)
	}
	if t.record().Started(held.Number) {
		if err := t.write(ctx); err != nil {
			return worker.Result{}, err
		}
	}
	proposal, err := t.validateInTime(ctx, held.Packages)
	if err != nil || transaction.Ended(t.tx) {
		return t.notValidated(ctx, err)
	}
	if err := t.carryOut(ctx, proposal); err != nil {
		return t.notInstalled(ctx, proposal, err)
	}
	t.record().Installed(text.Join(proposal.Notes, ". ", 10))
	if err := t.write(ctx); refused(err) {
		return t.notInstalled(ctx, proposal, &transaction.FailedError{
			Reason: pkgv1alpha1.ReasonPackageInstallationFailed, Message: "the status of the transaction cannot be written: " + err.Error(),
		})
	} else if err != nil {
		return worker.Result{}, err
	}
	return worker.Result{}, t.commit(ctx)
}

// refused reports whether the API server refuses a status for its content or its size, as it would
// again.
func refused(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsRequestEntityTooLargeError(err)
}

// maxBlocked bounds how long a Transaction waits without an event. The Lock and the other
// Transactions are watched, so nothing is missed before.
const maxBlocked = 30 * time.Second

// blocked records which Transaction this one waits for.
func (t *try) blocked(ctx context.Context, holder string) (worker.Result, error) {
	t.record().Blocked(holder)
	return worker.Result{After: maxBlocked}, t.write(ctx)
}

// maxValidation bounds how long a validation holds the Lock: a registry that answers slowly must
// not keep others from going on.
const maxValidation = 2 * time.Minute

func (t *try) validateInTime(ctx context.Context, locked []pkgv1beta1.LockPackage) (*propose.Proposal, error) {
	ctx, cancel := context.WithTimeout(ctx, maxValidation)
	defer cancel()
	began := t.Clock.Now()
	proposal, err := t.validate(ctx, locked)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) && err != nil {
		err = fmt.Errorf("the validation took longer than %s: %w", maxValidation, err)
	}
	validation.WithLabelValues().Observe(t.Clock.Since(began).Seconds())
	return proposal, err
}

// validate computes the proposal, validates it, and writes both results into the status. A
// Transaction that only validates ends with that.
func (t *try) validate(ctx context.Context, locked []pkgv1beta1.LockPackage) (*propose.Proposal, error) {
	proposal, err := t.Proposer.Propose(ctx, t.tx, locked)
	if err != nil {
		return nil, err
	}
	t.tx.Status.ProposedLockPackages = proposal.Packages
	proposal, warnings, err := t.checkRepairs(ctx, proposal)
	if err != nil {
		return nil, err
	}
	for n := range proposal.Install {
		if differs := proposal.Install[n].Differs; differs != "" {
			warnings = append(warnings, repaired(differs))
		}
	}
	t.tx.Status.Warnings = text.Bound(append(proposal.Warnings, warnings...), maxWarnings)
	if transaction.ValidateOnly(t.tx) {
		t.record().OnlyValidated()
		return proposal, t.write(ctx)
	}
	if t.Destinations != nil && len(proposal.Remove) > 0 {
		if err := t.Destinations.Keep(ctx, t.tx); err != nil {
			return nil, err
		}
	}
	t.record().Validated()
	return proposal, t.write(ctx)
}

// checkRepairs checks a proposal. Repairs that are refused are left out, each for its own reason: a
// Transaction does not fail for what it is not about. Only then it takes several checks.
func (t *try) checkRepairs(ctx context.Context, all *propose.Proposal) (checked *propose.Proposal, warnings []string, err error) {
	repairs, kept := all.Repairs(), map[string]bool{}
	for n := range repairs {
		kept[repairs[n].Locked.Source] = true
	}
	checked = all.WithRepairs(kept)
	warnings, err = t.check(ctx, checked)
	if _, failed := errors.AsType[*transaction.FailedError](err); !failed || len(repairs) == 0 {
		return checked, warnings, err
	}
	clear(kept)
	if _, err := t.check(ctx, all.WithRepairs(kept)); err != nil {
		return nil, nil, err // it is the Transaction itself
	}
	var left []string
	for n := range repairs {
		source := repairs[n].Locked.Source
		kept[source] = true
		_, err := t.check(ctx, all.WithRepairs(kept))
		if failed, is := errors.AsType[*transaction.FailedError](err); is {
			delete(kept, source)
			left = append(left, notRepaired(&repairs[n], failed.Message))
		} else if err != nil {
			return nil, nil, err
		}
	}
	checked = all.WithRepairs(kept)
	warnings, err = t.check(ctx, checked)
	return checked, append(left, warnings...), err
}

func repaired(differs string) string { return differs + ". It is installed again" }

func notRepaired(p *install.Package, why string) string {
	return fmt.Sprintf("%s. It stays so: %s", cmp.Or(p.Differs, p.Name+" cannot be compared with what was installed"), why)
}

// check validates a proposal, and writes into the status what it would change.
func (t *try) check(ctx context.Context, proposal *propose.Proposal) (warnings []string, err error) {
	if warnings, err = t.ask(ctx, proposal); err != nil {
		return nil, err
	}
	effects, err := t.Installer.Check(ctx, proposal.Install, install.Validated{
		Definitions: proposal.Definitions, Unchanged: proposal.Unchanged, MayTake: proposal.MayTake,
	})
	if err != nil {
		return nil, err
	}
	for n := range effects {
		for _, name := range effects[n].Adopted {
			warnings = append(warnings, fmt.Sprintf("%s exists and has no controller; package %s adopts it", name, proposal.Install[n].Name))
		}
	}
	changes, deletes, err := t.changes(ctx, proposal, effects)
	t.tx.Status.Changes = changes
	return append(warnings, deletes...), err
}

// ask lets all validators validate. When one finds a failure the others are asked too, so that the
// user learns at once what would break where; if they cannot answer then, that does not matter.
func (t *try) ask(ctx context.Context, proposal *propose.Proposal) ([]string, error) {
	var warnings []string
	var failures []*transaction.FailedError
	for _, validator := range t.Validators {
		found, err := validator.Validate(ctx, t.tx, proposal)
		if failed, ok := errors.AsType[*transaction.FailedError](err); ok {
			failures = append(failures, failed)
		} else if err != nil && len(failures) == 0 {
			return nil, err
		}
		warnings = append(warnings, found...)
	}
	if len(failures) > 0 {
		return warnings, transaction.JoinFailures(failures)
	}
	return warnings, nil
}

// notValidated records a try that ended before the installation. The Lock is released, unless an
// earlier try has written a part.
func (t *try) notValidated(ctx context.Context, err error) (worker.Result, error) {
	begun := transaction.Begun(t.written)
	if err != nil {
		if ctx.Err() != nil || apierrors.IsConflict(err) {
			return worker.Result{}, err
		}
		// An earlier try may have ended in the middle of the installation, with this status.
		earlier := &pkgv1alpha1.Transaction{ObjectMeta: t.tx.ObjectMeta, Spec: t.tx.Spec, Status: *t.written}
		if back := t.handBack(ctx, earlier); apierrors.IsConflict(back) {
			return worker.Result{}, back
		} else if back != nil {
			err = notHandedBack(err, back)
		}
		t.fail(err, t.record().Invalid)
	}
	return t.finish(ctx, !begun || t.releases())
}

// releases reports whether a Transaction that has begun to install releases the Lock: when it has
// ended. One that is tried until it succeeds does so between tries, or it could hold up all others
// for good; what it removes is being deleted, so nothing installs that meanwhile.
func (t *try) releases() bool { return transaction.Ended(t.tx) || transaction.Unlimited(t.tx) }

// notInstalled records a try that ended during the installation. The Lock is kept until the next
// try, because the packages are between two states. Objects go back to the revisions that are still
// active.
func (t *try) notInstalled(ctx context.Context, proposal *propose.Proposal, err error) (worker.Result, error) {
	if ctx.Err() != nil || apierrors.IsConflict(err) {
		return worker.Result{}, err
	}
	if back := t.Installer.HandBack(ctx, proposal.Install, proposal.Remove); back != nil {
		err = notHandedBack(err, back)
	}
	t.fail(err, t.record().NotInstalled)
	return t.finish(ctx, t.releases())
}

func notHandedBack(err, back error) error {
	return fmt.Errorf("%w; moreover, objects were not given back: %w", err, back)
}

// fail records an error: one with a reason in a condition of its own.
func (t *try) fail(err error, record func(*transaction.FailedError)) {
	if failed, ok := errors.AsType[*transaction.FailedError](err); ok {
		record(failed)
	} else {
		if _, outage := errors.AsType[*transaction.OutageError](err); outage {
			t.pause = transaction.OutagePause
		} else if _, denied := errors.AsType[*transaction.AccessError](err); denied && !transaction.Begun(t.written) { // or it could keep the Lock for good
			t.pause = transaction.AccessPause
		}
		t.record().Interrupted(err, t.pause == 0)
	}
	t.Events.Eventf(t.tx, nil, corev1.EventTypeWarning, "TransactionFailed", string(t.tx.Spec.Change), "%s", text.Clip(err.Error(), maxEvent))
}

const (
	maxEvent    = 1000
	maxWarnings = 50
)

// finish writes the status, releases the Lock if asked to, and says when the next try is.
func (t *try) finish(ctx context.Context, release bool) (worker.Result, error) {
	pause := time.Duration(0)
	t.warnOfHalf()
	if !transaction.Ended(t.tx) {
		pause = cmp.Or(t.pause, transaction.Pause(t.tx.Status.Failures))
		t.tryAt(t.tx.Name, t.Clock.Now().Add(pause))
	}
	t.deny(t.tx.Name, t.pause == transaction.AccessPause)
	err := t.write(ctx)
	if refused(err) { // what the change would be is shown, if that is possible
		t.tx.Status.ProposedLockPackages, t.tx.Status.Changes, t.tx.Status.Warnings = nil, nil, nil
		err = t.write(ctx)
	}
	if err != nil {
		return worker.Result{}, err
	}
	if release {
		if err := t.releaseLock(ctx, t.tx); err != nil {
			return worker.Result{}, err
		}
	}
	return worker.Result{After: pause}, nil
}

// warnOfHalf says what is the case if a Transaction has ended in the middle of its installation.
func (t *try) warnOfHalf() {
	const warning = "a part of the change may be written: see the condition Healthy of the packages. If it is, clusters keep what they had " +
		"until a transaction has installed the package or removed it"
	if transaction.Ended(t.tx) && transaction.Begun(&t.tx.Status) && !slices.Contains(t.tx.Status.Warnings, warning) {
		t.tx.Status.Warnings = append(t.tx.Status.Warnings, warning)
	}
}

// carryOut installs and removes packages, while the transport delivers nothing of it.
func (t *try) carryOut(ctx context.Context, proposal *propose.Proposal) error {
	if t.Destinations != nil {
		if err := t.Destinations.Freeze(ctx, t.tx); err != nil {
			return err
		}
	}
	left, err := t.Installer.InstallAll(ctx, t.tx, proposal.Install, proposal.Definitions)
	if err != nil {
		return err
	}
	for n := range left {
		warning := notRepaired(left[n].Package, "it could not be installed again: "+left[n].Err.Error())
		t.tx.Status.Warnings = slices.DeleteFunc(t.tx.Status.Warnings, func(w string) bool { return w == repaired(left[n].Differs) })
		t.tx.Status.Warnings = text.Bound(append(t.tx.Status.Warnings, warning), maxWarnings)
	}
	for _, removal := range proposal.Remove {
		if err := t.Installer.Remove(ctx, removal); err != nil {
			return err
		}
	}
	if err := t.Installer.Collect(ctx, proposal.Install); err != nil || t.Destinations == nil {
		return err
	}
	return t.Destinations.Commit(ctx, t.tx)
}

// commit writes the packages into the Lock and releases it, and ends the Transaction. The condition
// Installed is in the API server: if the Transaction does not hold the Lock any more, it was
// committed before.
func (t *try) commit(ctx context.Context) error {
	err := t.Lock.Commit(ctx, t.tx, t.tx.Status.ProposedLockPackages)
	if err != nil && !errors.Is(err, transaction.ErrTransactionDoesNotHoldLock) {
		return err
	}
	t.released(t.tx)
	t.record().Complete()
	if err := t.write(ctx); err != nil {
		return err
	}
	t.Events.Eventf(t.tx, nil, corev1.EventTypeNormal, "TransactionComplete", string(t.tx.Spec.Change), "Completed after %d failures", t.tx.Status.Failures)
	return nil
}
