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
	"github.com/starlinghq/starling/pkg/core/kptpkg/lifecycle"
)

// Input is all that the plan of a PackageVariant follows from, but for files. It is not changed.
type Input struct {
	Variant *configv1alpha1.PackageVariant
	// Upstreams are the revisions of the upstream package; others may be among them.
	Upstreams []*storev1alpha1.PackageRevision
	// Downstreams are the revisions of the downstream package, and all others that the PackageVariant owns.
	Downstreams []*storev1alpha1.PackageRevision
	// HasRepository tells whether the Repository of the downstream package is there.
	HasRepository bool
	// Origin returns the revision that a lock is about, nil if it is not there any more.
	Origin func(Lock) *storev1alpha1.PackageRevision
	// OwnerExists tells whether a PackageVariant is there.
	OwnerExists func(types.UID) bool
	// Version returns what changes when an object changes that may be injected; "" if it is not there.
	Version func(configv1alpha1.InjectedObject) string
}

// Work is what is to be done with the files of a revision.
type Work struct {
	// Revision is the name of the one whose files are looked at.
	Revision string
	// From and To are the old and the new upstream, which is merged into the files; empty if it is not.
	From, To string
	// Edit is nil for a draft, whose files are written. Else it is the draft to create if the content of a published revision would change.
	Edit *porchv1alpha1.PackageRevision
	// LookOnly tells that the revision is proposed: if its content would change, that has to wait.
	LookOnly bool
	// Begin, if it is not nil, comes before the files of a draft are written, if their content changes.
	Begin *Action
}

// String says what the work is.
func (w *Work) String() string {
	switch {
	case w.To != "":
		return fmt.Sprintf("merge %s into %s, and mutate it", w.To, w.Revision)
	case w.Edit != nil:
		return fmt.Sprintf("edit %s if mutations change it", w.Revision)
	case w.LookOnly:
		return fmt.Sprintf("look whether mutations would change %s", w.Revision)
	}
	return "mutate " + w.Revision
}

// Plan is what is to be done for a PackageVariant: the actions in their order; if there are none, the work; then plan again. If
// there is no work, or none of it changed anything, the PackageVariant is as it should be, and the status is written.
type Plan struct {
	Actions []Action
	Work    []Work
	// Status is what the PackageVariant shall say when there is nothing left to do; its conditions have no times.
	Status configv1alpha1.PackageVariantStatus

	looked string // a hash of what was looked at, but for injected objects
}

// variantPlanning is the state of one planning.
type variantPlanning struct {
	in   *Input
	pv   *configv1alpha1.PackageVariant
	plan *Plan
	pkg  Package
	up   *storev1alpha1.PackageRevision
	// own are the drafts and proposed revisions of the PackageVariant, by name; elsewhere what it owns of other packages.
	own, elsewhere []*storev1alpha1.PackageRevision
	// mine tells that it owns a revision of the package.
	mine bool
	// base is the latest published revision of the package, whoever made it.
	base *storev1alpha1.PackageRevision
	// reason and message are why it is not ready; "" if it is.
	reason, message string
}

// PlanVariant returns what is to be done for a PackageVariant. It reads metadata only, and costs as much as there are revisions of the
// two packages.
func PlanVariant(in *Input) *Plan {
	p := &variantPlanning{in: in, pv: in.Variant, plan: &Plan{}}
	if p.pv.DeletionTimestamp != nil {
		p.leave()
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
		p.look()
		p.status()
		return p.plan
	}
	p.look()
	if p.take() {
		p.follow()
	}
	p.status()
	return p.plan
}

func (p *variantPlanning) act(verb Verb, r *storev1alpha1.PackageRevision) {
	a := Action{Verb: verb, variant: p.pv}
	if r != nil {
		a.Revision = r.Name
	}
	p.plan.Actions = append(p.plan.Actions, a)
}

func (p *variantPlanning) owns(r *storev1alpha1.PackageRevision) bool {
	return slices.ContainsFunc(r.Served.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == p.pv.UID })
}

