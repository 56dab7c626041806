package variant

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/lifecycle"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/version"
	"github.com/starlinghq/starling/pkg/core/text"
)

// Input holds all inputs of the plan of a PackageVariant, except files. It is not changed.
type Input struct {
	Variant *configv1alpha1.PackageVariant
	// Self is the user name of the controller in the WDS.
	Self string
	// Upstreams are the revisions of the upstream package. Revisions of other packages may be among
	// them.
	Upstreams []*storev1alpha1.PackageRevision
	// Downstreams are the revisions of the downstream package, and all other revisions that the
	// PackageVariant owns.
	Downstreams []*storev1alpha1.PackageRevision
	// HasRepository is true if the Repository of the downstream package exists.
	HasRepository bool
	// Origin returns the revision to which a lock refers, nil if it no longer exists.
	Origin func(Lock) *storev1alpha1.PackageRevision
	// OwnerExists reports whether a PackageVariant exists.
	OwnerExists func(types.UID) bool
	// Version returns a version of an object that may be injected, which changes whenever the
	// object does; "" if it does not exist.
	Version func(configv1alpha1.InjectedObject) string
}

// Work is a task on the files of a revision.
type Work struct {
	// Revision is the name of the revision whose files are read.
	Revision string
	// From is the digest of the upstream's content that was merged last, To the name of the new
	// upstream of a merge; both are empty if nothing is merged.
	From, To string
	// Edit is nil for a draft, whose files are written. For a published revision it is the draft to
	// create if the content would change.
	Edit *porchv1alpha1.PackageRevision
	// DryRun is true if the revision is proposed. Then nothing is written: a change of its content
	// waits for the approval.
	DryRun bool
	// Begin, if not nil, is the action that precedes a change of the files of a draft.
	Begin *Action
}

// String describes the work.
func (w *Work) String() string {
	switch {
	case w.To != "":
		return fmt.Sprintf("merge %s into %s, and mutate it", w.To, w.Revision)
	case w.Edit != nil:
		return fmt.Sprintf("edit %s if mutations change it", w.Revision)
	case w.DryRun:
		return fmt.Sprintf("check whether mutations would change %s", w.Revision)
	}
	return "mutate " + w.Revision
}

// Plan holds the next steps for a PackageVariant. The caller carries out the actions in their order
// or, if there are none, the work; then it plans again. If there is no work, or no work changed
// anything, the PackageVariant is up to date and the status is written.
type Plan struct {
	Actions []Action
	Work    []Work
	// Status is the status of the PackageVariant once nothing is left to do. Its conditions have no
	// times.
	Status configv1alpha1.PackageVariantStatus

	// inputHash is a hash of all inputs except injected objects; specHash leaves out the content of
	// the downstream package, too.
	inputHash, specHash string
}

// variantPlanner is the state of one planning.
type variantPlanner struct {
	in   *Input
	pv   *configv1alpha1.PackageVariant
	plan *Plan
	pkg  Package
	// up is the upstream revision.
	up *storev1alpha1.PackageRevision
	// own are the drafts and proposed revisions of the PackageVariant, by name; otherPackages are
	// its revisions of other packages.
	own, otherPackages []*storev1alpha1.PackageRevision
	// ownsAny is true if it owns a revision of the package.
	ownsAny bool
	// base is the latest published revision of the package, of any owner.
	base *storev1alpha1.PackageRevision
	// reason and message of Ready if it is False; "" if it is True.
	reason, message string
}

// PlanVariant returns the next steps for a PackageVariant. It reads metadata only. Its cost is
// proportional to the number of revisions of the two packages.
func PlanVariant(in *Input) *Plan {
	p := &variantPlanner{in: in, pv: in.Variant, plan: &Plan{}}
	if p.pv.DeletionTimestamp != nil {
		p.planDeletion()
		return p.plan
	}
	if !slices.Contains(p.pv.Finalizers, configv1alpha1.PackageVariantFinalizer) {
		p.act(AddFinalizer, nil)
	}
	if wrong := ValidateVariant(p.pv); len(wrong) > 0 {
		p.stalled(configv1alpha1.ReasonValidationError, join(wrong), "invalid packagevariant object")
		p.carryOver()
		return p.plan
	}
	p.pkg = packageOf(p.pv)
	var err error
	if p.up, err = FindUpstream(p.pv.Spec.Upstream, in.Upstreams); err != nil {
		reason := configv1alpha1.ReasonUpstreamNotFound
		if not, is := errors.AsType[*NotFoundError](err); is {
			reason = not.Reason
		}
		p.stalled(reason, err.Error(), err.Error())
		p.classify()
		p.status()
		return p.plan
	}
	p.classify()
	if p.adoptOrCreate() {
		p.updateRevisions()
	}
	p.status()
	return p.plan
}

