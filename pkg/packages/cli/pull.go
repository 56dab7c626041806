package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/kubectl/pkg/util/templates"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/folder"
	"github.com/starlinghq/starling/pkg/core/text"
	"github.com/starlinghq/starling/pkg/plugin"
)

func newPullCommand(o *Options) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "pull REVISION DIR",
		Short: "Write the files of a revision to a folder",
		Long: templates.LongDesc(`
			Write the files of a revision to a folder. The folder has the format of kpt; its file .KptRevisionMetadata identifies the
			revision.

			The folder must be new or empty, or have a revision of the same package. In that case unedited files are updated, and edited
			files are kept. If a file was edited both in the folder and on the server, nothing is written.`),
		Example: templates.Examples(`
			kubectl starling package pull edge.web.v1 ./web

			# Discard all edits in the folder
			kubectl starling package pull edge.web.v1 ./web --force`),
		Args:              plugin.ArgCount(2, 2),
		ValidArgsFunction: o.completeRevisions(1),
		RunE: o.withClient(func(ctx context.Context, client *Client, args []string) error {
			return o.pull(ctx, client, args[0], args[1], force)
		}),
	}
	cmd.Flags().BoolVar(&force, "force", false, "Overwrite edited files in the folder.")
	return cmd
}

func (o *Options) pull(ctx context.Context, client *Client, name, into string, force bool) error {
	p := o.progress("pulling %s", name)
	resources, err := client.GetResources(ctx, name)
	p.Stop()
	if err != nil {
		return err
	}
	server := kpt.Files(resources.Spec.Resources)
	if wrong := server.Check(); wrong != nil {
		return fmt.Errorf("pull revision %q: the server returned invalid files:\n  %s", name, strings.Join(wrong, "\n  "))
	}
	if _, taken := server[folder.MetadataName]; taken {
		return fmt.Errorf("pull revision %q: it contains a file %s, whose name is reserved", name, folder.MetadataName)
	}
	dir, err := CreateDir(into)
	if err != nil {
		return err
	}
	defer dir.Close()
	empty, err := dir.Empty()
	if err != nil {
		return err
	}
	plan, err := planPull(dir, resources, force)
	if err != nil {
		return err
	}
	if err := applyPlan(dir, plan, server); err != nil {
		if empty { // so that the folder is empty for the next attempt
			err = errors.Join(err, applyPlan(dir, folder.Plan{Remove: plan.Write}, nil))
		}
		return err
	}
	// The metadata is written last, since it states that all files are present.
	if err := dir.SetMetadata(folder.NewMetadata(resources)); err != nil {
		return err
	}
	if len(plan.Keep) == 0 {
		o.reviews().endPush(resources.UID)
	}
	fmt.Fprintf(o.Out, "%s/%s pulled into %s: %s\n", revisionKind, name, into, summarizePlan(plan))
	return nil
}

// planPull decides what to change in the folder. A pull that was interrupted can be repeated for
// the same revision.
func planPull(dir *Dir, resources *porchv1alpha1.PackageRevisionResources, force bool) (folder.Plan, error) {
	server := kpt.Files(resources.Spec.Resources)
	was, found, err := dir.Metadata()
	if err != nil && !force {
		return folder.Plan{}, err
	}
	is := folder.NewMetadata(resources)
	if !found {
		switch empty, err := dir.Empty(); {
		case err != nil:
			return folder.Plan{}, err
		case !empty:
			return folder.Plan{}, fmt.Errorf("pull into folder %q: it is not empty, and no package was pulled into it. Specify an empty or new folder", dir.name)
		}
		return folder.Plan{Write: server.Paths()}, nil
	}
	if err == nil && !was.SamePackage(is) {
		return folder.Plan{}, fmt.Errorf("pull into folder %q: it contains revision %q of namespace %q, which is of another package. Specify another folder", dir.name, was.Name, was.Namespace)
	}
	local, err := dir.Files()
	if err != nil {
		return folder.Plan{}, err
	}
	plan := folder.NewPlan(was, local, server)
	another := was.Name != is.Name || was.UID != "" && was.UID != is.UID
	switch {
	case force:
		added, changed, removed := folder.Changes(local, server)
		return folder.Plan{Write: append(added, changed...), Remove: removed}, nil
	case len(plan.Conflicts) > 0:
		return plan, fmt.Errorf("pull revision %q into folder %q: nothing was written, because these files were edited on both sides: %s. "+
			"Pull into an empty folder to compare, or discard your edits with --force", is.Name, dir.name, few(plan.Conflicts))
	case another && len(plan.Keep) > 0:
		return plan, fmt.Errorf("pull revision %q into folder %q: nothing was written, because the folder has edits of revision %q that were not pushed: %s. "+
			"Push them, specify another folder, or discard them with --force", is.Name, dir.name, was.Name, few(plan.Keep))
	}
	return plan, nil
}

func applyPlan(dir *Dir, plan folder.Plan, server kpt.Files) error {
	for _, name := range plan.Remove { // first: a directory may replace a file
		if err := dir.Remove(name); err != nil {
			return err
		}
	}
	for i, name := range plan.Write {
		if err := dir.Write(name, server[name]); err != nil {
			return errors.Join(err, fmt.Errorf("%d of %d files were written. Fix the cause and run the command again", i, len(plan.Write)))
		}
	}
	return nil
}

// summarizePlan returns a short text about what was done.
func summarizePlan(plan folder.Plan) string {
	summary := text.Count(len(plan.Write), "file") + " written"
	if n := len(plan.Remove); n > 0 {
		summary += fmt.Sprintf(", %d removed", n)
	}
	if n := len(plan.Keep); n > 0 {
		summary += fmt.Sprintf("; %s kept with your edits: %s", text.Count(n, "file"), few(plan.Keep))
	}
	return summary
}

// few lists at most ten files.
func few(names []string) string {
	const limit = 10
	return text.List(names, limit)
}

// dirArgument returns a folder as an argument for commands in advice.
func dirArgument(name string) string {
	if filepath.IsAbs(name) || strings.HasPrefix(name, ".") {
		return name
	}
	return "./" + name
}
