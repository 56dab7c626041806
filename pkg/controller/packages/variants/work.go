package variants

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/merge"
	"github.com/starlinghq/starling/pkg/core/packages/variant"
	"github.com/starlinghq/starling/pkg/core/packages/variant/mutation"
	"github.com/starlinghq/starling/pkg/packages/store"
	"github.com/starlinghq/starling/pkg/writer"
)

// editor reads and writes files for one plan.
type editor struct {
	*Controller
	state *state
	in    *variant.Input
	plan  *variant.Plan
	// injected are the objects that were looked up, with the versions that were observed.
	injected map[configv1alpha1.InjectedObject]string
	// unread is why an object could not be read, if a retry may heal that.
	unread error
}

// work carries out the work of a plan on files. It returns the status if nothing had to be written.
func (c *Controller) work(ctx context.Context, s *state, in *variant.Input, plan *variant.Plan) (*configv1alpha1.PackageVariantStatus, error) {
	w := &editor{Controller: c, state: s, in: in, plan: plan, injected: map[configv1alpha1.InjectedObject]string{}}
	status := plan.Status.DeepCopy()
	upToDate := true
	for i := range plan.Work {
		job := &plan.Work[i]
		r := w.revision(job.Revision)
		if r == nil {
			return nil, fmt.Errorf("%s: the PackageRevision no longer exists", job)
		}
		wrote, waits, err := w.do(ctx, job, r)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", job, w.failed(ctx, job, r, err))
		}
		if wrote {
			return nil, nil //nolint:nilnil // see carryOut
		}
		if waits {
			upToDate = false
			*status = plan.Waiting(job)
		}
	}
	if len(plan.Work) == 0 || !upToDate {
		return status, nil
	}
	status.Injected = w.lookedUp()
	status.Settled = plan.Settled(status.Injected, w.observed)
	return status, nil
}

// lookedUp returns the objects that were looked up, sorted; observed returns the version of one.
func (w *editor) lookedUp() []configv1alpha1.InjectedObject {
	return slices.SortedFunc(maps.Keys(w.injected), func(a, b configv1alpha1.InjectedObject) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
}

func (w *editor) observed(o configv1alpha1.InjectedObject) string { return w.injected[o] }

// do does one piece of work. It reports whether it wrote anything, and whether a proposed revision
// would have to change.
func (w *editor) do(ctx context.Context, job *variant.Work, r *storev1alpha1.PackageRevision) (wrote, waits bool, err error) {
	before, err := w.files.Get(ctx, r.Content.Digest)
	if err != nil {
		return false, false, err
	}
	files := before
	if job.To != "" {
		if files, err = w.merged(ctx, job, before); err != nil {
			return false, false, err
		}
	}
	result, err := mutation.Apply(&mutation.Input{Variant: w.in.Variant, Revision: r.Name, Files: files, Lookup: w.lookup(ctx)})
	if err != nil && w.unread == nil {
		err = userErrorf("%w", err)
	}
	if err != nil {
		return false, false, err
	}
	switch {
	case job.DryRun:
		return false, result.Content, nil
	case job.Edit != nil && !result.Content, job.To == "" && !result.Changed:
		return false, false, nil
	case job.Edit != nil:
		return true, false, w.begin(ctx, variant.Action{Verb: variant.Create, Revision: job.Edit.Name, Object: job.Edit})
	}
	if err := w.state.roundsOf(r.Name).Begin(w.plan.Inputs(w.lookedUp(), w.observed), r.ResourceVersion, result.ChangedFiles(files)); err != nil {
		return false, false, userErrorf("%w", err)
	}
	if job.Begin != nil {
		return true, false, w.begin(ctx, *job.Begin)
	}
	return true, false, w.write(ctx, r, result.Files)
}

func (w *editor) begin(ctx context.Context, a variant.Action) error {
	return w.act(ctx, w.state, w.in, []variant.Action{a})
}

// merged returns the files of a draft with its new upstream merged into them.
func (w *editor) merged(ctx context.Context, job *variant.Work, draft kpt.Files) (kpt.Files, error) {
	to := w.revision(job.To)
	if to == nil {
		return nil, fmt.Errorf("PackageRevision %s no longer exists", job.To)
	}
	original, err := w.files.Get(ctx, job.From)
	if err != nil {
		return nil, fmt.Errorf("read the upstream that was merged last: %w", err)
	}
	updated, err := w.files.Get(ctx, to.Content.Digest)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", to.Name, err)
	}
	merged, err := mutation.Upgrade(draft, original, to, updated, w.schemas.Find)
	if _, unknown := errors.AsType[*merge.SchemaError](err); unknown {
		return nil, err
	}
	if err != nil {
		return nil, userErrorf("%w", err)
	}
	return merged, nil
}