func (p *variantPlanner) act(verb Verb, r *storev1alpha1.PackageRevision) {
	a := Action{Verb: verb, variant: p.pv}
	if r != nil {
		a.Revision = r.Name
	}
	p.plan.Actions = append(p.plan.Actions, a)
}

func (p *variantPlanner) owns(r *storev1alpha1.PackageRevision) bool {
	// The server checks owners by kind and name: an owner with this UID and another name is forged.
	return slices.ContainsFunc(r.Served.OwnerReferences, func(o metav1.OwnerReference) bool {
		return o.UID == p.pv.UID && o.Kind == "PackageVariant" && o.Name == p.pv.Name
	})
}

// isDownstream reports whether a revision is of the downstream package, not a placeholder, and not
// being deleted.
func (p *variantPlanner) isDownstream(r *storev1alpha1.PackageRevision) bool {
	return r.Spec.RepositoryName == p.pkg.Repository && r.Spec.PackageName == p.pkg.Name && !isPlaceholder(r) && r.DeletionTimestamp == nil
}

// isPlaceholder reports whether a revision is the content of a branch, which changes.
func isPlaceholder(r *storev1alpha1.PackageRevision) bool {
	return r.Spec.Revision < 0 && version.Of(r).IsZero()
}

// planDeletion applies the deletion policy to all revisions of a PackageVariant that is being
// deleted, and then removes its finalizer.
func (p *variantPlanner) planDeletion() {
	left := 0
	for _, r := range sortedRevisions(p.in.Downstreams) {
		if p.owns(r) {
			left++
			p.applyDeletionPolicy(r)
		}
	}
	if left == 0 && slices.Contains(p.pv.Finalizers, configv1alpha1.PackageVariantFinalizer) {
		p.act(RemoveFinalizer, nil)
	}
	p.carryOver()
	p.condition(configv1alpha1.ConditionReady, metav1.ConditionFalse, configv1alpha1.ReasonError, "the PackageVariant is being deleted; it still owns "+text.Count(left, "package revision"))
}

// applyDeletionPolicy deletes a revision, proposes its deletion, or releases it. A draft with
// content of a person stays: nothing else has that content.
func (p *variantPlanner) applyDeletionPolicy(r *storev1alpha1.PackageRevision) {
	switch {
	case r.DeletionTimestamp != nil: // nothing left to do
	case p.orphans(), isPlaceholder(r), r.Spec.Lifecycle == porchv1alpha1.LifecycleDeletionProposed: // that is of a person, who may withdraw it
		p.act(Release, r)
	case r.Spec.Lifecycle.Published():
		p.act(ProposeDeletion, r)
	case p.otherAuthor(r) != "":
		p.act(Leave, r)
	default:
		p.act(Delete, r)
	}
}

// orphans reports whether all revisions stay as they are: because of the policy, or since the
// PackageVariant is deleted with --cascade=orphan. Then the API server has added a finalizer, which
// the garbage collector removes once it has released all of them itself.
func (p *variantPlanner) orphans() bool {
	return p.pv.Spec.DeletionPolicy == configv1alpha1.DeletionPolicyOrphan ||
		p.pv.DeletionTimestamp != nil && slices.Contains(p.pv.Finalizers, metav1.FinalizerOrphanDependents)
}

