package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/gate"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/lifecycle"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/render"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/upgrade"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/workload"
	"github.com/starlinghq/starling/pkg/core/text"
	"github.com/starlinghq/starling/pkg/packages/functionrunner"
)

// Reasons of the condition PackagePipelinePassed.
const (
	ReasonPipelinePassed = "PipelinePassed"
	ReasonPipelineFailed = "PipelineFailed"
	// ReasonNotDeliverable says that the pipeline passed, and no cluster can get all objects of the
	// package.
	ReasonNotDeliverable = "NotDeliverable"
	// ReasonNotRendered says that the revision was imported as its author wrote it.
	ReasonNotRendered = "NotRendered"
)

// maxMessage bounds the message of a condition, since functions may write any amount.
const maxMessage = 2048

// maxUndeliverable is the number of problems that are listed.
const maxUndeliverable = 5

// draft has the files of a revision before they are stored, and what the spec sets in the Kptfile.
type draft struct {
	files kpt.Files
	// gates and conditions replace those of the Kptfile; metadata does too, unless it is nil.
	gates      []porchv1alpha1.ReadinessGate
	conditions []porchv1alpha1.Condition
	metadata   *porchv1alpha1.PackageMetadata
	// merged is the merge that the files come from; nil if they come from none.
	merged *upgrade.Merged
	// transactionGates: the gate of Transactions is among the gates of packages that need it.
	transactionGates bool
	// deployment: the package is for clusters, so the gate of the pipeline is not met if it cannot
	// be delivered.
	deployment bool
}

// draftOf returns a draft with the gates and conditions of its Kptfile.
func draftOf(files kpt.Files) (draft, error) {
	kptfile, err := kpt.ParseKptfile(files[kpt.KptfileName])
	if err != nil {
		return draft{}, fmt.Errorf("%s: %w", kpt.KptfileName, err)
	}
	return draftFromKptfile(kptfile, files), nil
}

// draftFromKptfile is draftOf for a parsed Kptfile.
func draftFromKptfile(kptfile *kpt.Kptfile, files kpt.Files) draft {
	d := draft{files: files}
	for _, gate := range kptfile.ReadinessGates() {
		d.gates = append(d.gates, porchv1alpha1.ReadinessGate{ConditionType: gate.ConditionType})
	}
	for _, c := range kptfile.Conditions() {
		d.conditions = append(d.conditions, porchv1alpha1.Condition{
			Type: c.Type, Status: porchv1alpha1.ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message,
		})
	}
	return d
}

// renderedDraft is the content of a revision, and the spec and status that follow from it.
type renderedDraft struct {
	draft
	result porchv1alpha1.ResultList
	// failed is the error because of which the gate of the pipeline is not met; nil if it is met.
	failed error
	// passed is the condition of the pipeline. The Kptfile has it without the message of a failure,
	// which is for the author of a draft; nil if it is that of the Kptfile.
	passed *porchv1alpha1.Condition
	lock   *porchv1alpha1.Locator
}

// renderDraft renders a draft and synchronizes Kptfile and revision. It returns an error if the
// package cannot be parsed or a function was killed. If a function fails, the files are stored as
// they were given, and the gate PackagePipelinePassed is not met.
func (s *Store) renderDraft(ctx context.Context, name string, d draft) (*renderedDraft, error) {
	if wrong := d.files.Check(); len(wrong) > 0 {
		return nil, invalidText(name, wrong...)
	}
	if _, ok := d.files[kpt.KptfileName]; !ok {
		return nil, invalidText(name, "the package must contain a Kptfile")
	}
	d.transactionGates = s.TransactionGates
	files, err := d.writeKptfile(d.files, nil)
	if err != nil {
		return nil, invalidText(name, err.Error())
	}
	rendered, failed := s.Render(ctx, files)
	if ctx.Err() != nil {
		return nil, apierrors.NewTimeoutError("rendering the package exceeded the timeout of the request", 0)
	}
	if _, wrong := errors.AsType[*render.PackageError](failed); wrong {
		return nil, invalidText(name, failed.Error())
	}
	if _, killed := errors.AsType[*functionrunner.KilledError](failed); killed {
		return nil, invalidText(name, failed.Error())
	}
	// A function may have changed the Kptfile, or made the package too large.
	if wrong := rendered.Files.Check(); len(wrong) > 0 && failed == nil {
		failed = errors.New("the rendered package is invalid: " + joinReasons(wrong))
		rendered.Files = files
	}
	passed := porchv1alpha1.Condition{
		Type: porchv1alpha1.ConditionPipelinePassed, Status: porchv1alpha1.ConditionTrue,
		Reason: ReasonPipelinePassed, Message: "package pipeline completed successfully",
	}
	reason := ReasonPipelineFailed
	if failed == nil && d.deployment {
		reason, failed = ReasonNotDeliverable, s.undeliverable(ctx, rendered.Files)
	}
	if failed != nil {
		passed.Status, passed.Reason = porchv1alpha1.ConditionFalse, reason
		passed.Message = text.Clip(failed.Error(), maxMessage)
	}
	out := &renderedDraft{result: rendered.Results, failed: failed, passed: &passed}
	if d.merged != nil {
		if conflicts := d.merged.ConflictsIn(rendered.Files); conflicts != nil {
			d.conditions = append(d.conditions, *conflicts)
		}
	}
	if out.files, err = d.writeKptfile(rendered.Files, &passed); err != nil {
		return nil, invalidText(name, err.Error())
	}
	if err := out.readKptfile(name); err != nil {
		return nil, err
	}
	return out, nil
}

