package variants

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/kptpkg"
	"github.com/starlinghq/starling/pkg/core/variant"
	"github.com/starlinghq/starling/pkg/core/variant/mutation"
	"github.com/starlinghq/starling/pkg/write"
)

// worker looks at files for one plan.
type worker struct {
	*Controller
	state *state
	in    *variant.Input
	plan  *variant.Plan
	// injected are the objects that were looked for, with their versions as they were seen.
	injected map[configv1alpha1.InjectedObject]string
	// unread is why an object could not be read, if that may pass.
	unread error
}

// work looks at the files that a plan asks for. It returns the status if nothing had to be written.
func (c *Controller) work(ctx context.Context, s *state, in *variant.Input, plan *variant.Plan) (*configv1alpha1.PackageVariantStatus, error) {
	w := &worker{Controller: c, state: s, in: in, plan: plan, injected: map[configv1alpha1.InjectedObject]string{}}
	status := plan.Status.DeepCopy()
	settled := true
	for i := range plan.Work {
		job := &plan.Work[i]
		r := w.revision(job.Revision)
		if r == nil {
			return nil, fmt.Errorf("%s: it is not there any more", job)
		}
		wrote, waits, err := w.do(ctx, job, r)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", job, w.failed(ctx, job, r, err))
		}
		if wrote {
			return nil, nil //nolint:nilnil // see carryOut
		}
		if waits {
			settled = false
			*status = plan.Waiting(job)
		}
	}
	if len(plan.Work) == 0 || !settled {
		return status, nil
	}
	status.Injected = slices.SortedFunc(maps.Keys(w.injected), func(a, b configv1alpha1.InjectedObject) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	status.Settled = plan.Settled(status.Injected, func(o configv1alpha1.InjectedObject) string { return w.injected[o] })
	return status, nil
}

// do does one piece of work. It returns whether it wrote anything, and whether a proposed revision would have to change.
func (w *worker) do(ctx context.Context, job *variant.Work, r *storev1alpha1.PackageRevision) (wrote, waits bool, err error) {
	before, err := w.config.Files.Get(ctx, r.Content.Digest)
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
		err = tell("%w", err)
	}
	if err != nil {
		return false, false, err
	}
	switch {
	case job.LookOnly:
		return false, result.Content, nil
	case job.Edit != nil && !result.Content, job.To == "" && !result.Changed:
		return false, false, nil
	case job.Edit != nil:
		return true, false, w.begin(ctx, variant.Action{Verb: variant.Create, Revision: job.Edit.Name, Object: job.Edit})
	case job.Begin != nil:
		return true, false, w.begin(ctx, *job.Begin)
	}
	return true, false, w.write(ctx, r, result.Files)
}

func (w *worker) begin(ctx context.Context, a variant.Action) error {
	return w.act(ctx, w.state, w.in, []variant.Action{a})
}

// merged are the files of a draft with its new upstream merged into them.
func (w *worker) merged(ctx context.Context, job *variant.Work, draft kptpkg.Files) (kptpkg.Files, error) {
	from, to := w.revision(job.From), w.revision(job.To)
	if from == nil || to == nil {
		return nil, fmt.Errorf("%s or %s is not there any more", job.From, job.To)
	}
	original, err := w.config.Files.Get(ctx, from.Content.Digest)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", from.Name, err)
	}
	updated, err := w.config.Files.Get(ctx, to.Content.Digest)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", to.Name, err)
	}
	merged, err := mutation.Upgrade(draft, original, to, updated)
	if err != nil {
		return nil, tell("%w", err)
	}
	return merged, nil
}

// revision is one of those that were planned with.
func (w *worker) revision(name string) *storev1alpha1.PackageRevision {
	if r := revisionNamed(w.in, name); r != nil {
		return r
	}
	return w.config.Watch.Revision(w.in.Variant.Namespace, name) // the old upstream may be of another package
}

// lookup reads objects that may be injected, and notes what it saw of each the first time.
//
// What becomes of an object or its kind while it is looked at must be seen by the next plan. So of what is found, the version that was read is
// noted; of what is not there, the version that was known before it was looked for: noted afterwards, it might be that of what came since.
func (w *worker) lookup(ctx context.Context) mutation.Lookup {
	return func(kind schema.GroupVersionKind, name string) (map[string]any, error) {
		o := configv1alpha1.InjectedObject{Group: kind.Group, Version: kind.Version, Kind: kind.Kind, Name: name}
		namespace := w.in.Variant.Namespace
		before, _, versionErr := w.config.Objects.Version(ctx, namespace, o) // "" while it is not known
		object, version, err := w.config.Objects.Get(ctx, namespace, kind, name)
		if err != nil && !errors.Is(err, mutation.ErrNotServed) {
			if _, told := asTold(err); !told {
				w.unread = err
			}
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

// write replaces the files of a draft, if it is still what it was.
func (w *worker) write(ctx context.Context, r *storev1alpha1.PackageRevision, files kptpkg.Files) error {
	prr := &porchv1alpha1.PackageRevisionResources{
		ObjectMeta: servedMeta(r),
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
	target := write.Target{Resource: porchv1alpha1.ResourcePackageRevisionResources, Namespace: r.Namespace, Name: r.Name}
	if err := w.config.Writer.UpdateInto(ctx, target, prr, &answer, "files"); err != nil {
		return err
	}
	w.wrote(w.state, r.Name, answer.Metadata.ResourceVersion)
	w.state.renders[r.Name] = bounded(&answer.Status.RenderStatus)
	klog.FromContext(ctx).V(2).Info("Wrote files", logRevision, r.Name)
	w.config.Reached(PointFiles)
	return nil
}

// failed says in a draft that work on it failed, for those who look at it there, and returns why.
func (w *worker) failed(ctx context.Context, job *variant.Work, r *storev1alpha1.PackageRevision, why error) error {
	if _, told := asTold(why); !told || job.Edit != nil || job.LookOnly {
		return why
	}
	pr := served(r)
	if !variant.SetFailed(pr, why) {
		return why
	}
	made, err := w.config.Writer.Update(ctx, revisionTarget(r.Namespace, r.Name), pr, "failed")
	if err != nil {
		return fmt.Errorf("%w (which could not be noted in it: %w)", why, err)
	}
	w.wrote(w.state, r.Name, made.ResourceVersion)
	w.config.Reached(PointFailed)
	return why
}