// of tells whether a revision is one of the downstream package that counts: no content of a branch, and not on its way out.
func (p *variantPlanning) of(r *storev1alpha1.PackageRevision) bool {
	return r.Spec.RepositoryName == p.pkg.Repository && r.Spec.PackageName == p.pkg.Name && r.Spec.Revision >= 0 && r.DeletionTimestamp == nil
}

// leave deals with all that a PackageVariant which is being deleted owns, and lets it go when there is nothing left.
func (p *variantPlanning) leave() {
	left := 0
	for _, r := range sortedRevisions(p.in.Downstreams) {
		if p.owns(r) {
			left++
			p.dismiss(r)
		}
	}
	if left == 0 && slices.Contains(p.pv.Finalizers, configv1alpha1.PackageVariantFinalizer) {
		p.act(RemoveFinalizer, nil)
	}
	p.carryOver()
	p.condition(configv1alpha1.ConditionReady, metav1.ConditionFalse, configv1alpha1.ReasonError, fmt.Sprintf("the PackageVariant is being deleted; it still owns %d package revisions", left))
}

// dismiss does with a revision what deletionPolicy says.
func (p *variantPlanning) dismiss(r *storev1alpha1.PackageRevision) {
	switch {
	case r.DeletionTimestamp != nil: // it goes
	case p.pv.Spec.DeletionPolicy == configv1alpha1.DeletionPolicyOrphan, r.Spec.Revision < 0:
		p.act(Release, r)
	case r.Spec.Lifecycle.Published():
		p.act(ProposeDeletion, r) // also if it is proposed already: it is released, and known again
	default:
		p.act(Delete, r)
	}
}

// take finds out what of the downstream package is the PackageVariant's, adopts what it may, and creates the package if there is none. It
// returns true if all is taken.
func (p *variantPlanning) take() bool {
	adopt := p.pv.Spec.AdoptionPolicy == configv1alpha1.AdoptionPolicyAdoptExisting
	adopting := false
	var foreign, taken, others []*storev1alpha1.PackageRevision
	for _, r := range sortedRevisions(p.in.Downstreams) {
		if r.Spec.RepositoryName != p.pkg.Repository || r.Spec.PackageName != p.pkg.Name {
			continue
		}
		switch {
		case !p.of(r):
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
			foreign = append(foreign, r)
		}
	}
	switch {
	case !p.in.HasRepository:
		p.notReady(configv1alpha1.ReasonError, fmt.Sprintf("spec.downstream.repo: repository %q could not be loaded: there is none in this namespace", p.pkg.Repository))
		return false
	case adopting:
		return false
	case p.mine:
		return true
	case len(taken) > 0:
		p.notReady(configv1alpha1.ReasonDownstreamExists, fmt.Sprintf("package %s is kept by PackageVariant %s: delete that, or choose another package", p.pkg, metav1.GetControllerOfNoCopy(&metav1.ObjectMeta{OwnerReferences: taken[0].Served.OwnerReferences}).Name))
		return false
	case len(foreign) > 0:
		p.notReady(configv1alpha1.ReasonDownstreamExists, fmt.Sprintf("package %s has revisions already, such as %s: set spec.adoptionPolicy to %s, or choose another package", p.pkg, foreign[0].Name, configv1alpha1.AdoptionPolicyAdoptExisting))
		return false
	case len(others) > 0 && others[0].DeletionTimestamp != nil:
		p.notReady(configv1alpha1.ReasonError, fmt.Sprintf("package revision %s is being deleted; another follows when it is gone", others[0].Name))
		return false
	case len(others) > 0:
		p.notReady(configv1alpha1.ReasonDownstreamExists, fmt.Sprintf("package %s is on the branch of the repository and has no revision that could be adopted: choose another package", p.pkg))
		return false
	}
	p.create("", porchv1alpha1.Task{Type: porchv1alpha1.TaskTypeClone, Clone: &porchv1alpha1.PackageCloneTaskSpec{
		Upstream: porchv1alpha1.UpstreamPackage{UpstreamRef: &porchv1alpha1.PackageRevisionRef{Name: p.up.Name}},
	}})
	return false
}

// ownedByOther tells whether another PackageVariant, which is there, has a revision.
func (p *variantPlanning) ownedByOther(r *storev1alpha1.PackageRevision) bool {
	controller := metav1.GetControllerOfNoCopy(&metav1.ObjectMeta{OwnerReferences: r.Served.OwnerReferences})
	return controller != nil && controller.Kind == "PackageVariant" && p.in.OwnerExists(controller.UID)
}

