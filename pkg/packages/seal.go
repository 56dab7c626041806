package packages

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/kptpkg"
	"github.com/starlinghq/starling/pkg/core/kptpkg/functions"
	"github.com/starlinghq/starling/pkg/core/kptpkg/render"
	"github.com/starlinghq/starling/pkg/fnworker"
)

// Reasons of the condition PackagePipelinePassed.
const (
	ReasonPipelinePassed = "PipelinePassed"
	ReasonPipelineFailed = "PipelineFailed"
)

// maxMessage bounds the message of a condition: functions write as much as they like.
const maxMessage = 2048

// draft are the files of a revision before they are kept, and what others said of it.
type draft struct {
	files kptpkg.Files
	// gates and conditions replace those of the Kptfile; metadata too, unless it is nil.
	gates      []porchv1alpha1.ReadinessGate
	conditions []porchv1alpha1.Condition
	metadata   *porchv1alpha1.PackageMetadata
}

// mirrored returns a draft that says what its Kptfile says.
func mirrored(files kptpkg.Files) (draft, error) {
	kptfile, err := kptpkg.ParseKptfile(files[kptpkg.KptfileName])
	if err != nil {
		return draft{}, fmt.Errorf("%s: %w", kptpkg.KptfileName, err)
	}
	return said(kptfile, files), nil
}

// said is a draft that says what its Kptfile, which was read, says.
func said(kptfile *kptpkg.Kptfile, files kptpkg.Files) draft {
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

// sealed is a revision's content with all that follows from it.
type sealed struct {
	files  kptpkg.Files
	result render.ResultList
	// failed is why the pipeline failed; nil if it passed.
	failed error
	gates  []porchv1alpha1.ReadinessGate
	conds  []porchv1alpha1.Condition
	meta   *porchv1alpha1.PackageMetadata
	lock   *porchv1alpha1.Locator
}

// seal renders a draft, and makes Kptfile and revision say the same. A package that cannot be read, and one whose functions had to be
// killed, is an error; what functions object to is not: it is kept as it was given, and the gate says so.
func (s *Store) seal(ctx context.Context, name string, d draft) (*sealed, error) {
	if wrong := d.files.Check(); len(wrong) > 0 {
		return nil, invalid(name, wrong...)
	}
	if _, ok := d.files[kptpkg.KptfileName]; !ok {
		return nil, invalid(name, "the package has no Kptfile")
	}
	files, err := d.write(d.files, nil)
	if err != nil {
		return nil, invalid(name, err.Error())
	}
	rendered, failed := s.Render(ctx, files)
	if ctx.Err() != nil {
		return nil, apierrors.NewTimeoutError("rendering took longer than the request may", 0)
	}
	if _, wrong := errors.AsType[*render.PackageError](failed); wrong {
		return nil, invalid(name, failed.Error())
	}
	if _, killed := errors.AsType[*fnworker.KilledError](failed); killed {
		return nil, invalid(name, failed.Error())
	}
	// A function may have written into the Kptfile, and may have grown the package.
	if wrong := rendered.Files.Check(); len(wrong) > 0 && failed == nil {
		failed = errors.New("the rendered package: " + joined(wrong))
		rendered.Files = files
	}
	passed := porchv1alpha1.Condition{
		Type: porchv1alpha1.ConditionPipelinePassed, Status: porchv1alpha1.ConditionTrue,
		Reason: ReasonPipelinePassed, Message: "package pipeline completed successfully",
	}
	if failed != nil {
		passed.Status, passed.Reason = porchv1alpha1.ConditionFalse, ReasonPipelineFailed
		passed.Message = shorten(failed.Error(), maxMessage)
	}
	out := &sealed{result: rendered.Results, failed: failed}
	if out.files, err = d.write(rendered.Files, &passed); err != nil {
		return nil, invalid(name, err.Error())
	}
	if err := out.read(name); err != nil {
		return nil, err
	}
	return out, nil
}

// write puts gates, conditions and metadata into the Kptfile. Nothing of it that says the same is written anew. Passed is the condition
// that the server owns; nil leaves it.
func (d *draft) write(files kptpkg.Files, passed *porchv1alpha1.Condition) (kptpkg.Files, error) {
	kptfile, err := kptpkg.ParseKptfile(files[kptpkg.KptfileName])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", kptpkg.KptfileName, err)
	}
	if err := kptfile.SetReadinessGates(gatesOf(d.gates)); err != nil {
		return nil, fmt.Errorf("%s: info.readinessGates: %w", kptpkg.KptfileName, err)
	}
	if passed != nil {
		if err := kptfile.SetConditions(conditionsOf(d.conditions, *passed)); err != nil {
			return nil, fmt.Errorf("%s: status.conditions: %w", kptpkg.KptfileName, err)
		}
	}
	if d.metadata != nil {
		if err := kptfile.SetMetadata(d.metadata.Labels, d.metadata.Annotations); err != nil {
			return nil, fmt.Errorf("%s: metadata: %w", kptpkg.KptfileName, err)
		}
	}
	if kptfile.Changed() { // else it stays as its author wrote it
		files = with(files, kptpkg.KptfileName, kptfile.String())
	}
	return files, nil
}