// adoptOrCreate adopts the revisions of the downstream package that the PackageVariant may own, and
// creates the package if there is none. It returns true if the PackageVariant owns the package and
// nothing is left to adopt.
func (p *variantPlanner) adoptOrCreate() bool {
	adopt := p.pv.Spec.AdoptionPolicy == configv1alpha1.AdoptionPolicyAdoptExisting
	adopting := false
	var unowned, taken, others []*storev1alpha1.PackageRevision
	for _, r := range sortedRevisions(p.in.Downstreams) {
		if r.Spec.RepositoryName != p.pkg.Repository || r.Spec.PackageName != p.pkg.Name {
			continue
		}
		switch {
		case !p.isDownstream(r):
			others = append(others, r)
		case p.owns(r):
		case p.ownedByOther(r):
			taken = append(taken, r)
		case adopt, r.Annotations[configv1alpha1.AnnotationReleasedBy] == p.pv.Name:
			p.act(Adopt, r)
			if released := r.Annotations[configv1alpha1.AnnotationReleasedBy] == p.pv.Name; released && r.Spec.Lifecycle == porchv1alpha1.LifecycleDeletionProposed {
				p.act(Restore, r)
			}
			adopting = true
		default:
			unowned = append(unowned, r)
		}
	}
	switch {
	case !p.in.HasRepository:
		p.notReady(configv1alpha1.ReasonError, fmt.Sprintf("spec.downstream.repo: repository %q could not be loaded: no such Repository in this namespace", p.pkg.Repository))
		return false
	case adopting:
		return false
	case p.ownsAny:
		return true
	case len(taken) > 0:
		p.notReady(configv1alpha1.ReasonDownstreamExists, fmt.Sprintf("package %s already belongs to PackageVariant %s: delete that PackageVariant, or choose another package", p.pkg, metav1.GetControllerOfNoCopy(&metav1.ObjectMeta{OwnerReferences: taken[0].Served.OwnerReferences}).Name))
		return false
	case len(unowned) > 0:
		p.notReady(configv1alpha1.ReasonDownstreamExists, fmt.Sprintf("package %s already has revisions, such as %s: set spec.adoptionPolicy to %s, or choose another package", p.pkg, unowned[0].Name, configv1alpha1.AdoptionPolicyAdoptExisting))
		return false
	case len(others) > 0 && others[0].DeletionTimestamp != nil:
		p.notReady(configv1alpha1.ReasonError, fmt.Sprintf("package revision %s is being deleted; it is re-created afterwards", others[0].Name))
		return false
	case len(others) > 0:
		p.notReady(configv1alpha1.ReasonDownstreamExists, fmt.Sprintf("package %s exists only on the branch of the repository, so there is no revision to adopt: choose another package", p.pkg))
		return false
	}
	p.create("", porchv1alpha1.Task{Type: porchv1alpha1.TaskTypeClone, Clone: &porchv1alpha1.PackageCloneTaskSpec{
		Upstream: porchv1alpha1.UpstreamPackage{UpstreamRef: &porchv1alpha1.PackageRevisionRef{Name: p.up.Name}},
	}})
	return false
}

// ownedByOther reports whether another existing PackageVariant owns a revision.
func (p *variantPlanner) ownedByOther(r *storev1alpha1.PackageRevision) bool {
	controller := metav1.GetControllerOfNoCopy(&metav1.ObjectMeta{OwnerReferences: r.Served.OwnerReferences})
	return controller != nil && controller.Kind == "PackageVariant" && p.in.OwnerExists(controller.UID)
}

// classify finds the drafts, the base, and the owned revisions of other packages.
func (p *variantPlanner) classify() {
	for _, r := range sortedRevisions(p.in.Downstreams) {
		p.ownsAny = p.ownsAny || p.isDownstream(r) && p.owns(r)
		switch {
		case !p.isDownstream(r):
			if p.owns(r) && r.DeletionTimestamp == nil && (r.Spec.RepositoryName != p.pkg.Repository || r.Spec.PackageName != p.pkg.Name) {
				p.otherPackages = append(p.otherPackages, r)
			}
		case r.Spec.Lifecycle.Published():
			if p.base == nil || version.Precedes(p.base, r) {
				p.base = r
			}
		case p.owns(r):
			p.own = append(p.own, r)
		}
	}
}

// updateRevisions plans the changes that bring the drafts, or the published revision, up to date.
func (p *variantPlanner) updateRevisions() {
	for _, r := range p.otherPackages { // their replacement exists
		p.applyDeletionPolicy(r)
	}
	if p.startOver() {
		return
	}
	upToDate := p.upToDate()
	for _, r := range p.own {
		p.unmark(r)
		p.updateDraft(r, upToDate)
	}
	switch {
	case len(p.own) > 0:
		p.approve()
	case p.base != nil:
		p.updatePublished(upToDate)
	}
}