// look finds the drafts, the base, and what is owned elsewhere.
func (p *variantPlanning) look() {
	for _, r := range sortedRevisions(p.in.Downstreams) {
		p.mine = p.mine || p.of(r) && p.owns(r)
		switch {
		case !p.of(r):
			if p.owns(r) && r.DeletionTimestamp == nil && (r.Spec.RepositoryName != p.pkg.Repository || r.Spec.PackageName != p.pkg.Name) {
				p.elsewhere = append(p.elsewhere, r)
			}
		case r.Spec.Lifecycle.Published():
			if p.base == nil || p.base.Spec.Revision < r.Spec.Revision {
				p.base = r
			}
		case p.owns(r):
			p.own = append(p.own, r)
		}
	}
}

// follow plans what brings the revisions to where they should be.
func (p *variantPlanning) follow() {
	if p.base != nil && p.owns(p.base) && p.base.Spec.Lifecycle == porchv1alpha1.LifecycleDeletionProposed {
		p.act(Restore, p.base)
	}
	for _, r := range p.elsewhere { // what replaces it is there
		p.dismiss(r)
	}
	settled := p.settled()
	for _, r := range p.own {
		p.followDraft(r, settled)
	}
	switch {
	case len(p.own) > 0:
		p.approve()
	case p.base != nil:
		p.followBase(settled)
	}
}

func (p *variantPlanning) followDraft(r *storev1alpha1.PackageRevision, settled bool) {
	current := madeFrom(r, p.up)
	if lifecycleOf(r) == porchv1alpha1.LifecycleProposed {
		switch {
		case p.policy() != "": // it is approved, and what has changed comes with the next draft
		case !current:
			p.waits(r, "the upstream has changed")
		case !settled:
			p.plan.Work = append(p.plan.Work, Work{Revision: r.Name, LookOnly: true})
		}
		return
	}
	w := Work{Revision: r.Name}
	if !current {
		from := p.origin(r)
		if from == nil {
			p.lost(r)
			return
		}
		w.From, w.To = from.Name, p.up.Name
	}
	complete := isComplete(r)
	if current && settled && complete {
		return
	}
	if complete {
		w.Begin = &Action{Verb: Begin, Revision: r.Name, variant: p.pv}
	}
	p.plan.Work = append(p.plan.Work, w)
}

// followBase plans a draft that is made from the latest published revision, if one is needed.
func (p *variantPlanning) followBase(settled bool) {
	if !madeFrom(p.base, p.up) {
		from := p.origin(p.base)
		if from == nil {
			p.lost(p.base)
			return
		}
		p.create(p.base.Name, porchv1alpha1.Task{Type: porchv1alpha1.TaskTypeUpgrade, Upgrade: &porchv1alpha1.PackageUpgradeTaskSpec{
			OldUpstream: porchv1alpha1.PackageRevisionRef{Name: from.Name}, NewUpstream: porchv1alpha1.PackageRevisionRef{Name: p.up.Name},
			LocalPackageRevisionRef: porchv1alpha1.PackageRevisionRef{Name: p.base.Name}, Strategy: porchv1alpha1.ResourceMerge,
		}})
		return
	}
	if settled {
		return
	}
	edit := p.draft(p.base.Name, porchv1alpha1.Task{Type: porchv1alpha1.TaskTypeEdit, Edit: &porchv1alpha1.PackageEditTaskSpec{
		Source: &porchv1alpha1.PackageRevisionRef{Name: p.base.Name},
	}})
	if p.inTheWay(edit.Name) {
		return
	}
	p.plan.Work = append(p.plan.Work, Work{Revision: p.base.Name, Edit: edit})
}

// draft is one that is made from a base, "" if there is none.
func (p *variantPlanning) draft(base string, task porchv1alpha1.Task) *porchv1alpha1.PackageRevision {
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
	pr.APIVersion, pr.Kind = porchv1alpha1.GroupVersion.String(), "PackageRevision"
	pr.Name = lifecycle.Name(p.pkg.Repository, p.pkg.Name, pr.Spec.WorkspaceName)
	pending(pr)
	return pr
}