// with returns the files with one of them replaced.
func with(files kptpkg.Files, name, content string) kptpkg.Files {
	out := make(kptpkg.Files, len(files)+1)
	maps.Copy(out, files)
	out[name] = content
	return out
}

// gatesOf returns all gates, each once, with that of the pipeline, which nobody can take away.
func gatesOf(gates []porchv1alpha1.ReadinessGate) []kptpkg.ReadinessGate {
	var out []kptpkg.ReadinessGate
	for _, gate := range gates {
		g := kptpkg.ReadinessGate{ConditionType: gate.ConditionType}
		if gate.ConditionType != "" && !slices.Contains(out, g) {
			out = append(out, g)
		}
	}
	if pipeline := (kptpkg.ReadinessGate{ConditionType: porchv1alpha1.ConditionPipelinePassed}); !slices.Contains(out, pipeline) {
		out = append(out, pipeline)
	}
	return out
}

// conditionsOf returns all conditions, of each type the last, with that of the pipeline.
func conditionsOf(conditions []porchv1alpha1.Condition, passed porchv1alpha1.Condition) []kptpkg.Condition {
	var out []kptpkg.Condition
	for _, c := range append(slices.Clone(conditions), passed) {
		if c.Type == "" {
			continue
		}
		condition := kptpkg.Condition{Type: c.Type, Status: string(c.Status), Reason: c.Reason, Message: c.Message}
		if i := slices.IndexFunc(out, func(o kptpkg.Condition) bool { return o.Type == c.Type }); i >= 0 {
			out[i] = condition
			continue
		}
		out = append(out, condition)
	}
	return out
}

// read takes what the revision says from the Kptfile, so that the two cannot differ.
func (s *sealed) read(name string) error {
	kptfile, err := kptpkg.ParseKptfile(s.files[kptpkg.KptfileName])
	if err != nil {
		return invalid(name, fmt.Sprintf("%s: %v", kptpkg.KptfileName, err))
	}
	d := said(kptfile, s.files)
	s.gates, s.conds = d.gates, d.conditions
	for _, c := range s.conds {
		switch c.Status {
		case porchv1alpha1.ConditionTrue, porchv1alpha1.ConditionFalse, porchv1alpha1.ConditionUnknown:
		default:
			return invalid(name, fmt.Sprintf("status.conditions[%s].status: Unsupported value: %q: supported values: True, False, Unknown", c.Type, c.Status))
		}
	}
	if labels, annotations := kptfile.Labels(), kptfile.Annotations(); len(labels)+len(annotations) > 0 {
		s.meta = &porchv1alpha1.PackageMetadata{Labels: labels, Annotations: annotations}
	}
	if lock := kptfile.UpstreamLock(); lock != nil && lock.Git != nil {
		s.lock = &porchv1alpha1.Locator{Type: porchv1alpha1.RepositoryTypeGit, Git: &porchv1alpha1.GitLock{
			Repo: lock.Git.Repo, Directory: lock.Git.Directory, Ref: lock.Git.Ref, Commit: lock.Git.Commit,
		}}
	}
	return nil
}

// into writes what was sealed into a revision whose content was put.
func (s *sealed) into(cr *storev1alpha1.PackageRevision, digest string) {
	cr.Content.Digest = digest
	cr.Content.Files = int32(len(s.files))
	cr.Spec.ReadinessGates = s.gates
	cr.Spec.PackageMetadata = s.meta
	cr.Status.Conditions = s.conds
	cr.Status.UpstreamLock = s.lock
	setPrivateLabels(cr)
}

// RenderStatus is what is told of a rendering.
func (s *sealed) renderStatus() porchv1alpha1.RenderStatus {
	status := porchv1alpha1.RenderStatus{}
	status.Result.APIVersion, status.Result.Kind = "kpt.dev/v1", "FunctionResultList"
	status.Result.Name = "fnresults"
	status.Result.ExitCode = s.result.ExitCode
	if s.failed != nil {
		status.Err = s.failed.Error()
		status.Result.ExitCode = max(1, status.Result.ExitCode)
	}
	for _, item := range s.result.Items {
		result := &porchv1alpha1.Result{Image: item.Image, Stderr: item.Stderr, ExitCode: item.ExitCode}
		for _, remark := range item.Results {
			result.Results = append(result.Results, remarkOf(remark))
		}
		status.Result.Items = append(status.Result.Items, result)
	}
	return status
}

func remarkOf(r functions.Result) porchv1alpha1.ResultItem {
	item := porchv1alpha1.ResultItem{Message: r.Message, Severity: string(r.Severity)}
	if ref := r.ResourceRef; ref != nil {
		item.ResourceRef = &porchv1alpha1.ResourceIdentifier{Name: ref.Name, Namespace: ref.Namespace}
		item.ResourceRef.APIVersion, item.ResourceRef.Kind = ref.APIVersion, ref.Kind
	}
	if f := r.Field; f != nil {
		item.Field = &porchv1alpha1.Field{Path: f.Path, CurrentValue: valueOf(f.CurrentValue), ProposedValue: valueOf(f.ProposedValue)}
	}
	if f := r.File; f != nil {
		item.File = &porchv1alpha1.File{Path: f.Path, Index: f.Index}
	}
	return item
}

func valueOf(v any) string {
	if v == nil {
		return ""
	}
	return strings.TrimSpace(fmt.Sprint(v))
}
