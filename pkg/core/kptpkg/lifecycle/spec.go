package lifecycle

import (
	"fmt"
	"slices"

	apiequality "k8s.io/apimachinery/pkg/api/equality"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
)

// CheckTasks returns what is wrong with the tasks of a revision that is to be created, each with its field. A revision without a task
// is initialised.
func CheckTasks(tasks []porchv1alpha1.Task) []string {
	switch {
	case len(tasks) == 0:
		return nil
	case len(tasks) > 1:
		return []string{"spec.tasks: Too many: a revision is created with at most one task"}
	}
	task := &tasks[0]
	members := map[porchv1alpha1.TaskType]bool{
		porchv1alpha1.TaskTypeInit: task.Init != nil, porchv1alpha1.TaskTypeClone: task.Clone != nil,
		porchv1alpha1.TaskTypeEdit: task.Edit != nil, porchv1alpha1.TaskTypeUpgrade: task.Upgrade != nil,
	}
	present, known := members[task.Type]
	if !known {
		return []string{fmt.Sprintf("spec.tasks[0].type: Unsupported value: %q: supported values: init, clone, edit, upgrade", task.Type)}
	}
	var wrong []string
	if !present {
		wrong = append(wrong, fmt.Sprintf("spec.tasks[0].%s: Required value", task.Type))
	}
	for _, kind := range []porchv1alpha1.TaskType{porchv1alpha1.TaskTypeInit, porchv1alpha1.TaskTypeClone, porchv1alpha1.TaskTypeEdit, porchv1alpha1.TaskTypeUpgrade} {
		if members[kind] && kind != task.Type {
			wrong = append(wrong, fmt.Sprintf("spec.tasks[0].%s: Forbidden: the type is %s", kind, task.Type))
		}
	}
	if len(wrong) > 0 {
		return wrong
	}
	switch {
	case task.Clone != nil:
		return checkUpstream(&task.Clone.Upstream)
	case task.Edit != nil && (task.Edit.Source == nil || task.Edit.Source.Name == ""):
		return []string{"spec.tasks[0].edit.sourceRef.name: Required value"}
	case task.Upgrade != nil:
		return checkUpgrade(task.Upgrade)
	}
	return nil
}

func checkUpstream(u *porchv1alpha1.UpstreamPackage) []string {
	const field = "spec.tasks[0].clone.upstreamRef"
	n := 0
	for _, there := range []bool{u.Git != nil, u.OCI != nil, u.UpstreamRef != nil} {
		if there {
			n++
		}
	}
	switch {
	case n != 1:
		return []string{field + ": Required value: exactly one of git, oci, upstreamRef"}
	case u.Git != nil && u.Git.Repo == "":
		return []string{field + ".git.repo: Required value"}
	case u.OCI != nil && u.OCI.Image == "":
		return []string{field + ".oci.image: Required value"}
	case u.UpstreamRef != nil && u.UpstreamRef.Name == "":
		return []string{field + ".upstreamRef.name: Required value"}
	case u.Git != nil && u.Type != "" && u.Type != porchv1alpha1.RepositoryTypeGit, u.OCI != nil && u.Type != "" && u.Type != porchv1alpha1.RepositoryTypeOCI:
		return []string{fmt.Sprintf("%s.type: Invalid value: %q: is not that of the member given", field, u.Type)}
	}
	return nil
}

func checkUpgrade(u *porchv1alpha1.PackageUpgradeTaskSpec) []string {
	var wrong []string
	for _, ref := range []struct{ field, name string }{
		{"oldUpstreamRef", u.OldUpstream.Name}, {"newUpstreamRef", u.NewUpstream.Name}, {"localPackageRevisionRef", u.LocalPackageRevisionRef.Name},
	} {
		if ref.name == "" {
			wrong = append(wrong, "spec.tasks[0].upgrade."+ref.field+".name: Required value")
		}
	}
	strategies := []porchv1alpha1.PackageMergeStrategy{
		"", porchv1alpha1.ResourceMerge, porchv1alpha1.FastForward, porchv1alpha1.ForceDeleteReplace, porchv1alpha1.CopyMerge,
	}
	if !slices.Contains(strategies, u.Strategy) {
		wrong = append(wrong, fmt.Sprintf("spec.tasks[0].upgrade.strategy: Unsupported value: %q: supported values: resource-merge, fast-forward, force-delete-replace, copy-merge", u.Strategy))
	}
	return wrong
}

// CheckSpecUpdate returns what may not change from one spec to the other, each with its field. Where the lifecycle may go is
// CheckUpdate's.
func CheckSpecUpdate(before, after *porchv1alpha1.PackageRevisionSpec) []string {
	var wrong []string
	fixed := func(field string, same bool) {
		if !same {
			wrong = append(wrong, "spec."+field+": Invalid value: field is immutable")
		}
	}
	fixed("packageName", before.PackageName == after.PackageName)
	fixed("repository", before.RepositoryName == after.RepositoryName)
	fixed("workspaceName", before.WorkspaceName == after.WorkspaceName)
	fixed("revision", before.Revision == after.Revision)
	fixed("tasks", apiequality.Semantic.DeepEqual(before.Tasks, after.Tasks))
	if at(before.Lifecycle) != porchv1alpha1.LifecycleDraft {
		for _, part := range []struct {
			field string
			same  bool
		}{
			{"readinessGates", apiequality.Semantic.DeepEqual(before.ReadinessGates, after.ReadinessGates)},
			{"packageMetadata", apiequality.Semantic.DeepEqual(before.PackageMetadata, after.PackageMetadata)},
		} {
			if !part.same {
				wrong = append(wrong, fmt.Sprintf("spec.%s: Forbidden: may be changed in a Draft only; the revision is %s", part.field, before.Lifecycle))
			}
		}
	}
	return wrong
}
