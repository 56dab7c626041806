package lifecycle

import (
	"fmt"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
)

// FieldError is an error of one field. Field is "" for an error of the whole object.
type FieldError struct{ Field, Message string }

// FieldErrorf returns the error of a field.
func FieldErrorf(field, format string, args ...any) FieldError {
	return FieldError{field, fmt.Sprintf(format, args...)}
}

// String returns the message after the field.
func (e FieldError) String() string {
	if e.Field == "" {
		return e.Message
	}
	return e.Field + ": " + e.Message
}

// FieldErrors are the errors of an object.
type FieldErrors []FieldError

// Strings returns the errors as strings.
func (e FieldErrors) Strings() []string {
	out := make([]string, len(e))
	for i, one := range e {
		out[i] = one.String()
	}
	return out
}

// CheckTasks returns every error in the tasks of a new revision, each with its field. A revision
// without a task is initialised as an empty package.
func CheckTasks(tasks []porchv1alpha1.Task) FieldErrors {
	switch {
	case len(tasks) == 0:
		return nil
	case len(tasks) > 1:
		return FieldErrors{FieldErrorf("spec.tasks", "Too many: a revision is created with at most one task")}
	}
	task := &tasks[0]
	members := map[porchv1alpha1.TaskType]bool{
		porchv1alpha1.TaskTypeInit: task.Init != nil, porchv1alpha1.TaskTypeClone: task.Clone != nil,
		porchv1alpha1.TaskTypeEdit: task.Edit != nil, porchv1alpha1.TaskTypeUpgrade: task.Upgrade != nil,
	}
	present, known := members[task.Type]
	if !known {
		return FieldErrors{FieldErrorf("spec.tasks[0].type", "Unsupported value: %q: supported values: init, clone, edit, upgrade", task.Type)}
	}
	var wrong FieldErrors
	if !present {
		wrong = append(wrong, FieldErrorf(fmt.Sprintf("spec.tasks[0].%s", task.Type), "Required value"))
	}
	for _, kind := range []porchv1alpha1.TaskType{porchv1alpha1.TaskTypeInit, porchv1alpha1.TaskTypeClone, porchv1alpha1.TaskTypeEdit, porchv1alpha1.TaskTypeUpgrade} {
		if members[kind] && kind != task.Type {
			wrong = append(wrong, FieldErrorf(fmt.Sprintf("spec.tasks[0].%s", kind), "Forbidden: the type is %s", task.Type))
		}
	}
	if len(wrong) > 0 {
		return wrong
	}
	switch {
	case task.Clone != nil:
		return checkUpstream(&task.Clone.Upstream)
	case task.Edit != nil && (task.Edit.Source == nil || task.Edit.Source.Name == ""):
		return FieldErrors{FieldErrorf("spec.tasks[0].edit.sourceRef.name", "Required value")}
	case task.Upgrade != nil:
		return checkUpgrade(task.Upgrade)
	}
	return nil
}

func checkUpstream(u *porchv1alpha1.UpstreamPackage) FieldErrors {
	const field = "spec.tasks[0].clone.upstreamRef"
	n := 0
	for _, set := range []bool{u.Git != nil, u.OCI != nil, u.UpstreamRef != nil} {
		if set {
			n++
		}
	}
	switch {
	case n != 1:
		return FieldErrors{FieldErrorf(field, "Required value: set exactly one of git, oci and upstreamRef")}
	case u.Git != nil && u.Git.Repo == "":
		return FieldErrors{FieldErrorf(field+".git.repo", "Required value")}
	case u.Git != nil && WithoutCredentials(u.Git.Repo) != u.Git.Repo:
		return FieldErrors{FieldErrorf(field+".git.repo", "Invalid value: must not have a user name or password: the Repository with this address names a Secret")}
	case u.OCI != nil && u.OCI.Image == "":
		return FieldErrors{FieldErrorf(field+".oci.image", "Required value")}
	case u.UpstreamRef != nil && u.UpstreamRef.Name == "":
		return FieldErrors{FieldErrorf(field+".upstreamRef.name", "Required value")}
	case u.Git != nil && u.Type != "" && u.Type != porchv1alpha1.RepositoryTypeGit, u.OCI != nil && u.Type != "" && u.Type != porchv1alpha1.RepositoryTypeOCI:
		return FieldErrors{FieldErrorf(field+".type", "Invalid value: %q: does not match the field that is set", u.Type)}
	}
	return nil
}

func checkUpgrade(u *porchv1alpha1.PackageUpgradeTaskSpec) FieldErrors {
	var wrong FieldErrors
	for _, ref := range []struct{ field, name string }{
		{"oldUpstreamRef", u.OldUpstream.Name}, {"newUpstreamRef", u.NewUpstream.Name}, {"localPackageRevisionRef", u.LocalPackageRevisionRef.Name},
	} {
		if ref.name == "" {
			wrong = append(wrong, FieldErrorf("spec.tasks[0].upgrade."+ref.field+".name", "Required value"))
		}
	}
	strategies := []porchv1alpha1.PackageMergeStrategy{
		"", porchv1alpha1.ResourceMerge, porchv1alpha1.FastForward, porchv1alpha1.ForceDeleteReplace, porchv1alpha1.CopyMerge,
	}
	if !slices.Contains(strategies, u.Strategy) {
		wrong = append(wrong, FieldErrorf("spec.tasks[0].upgrade.strategy", "Unsupported value: %q: supported values: resource-merge, fast-forward, force-delete-replace, copy-merge", u.Strategy))
	}
	return wrong
}

// CheckSpecUpdate returns the changes from one spec to the other that are not allowed, each with
// its field. It does not check the lifecycle; CheckUpdate does.
func CheckSpecUpdate(before, after *porchv1alpha1.PackageRevisionSpec) FieldErrors {
	var wrong FieldErrors
	fixed := func(field string, same bool) {
		if !same {
			wrong = append(wrong, FieldErrorf("spec."+field, "Invalid value: field is immutable"))
		}
	}
	fixed("packageName", before.PackageName == after.PackageName)
	fixed("repository", before.RepositoryName == after.RepositoryName)
	fixed("workspaceName", before.WorkspaceName == after.WorkspaceName)
	fixed("revision", before.Revision == after.Revision)
	fixed("tasks", apiequality.Semantic.DeepEqual(before.Tasks, after.Tasks))
	draftOnly := func(field string, same bool) {
		if !same && at(before.Lifecycle) != porchv1alpha1.LifecycleDraft {
			wrong = append(wrong, FieldErrorf("spec."+field, "Forbidden: can be changed only in a Draft; the revision is %s", before.Lifecycle))
		}
	}
	draftOnly("readinessGates", apiequality.Semantic.DeepEqual(before.ReadinessGates, after.ReadinessGates))
	draftOnly("packageMetadata", apiequality.Semantic.DeepEqual(before.PackageMetadata, after.PackageMetadata))
	return wrong
}