// undeliverable returns an error if a cluster cannot get all objects of a package: it would be
// approved, and never arrive as a whole. Kinds that no cluster gets are no such error: a Repository
// may also be read by others, such as Config Sync, and the Binding reports them.
func (s *Store) undeliverable(ctx context.Context, files kpt.Files) error {
	var kinds workload.Kinds
	if s.kinds != nil {
		kinds = func(kind schema.GroupVersionKind) (workload.Resource, bool, error) {
			return s.kinds.Resource(ctx, kind)
		}
	}
	read, err := workload.Read(files, kinds)
	switch {
	case err != nil:
		return fmt.Errorf("it is not known whether all objects can be delivered: %w", err)
	case len(read.Problems) > 0:
		return errors.New("not all objects can be delivered: " + text.List(read.Problems, maxUndeliverable))
	}
	return nil
}

// deploys reports whether the Repository of a revision is one of a cluster: now, or if it does not
// exist, when the revision was written last.
func (s *Store) deploys(ctx context.Context, cr *storev1alpha1.PackageRevision) (bool, error) {
	repository, err := s.repositories(cr.Namespace).Get(ctx, cr.Spec.RepositoryName, metav1.GetOptions{ResourceVersion: "0"})
	switch {
	case apierrors.IsNotFound(err):
		return cr.Status.Deployment, nil
	case err != nil:
		return false, fmt.Errorf("read Repository %q: %w", cr.Spec.RepositoryName, err)
	}
	return repository.Spec.Deployment, nil
}

// writeKptfile writes gates, conditions and metadata into the Kptfile. Parts that are equal are not
// changed. The argument passed is the condition that the server owns; nil leaves it as it is.
func (d *draft) writeKptfile(files kpt.Files, passed *porchv1alpha1.Condition) (kpt.Files, error) {
	kptfile, err := kpt.ParseKptfile(files[kpt.KptfileName])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kpt.KptfileName, err)
	}
	required := []string{porchv1alpha1.ConditionPipelinePassed}
	if d.transactionGates && gate.Needed(files) {
		required = append(required, porchv1alpha1.ConditionTransactionValidated)
	}
	if err := kptfile.SetReadinessGates(gatesOf(d.gates, required)); err != nil {
		return nil, fmt.Errorf("%s: info.readinessGates: %w", kpt.KptfileName, err)
	}
	if passed != nil {
		if err := kptfile.SetConditions(conditionsOf(d.conditions, *passed)); err != nil {
			return nil, fmt.Errorf("%s: status.conditions: %w", kpt.KptfileName, err)
		}
	}
	if d.metadata != nil {
		if err := kptfile.SetMetadata(d.metadata.Labels, d.metadata.Annotations); err != nil {
			return nil, fmt.Errorf("%s: metadata: %w", kpt.KptfileName, err)
		}
	}
	if kptfile.Changed() { // else it stays byte for byte as its author wrote it
		files = withFile(files, kpt.KptfileName, kptfile.String())
	}
	return files, nil
}

// withFile returns a copy of files with one file replaced.
func withFile(files kpt.Files, name, content string) kpt.Files {
	out := make(kpt.Files, len(files)+1)
	maps.Copy(out, files)
	out[name] = content
	return out
}

// gatesOf returns all gates without duplicates, including those that are required.
func gatesOf(gates []porchv1alpha1.ReadinessGate, required []string) []kpt.ReadinessGate {
	var out []kpt.ReadinessGate
	add := func(conditionType string) {
		g := kpt.ReadinessGate{ConditionType: conditionType}
		if conditionType != "" && !slices.Contains(out, g) {
			out = append(out, g)
		}
	}
	for _, gate := range gates {
		add(gate.ConditionType)
	}
	for _, conditionType := range required {
		add(conditionType)
	}
	return out
}

// conditionsOf returns the last condition of each type, including that of the pipeline.
func conditionsOf(conditions []porchv1alpha1.Condition, passed porchv1alpha1.Condition) []kpt.Condition {
	var out []kpt.Condition
	for _, c := range append(slices.Clone(conditions), passed) {
		if c.Type == "" {
			continue
		}
		condition := inKptfile(c)
		if i := slices.IndexFunc(out, func(o kpt.Condition) bool { return o.Type == c.Type }); i >= 0 {
			out[i] = condition
			continue
		}
		out = append(out, condition)
	}
	return out
}

// inKptfile returns a condition as it is in the Kptfile.
func inKptfile(c porchv1alpha1.Condition) kpt.Condition {
	if isPipelinePassed(c) && c.Status == porchv1alpha1.ConditionFalse {
		c.Message = "see the PackageRevision"
	}
	return kpt.Condition{Type: c.Type, Status: string(c.Status), Reason: c.Reason, Message: c.Message}
}