func (p *variantPlanning) create(base string, task porchv1alpha1.Task) {
	pr := p.draft(base, task)
	if !p.inTheWay(pr.Name) {
		p.plan.Actions = append(p.plan.Actions, Action{Verb: Create, Revision: pr.Name, Object: pr, variant: p.pv})
	}
}

// inTheWay tells whether somebody else has a revision of the name that a draft would have.
func (p *variantPlanning) inTheWay(name string) bool {
	for _, r := range p.in.Downstreams {
		if r.Name == name {
			p.notReady(configv1alpha1.ReasonDownstreamExists, fmt.Sprintf("package revision %s is where the next draft would be, and is no draft of this PackageVariant: delete it, or set spec.adoptionPolicy to %s", name, configv1alpha1.AdoptionPolicyAdoptExisting))
			return true
		}
	}
	return false
}

// policy is which drafts are approved without anybody being asked; "" if this one is not.
func (p *variantPlanning) policy() string {
	policy, _ := approvalPolicy(p.pv)
	if policy == configv1alpha1.ApprovalInitial && p.base != nil {
		return ""
	}
	return policy
}

// approve proposes or approves the only draft, if it is finished and the policy says so.
func (p *variantPlanning) approve() {
	if p.policy() == "" || len(p.own) != 1 || len(p.plan.Work) > 0 || len(p.plan.Actions) > 0 || p.reason != "" {
		return
	}
	r := p.own[0]
	if unmet := lifecycle.Unmet(r.Spec.ReadinessGates, r.Status.Conditions); len(unmet) > 0 {
		p.plan.Status.WaitsFor = limited(lifecycle.NotReady(unmet), 1024)
		return
	}
	if lifecycleOf(r) == porchv1alpha1.LifecycleDraft {
		p.act(Propose, r)
		return
	}
	p.act(Approve, r)
}

func (p *variantPlanning) origin(r *storev1alpha1.PackageRevision) *storev1alpha1.PackageRevision {
	if lock, ok := upstreamLock(r); ok {
		return p.in.Origin(lock)
	}
	return nil
}

func isComplete(r *storev1alpha1.PackageRevision) bool {
	return slices.ContainsFunc(r.Status.Conditions, func(c porchv1alpha1.Condition) bool {
		return c.Type == configv1alpha1.ConditionPVOperationsComplete && c.Status == porchv1alpha1.ConditionTrue
	})
}

func sortedRevisions(all []*storev1alpha1.PackageRevision) []*storev1alpha1.PackageRevision {
	return slices.SortedFunc(slices.Values(all), func(a, b *storev1alpha1.PackageRevision) int { return cmp.Compare(a.Name, b.Name) })
}

// settled tells whether all was looked at as it is now, and nothing was left to do.
func (p *variantPlanning) settled() bool {
	h := sha256.New()
	say := func(parts ...any) { fmt.Fprintf(h, "%q\n", parts) }
	spec, err := json.Marshal(&p.pv.Spec)
	if err != nil {
		return false
	}
	say(p.pv.Name, string(spec), p.up.Name, p.up.Content.Digest)
	for _, r := range p.own {
		say(r.Name, r.Content.Digest, lifecycleOf(r))
	}
	if len(p.own) == 0 && p.base != nil {
		say(p.base.Name, p.base.Content.Digest)
	}
	p.plan.looked = hex.EncodeToString(h.Sum(nil))
	return p.pv.Status.Settled != "" && p.pv.Status.Settled == p.plan.Settled(p.pv.Status.Injected, p.in.Version)
}

// Settled returns what status.settled is to be once none of the work has changed anything, and it was these objects that could be
// injected.
func (p *Plan) Settled(injected []configv1alpha1.InjectedObject, version func(configv1alpha1.InjectedObject) string) string {
	h := sha256.New()
	fmt.Fprintln(h, p.looked)
	for _, o := range injected {
		fmt.Fprintf(h, "%q %q\n", []string{o.Group, o.Version, o.Kind, o.Name}, version(o))
	}
	const digits = 32
	return hex.EncodeToString(h.Sum(nil))[:digits]
}