// revision returns a revision of the input of the plan.
func (w *editor) revision(name string) *storev1alpha1.PackageRevision {
	if r := revisionNamed(w.in, name); r != nil {
		return r
	}
	return w.Watch.Revisions.Get(w.in.Variant.Namespace, name) // the old upstream may be of another package
}

// lookup reads objects that may be injected, and records the version of each at its first lookup.
//
// The next plan must observe what happens to an object or its kind during the lookup. So of an
// object that exists, the version that was read is recorded; of one that does not, the version
// known before the lookup. Recorded afterwards, that could be the version of an object that was
// created since.
func (w *editor) lookup(ctx context.Context) mutation.Lookup {
	return func(kind schema.GroupVersionKind, name string) (map[string]any, error) {
		o := configv1alpha1.InjectedObject{Group: kind.Group, Version: kind.Version, Kind: kind.Kind, Name: name}
		namespace := w.in.Variant.Namespace
		before, _, versionErr := w.objects.Version(ctx, namespace, o) // "" while it is not known
		object, version, err := w.objects.Get(ctx, namespace, kind, name)
		if _, is := errors.AsType[mutation.RefusedError](err); err != nil && !is && !errors.Is(err, mutation.ErrNotServed) {
			w.unread = err
			return nil, err
		}
		if object == nil {
			if version = before; versionErr != nil {
				w.unread = versionErr
				return nil, versionErr
			}
		}
		if _, seen := w.injected[o]; !seen {
			w.injected[o] = version
		}
		return object, err
	}
}

// write replaces the files of a draft, if it has not changed.
func (w *editor) write(ctx context.Context, r *storev1alpha1.PackageRevision, files kpt.Files) error {
	prr := &porchv1alpha1.PackageRevisionResources{
		// UID and version bind the write to what was read.
		ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Name, UID: store.ServedUID(r.UID), ResourceVersion: r.ResourceVersion},
		Spec: porchv1alpha1.PackageRevisionResourcesSpec{
			PackageName: r.Spec.PackageName, WorkspaceName: r.Spec.WorkspaceName, Revision: r.Spec.Revision, RepositoryName: r.Spec.RepositoryName,
			Resources: files,
		},
	}
	prr.APIVersion, prr.Kind = porchv1alpha1.GroupVersion.String(), "PackageRevisionResources"
	var answer struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
		Status porchv1alpha1.PackageRevisionResourcesStatus `json:"status"`
	}
	target := writer.Target{Resource: porchv1alpha1.ResourcePackageRevisionResources, Namespace: r.Namespace, Name: r.Name}
	if err := w.writer.UpdateInto(ctx, target, prr, &answer, "files"); err != nil {
		return err
	}
	w.wrote(w.state, r.Name, answer.Metadata.ResourceVersion)
	w.state.roundsOf(r.Name).Wrote(answer.Metadata.ResourceVersion, true)
	w.state.renders[r.Name] = bounded(&answer.Status.RenderStatus)
	klog.FromContext(ctx).V(2).Info("Wrote files", logRevision, r.Name)
	return nil
}

// failed records in a draft that work on it failed, for users who read the draft, and returns why.
func (w *editor) failed(ctx context.Context, job *variant.Work, r *storev1alpha1.PackageRevision, why error) error {
	if !isUserError(why) || job.Edit != nil || job.DryRun {
		return why
	}
	pr := served(r)
	if !variant.SetFailed(pr, why) {
		return why
	}
	made, err := w.writer.Update(ctx, revisionTarget(r.Namespace, r.Name), pr, "failed")
	if err != nil {
		return fmt.Errorf("%w (and the failure could not be recorded in the draft: %w)", why, err)
	}
	w.wrote(w.state, r.Name, made.ResourceVersion)
	return why
}