func (p *variantPlanner) updateDraft(r *storev1alpha1.PackageRevision, upToDate bool) {
	current := createdFrom(r, p.up)
	if lifecycleOf(r) == porchv1alpha1.LifecycleProposed {
		switch {
		case p.policy() != "": // it will be approved, and changes come with the next draft
		case !current:
			p.waitForApproval(r, "the upstream has changed")
		case !upToDate:
			p.plan.Work = append(p.plan.Work, Work{Revision: r.Name, DryRun: true})
		}
		return
	}
	w := Work{Revision: r.Name}
	if !current {
		_, digest := p.origin(r)
		if digest == "" {
			p.upstreamLost(r)
			return
		}
		w.From, w.To = digest, p.up.Name
	}
	complete := isComplete(r)
	if current && upToDate && complete {
		return
	}
	if complete {
		w.Begin = &Action{Verb: Begin, Revision: r.Name, variant: p.pv}
	}
	p.plan.Work = append(p.plan.Work, w)
}

// updatePublished plans a draft from the latest published revision, if its content is out of date.
func (p *variantPlanner) updatePublished(upToDate bool) {
	if !createdFrom(p.base, p.up) {
		from, digest := p.origin(p.base)
		if digest == "" {
			p.upstreamLost(p.base)
			return
		}
		p.create(p.base.Name, porchv1alpha1.Task{Type: porchv1alpha1.TaskTypeUpgrade, Upgrade: &porchv1alpha1.PackageUpgradeTaskSpec{
			OldUpstream: porchv1alpha1.PackageRevisionRef{Name: from}, NewUpstream: porchv1alpha1.PackageRevisionRef{Name: p.up.Name},
			LocalPackageRevisionRef: porchv1alpha1.PackageRevisionRef{Name: p.base.Name}, Strategy: porchv1alpha1.ResourceMerge,
		}})
		return
	}
	if upToDate {
		return
	}
	edit := p.draft(p.base.Name, porchv1alpha1.Task{Type: porchv1alpha1.TaskTypeEdit, Edit: &porchv1alpha1.PackageEditTaskSpec{
		Source: &porchv1alpha1.PackageRevisionRef{Name: p.base.Name},
	}})
	if p.nameTaken(edit.Name) {
		return
	}
	p.plan.Work = append(p.plan.Work, Work{Revision: p.base.Name, Edit: edit})
}

// draft returns a new draft that is created from a base, "" if there is none.
func (p *variantPlanner) draft(base string, task porchv1alpha1.Task) *porchv1alpha1.PackageRevision {
	pr := &porchv1alpha1.PackageRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.pv.Namespace, Labels: overlaid(nil, p.pv.Spec.Labels), Annotations: overlaid(nil, p.pv.Spec.Annotations),
			OwnerReferences: []metav1.OwnerReference{ownerOf(p.pv)},
		},
		Spec: porchv1alpha1.PackageRevisionSpec{
			RepositoryName: p.pkg.Repository, PackageName: p.pkg.Name, WorkspaceName: Workspace(p.pv.Name, p.pkg, base),
			Lifecycle: porchv1alpha1.LifecycleDraft, Tasks: []porchv1alpha1.Task{task},
		},
	}
	if p.policyOfAnyDraft() != "" {
		pr.Annotations = overlaid(pr.Annotations, map[string]string{configv1alpha1.AnnotationPolicyOf: string(p.pv.UID)})
	}
	pr.APIVersion, pr.Kind = porchv1alpha1.GroupVersion.String(), "PackageRevision"
	pr.Name = lifecycle.Name(p.pkg.Repository, p.pkg.Name, pr.Spec.WorkspaceName)
	pending(pr)
	return pr
}

func (p *variantPlanner) create(base string, task porchv1alpha1.Task) {
	pr := p.draft(base, task)
	if !p.nameTaken(pr.Name) {
		p.plan.Actions = append(p.plan.Actions, Action{Verb: Create, Revision: pr.Name, Object: pr, variant: p.pv})
	}
}

// nameTaken reports whether the name of a new draft is in use by a revision of another owner.
func (p *variantPlanner) nameTaken(name string) bool {
	for _, r := range p.in.Downstreams {
		if r.Name == name {
			p.notReady(configv1alpha1.ReasonDownstreamExists, fmt.Sprintf("package revision %s has the name of the next draft, but does not belong to this PackageVariant: delete it, or set spec.adoptionPolicy to %s", name, configv1alpha1.AdoptionPolicyAdoptExisting))
			return true
		}
	}
	return false
}