// readKptfile sets gates, conditions and metadata from the Kptfile, so that revision and Kptfile
// cannot differ.
func (s *renderedDraft) readKptfile(name string) error {
	kptfile, err := kpt.ParseKptfile(s.files[kpt.KptfileName])
	if err != nil {
		return invalidText(name, fmt.Sprintf("%s: %v", kpt.KptfileName, err))
	}
	s.draft = draftFromKptfile(kptfile, s.files)
	if i := slices.IndexFunc(s.conditions, isPipelinePassed); i >= 0 && s.passed != nil {
		s.conditions[i] = *s.passed
	}
	for _, c := range s.conditions {
		switch c.Status {
		case porchv1alpha1.ConditionTrue, porchv1alpha1.ConditionFalse, porchv1alpha1.ConditionUnknown:
		default:
			return invalid(name, lifecycle.FieldErrorf("status.conditions["+c.Type+"].status", "Unsupported value: %q: supported values: True, False, Unknown", c.Status))
		}
	}
	if labels, annotations := kptfile.Labels(), kptfile.Annotations(); len(labels)+len(annotations) > 0 {
		s.metadata = &porchv1alpha1.PackageMetadata{Labels: labels, Annotations: annotations}
	}
	if lock := kptfile.UpstreamLock(); lock != nil && lock.Git != nil {
		s.lock = &porchv1alpha1.Locator{Type: porchv1alpha1.RepositoryTypeGit, Git: &porchv1alpha1.GitLock{
			Repo: lifecycle.WithoutCredentials(lock.Git.Repo), Directory: lock.Git.Directory, Ref: lock.Git.Ref, Commit: lock.Git.Commit,
		}}
	}
	return nil
}

// expireConditions makes conditions Unknown that were set for other content, which a revision has,
// and not by this write. They are in the Kptfile, and not part of the content.
func (s *renderedDraft) expireConditions(before *storev1alpha1.PackageRevision) error {
	if s.files.ContentDigest() == before.Status.ContentDigest {
		return nil
	}
	current := lifecycle.CurrentConditions(before.Status.Conditions, s.conditions)
	if slices.Equal(current, s.conditions) {
		return nil
	}
	kptfile, err := kpt.ParseKptfile(s.files[kpt.KptfileName])
	if err != nil {
		return invalidText(before.Name, fmt.Sprintf("%s: %v", kpt.KptfileName, err))
	}
	all := make([]kpt.Condition, len(current))
	for i, c := range current {
		all[i] = inKptfile(c)
	}
	if err := kptfile.SetConditions(all); err != nil {
		return invalidText(before.Name, fmt.Sprintf("%s: status.conditions: %v", kpt.KptfileName, err))
	}
	s.files = withFile(s.files, kpt.KptfileName, kptfile.String())
	return s.readKptfile(before.Name)
}

// applyTo writes the result into a revision. Its content was stored under digest.
func (s *renderedDraft) applyTo(cr *storev1alpha1.PackageRevision, digest string) {
	cr.Content.Digest = digest
	cr.Content.Files = int32(len(s.files))
	cr.Spec.ReadinessGates = s.gates
	cr.Spec.PackageMetadata = s.metadata
	cr.Status.Conditions = s.conditions
	cr.Status.ContentDigest = s.files.ContentDigest()
	cr.Status.UpstreamLock = s.lock
	setPrivateLabels(cr)
}

// renderStatus returns the status of the rendering for the user.
func (s *renderedDraft) renderStatus() porchv1alpha1.RenderStatus {
	status := porchv1alpha1.RenderStatus{Result: s.result}
	status.Result.APIVersion, status.Result.Kind = "kpt.dev/v1", "FunctionResultList"
	status.Result.Name = "fnresults"
	if s.failed != nil {
		status.Err = s.failed.Error()
		status.Result.ExitCode = max(1, status.Result.ExitCode)
	}
	return status
}

// SetContent sets the content of an imported revision, and the spec and status that follow from its
// Kptfile. The files are not rendered, and the Kptfile is not changed: they stay as their author
// wrote them. So it is not known whether its pipeline passes, whatever its Kptfile says.
func SetContent(cr *storev1alpha1.PackageRevision, files kpt.Files, digest string) error {
	s := &renderedDraft{draft: draft{files: files}}
	if err := s.readKptfile(cr.Name); err != nil {
		return err
	}
	gate := porchv1alpha1.ReadinessGate{ConditionType: porchv1alpha1.ConditionPipelinePassed}
	if !slices.Contains(s.gates, gate) {
		s.gates = append(s.gates, gate)
	}
	s.conditions = append(slices.DeleteFunc(s.conditions, isPipelinePassed), porchv1alpha1.Condition{
		Type: gate.ConditionType, Status: porchv1alpha1.ConditionUnknown, Reason: ReasonNotRendered, Message: "imported as its author wrote it",
	})
	s.applyTo(cr, digest)
	return nil
}