// approve proposes or approves the only draft, if it is complete and the policy allows it.
func (p *variantPlanner) approve() {
	if p.policy() == "" || len(p.own) != 1 || len(p.plan.Work) > 0 || len(p.plan.Actions) > 0 || p.reason != "" {
		return
	}
	r := p.own[0]
	if unmet := lifecycle.Unmet(&r.Spec, &r.Status); len(unmet) > 0 {
		p.plan.Status.WaitsFor = text.Clip(lifecycle.NotReady(unmet), maxWaitsFor)
		return
	}
	if lifecycleOf(r) == porchv1alpha1.LifecycleDraft {
		p.act(Propose, r)
		return
	}
	p.act(Approve, r)
}

// origin returns the name of the upstream that was merged last into a revision, and the digest of
// what was merged. If the tag of that upstream was moved since, and a user has accepted it, the
// revision has retained the former content. Both are empty if it is not known.
func (p *variantPlanner) origin(r *storev1alpha1.PackageRevision) (name, digest string) {
	lock, ok := upstreamLock(r)
	if !ok {
		return "", ""
	}
	if from := p.in.Origin(lock); from != nil && from.DeletionTimestamp == nil { // or it cannot be named in a task
		return from.Name, from.Content.Digest
	}
	if slices.ContainsFunc(p.in.Upstreams, func(up *storev1alpha1.PackageRevision) bool {
		return up.Name == r.Content.Upstream && up.DeletionTimestamp == nil
	}) {
		return r.Content.Upstream, r.Content.UpstreamDigest
	}
	return "", ""
}

func isComplete(r *storev1alpha1.PackageRevision) bool {
	return slices.ContainsFunc(r.Status.Conditions, func(c porchv1alpha1.Condition) bool {
		return c.Type == configv1alpha1.ConditionPVOperationsComplete && c.Status == porchv1alpha1.ConditionTrue
	})
}

func sortedRevisions(all []*storev1alpha1.PackageRevision) []*storev1alpha1.PackageRevision {
	return slices.SortedFunc(slices.Values(all), func(a, b *storev1alpha1.PackageRevision) int { return cmp.Compare(a.Name, b.Name) })
}

// upToDate reports whether the inputs are the same as when nothing was left to do.
func (p *variantPlanner) upToDate() bool {
	h := sha256.New()
	add := func(parts ...any) { fmt.Fprintf(h, "%q\n", parts) }
	spec, err := json.Marshal(&p.pv.Spec)
	if err != nil {
		return false
	}
	add(p.pv.Name, string(spec), p.up.Name, p.up.Content.Digest)
	p.plan.specHash = hex.EncodeToString(h.Sum(nil))
	for _, r := range p.own {
		add(r.Name, r.Content.Digest, lifecycleOf(r))
	}
	if len(p.own) == 0 && p.base != nil {
		add(p.base.Name, p.base.Content.Digest)
	}
	p.plan.inputHash = hex.EncodeToString(h.Sum(nil))
	return p.pv.Status.Settled != "" && p.pv.Status.Settled == p.plan.Settled(p.pv.Status.Injected, p.in.Version)
}

// Settled returns status.settled, a hash of all inputs, for the given objects that may be injected.
// It is written once none of the work changed anything.
func (p *Plan) Settled(injected []configv1alpha1.InjectedObject, version func(configv1alpha1.InjectedObject) string) string {
	return withInjected(p.inputHash, injected, version)
}

// Inputs returns a hash of what the mutations of a draft depend on, for the given objects that may
// be injected, see Rounds.
func (p *Plan) Inputs(injected []configv1alpha1.InjectedObject, version func(configv1alpha1.InjectedObject) string) string {
	return withInjected(p.specHash, injected, version)
}

func withInjected(hash string, injected []configv1alpha1.InjectedObject, version func(configv1alpha1.InjectedObject) string) string {
	h := sha256.New()
	fmt.Fprintln(h, hash)
	for _, o := range injected {
		fmt.Fprintf(h, "%q %q\n", []string{o.Group, o.Version, o.Kind, o.Name}, version(o))
	}
	const digits = 32
	return hex.EncodeToString(h.Sum(nil))[:digits]
}
