package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubectl/pkg/util/templates"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/folder"
	"github.com/starlinghq/starling/pkg/plugin"
)

func newPushCommand(o *Options) *cobra.Command {
	p := &push{Options: o}
	cmd := &cobra.Command{
		Use:   "push [REVISION] DIR",
		Short: "Write a folder back to its draft, and render it",
		Long: templates.LongDesc(`
			Write a folder back to the draft that it was pulled from. The server renders the draft. The results of the functions are shown,
			and the files that they changed are written to the folder.

			A draft that another user changed after the pull is not overwritten.`),
		Example: templates.Examples(`
			kubectl starling package push ./web

			# Overwrite the changes of other users
			kubectl starling package push ./web --force`),
		Args: plugin.ArgCount(1, 2),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 1 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			name := ""
			if len(args) == 2 {
				name = args[0]
			}
			return p.run(cmd.Context(), name, args[len(args)-1])
		},
	}
	p.dryRun = newDryRun(cmd)
	cmd.Flags().BoolVar(&p.force, "force", false, "Overwrite changes that were made on the server after the pull.")
	return cmd
}

// push is the command push.
type push struct {
	*Options
	dryRun *dryRun
	force  bool
}

func (c *push) run(ctx context.Context, name, from string) error {
	dir, err := OpenDir(from)
	if err != nil {
		return err
	}
	defer dir.Close()
	was, found, err := dir.Metadata()
	switch {
	case err != nil:
		return err
	case !found:
		return fmt.Errorf("push folder %q: it has no file %s: pull the draft into it first", from, folder.MetadataName)
	case name != "" && name != was.Name:
		return fmt.Errorf("push folder %q: it was pulled from revision %q, not from %q", from, was.Name, name)
	}
	local, err := dir.Files()
	if err != nil {
		return err
	}
	client, err := c.clientOf(was)
	if err != nil {
		return err
	}
	if err := c.dryRun.apply(client); err != nil {
		return err
	}
	if !client.DryRun {
		if err := c.reviews().beginPush(types.UID(was.UID)); err != nil {
			return err
		}
	}
	p := c.progress("pushing and rendering %s", was.Name)
	defer p.Stop()
	server, err := client.GetResources(ctx, was.Name)
	if err != nil {
		return err
	}
	if was.UID != "" && was.UID != string(server.UID) {
		return fmt.Errorf("push revision %q: it was deleted and re-created after the pull. Pull it into an empty folder", was.Name)
	}
	if local.Digest() == kpt.Files(server.Spec.Resources).Digest() {
		p.Stop()
		fmt.Fprintf(c.Out, "%s/%s %s\n", revisionKind, was.Name, c.dryRun.describe("unchanged"))
		if client.DryRun {
			return nil
		}
		c.reviews().endPush(server.UID)
		return dir.SetMetadata(folder.NewMetadata(server))
	}
	// The resourceVersion alone is not enough: a changed label is not a changed file.
	if !c.force && server.ResourceVersion != was.ResourceVersion && !was.Pulled(server.Spec.Resources) {
		return conflictError(dir, was, local, server.Spec.Resources)
	}
	before := kpt.Files(server.Spec.Resources)
	server.Spec.Resources = local
	after, err := client.UpdateResources(ctx, server)
	if apierrors.IsConflict(err) {
		return c.conflictAfterPush(ctx, client, dir, was, local, err)
	}
	if err != nil {
		return err
	}
	p.Stop()
	return c.applyRendering(dir, before, local, after)
}

// conflictError lists what the server has changed, and says what to do.
func conflictError(dir *Dir, was folder.Metadata, local, server kpt.Files) error {
	if was.Files == nil {
		return fmt.Errorf("push revision %q: it was changed on the server after the pull. Pull it into an empty folder and repeat your edits there, or overwrite it with --force", was.Name)
	}
	plan := folder.NewPlan(was, local, server)
	theirs := slices.Sorted(slices.Values(slices.Concat(plan.Write, plan.Remove, plan.Conflicts)))
	message := fmt.Sprintf("push revision %q: changed on the server after the pull: %s.", was.Name, few(theirs))
	if len(plan.Conflicts) == 0 {
		return fmt.Errorf("%s You did not edit these files. Run `kubectl starling package pull %s %s`, which keeps your edits, and push again",
			message, was.Name, dirArgument(dir.name))
	}
	return fmt.Errorf("%s You edited as well: %s. Pull the revision into an empty folder and repeat your edits there, or overwrite it with --force",
		message, few(plan.Conflicts))
}

// conflictAfterPush returns the error for a change on the server during the push.
func (c *push) conflictAfterPush(ctx context.Context, client *Client, dir *Dir, was folder.Metadata, local kpt.Files, refused error) error {
	now, err := client.GetResources(ctx, was.Name)
	if err != nil {
		return errors.Join(refused, err)
	}
	if was.Pulled(now.Spec.Resources) {
		return fmt.Errorf("push revision %q: its metadata was changed during the push. Push again", was.Name)
	}
	return conflictError(dir, was, local, now.Spec.Resources)
}

// applyRendering writes the files that the functions changed into the folder, and prints what was
// done.
func (c *push) applyRendering(dir *Dir, before, sent kpt.Files, after *porchv1alpha1.PackageRevisionResources) error {
	rendered := kpt.Files(after.Spec.Resources)
	failed := renderError(after.Name, &after.Status.RenderStatus)
	printRendering(plugin.EscapingWriter{Writer: c.Out}, &after.Status.RenderStatus)
	added, changed, removed := folder.Changes(before, sent)
	if c.dryRun.mode == dryRunServer {
		fmt.Fprintf(c.Out, "%s/%s %s: %s\n", revisionKind, after.Name, c.dryRun.describe("pushed"), changes(added, changed, removed))
		return failed
	}
	if failed != nil && rendered.Digest() == before.Digest() {
		return fmt.Errorf("%w\nThe draft was not changed. Fix the package in %s and push again", failed, dirArgument(dir.name))
	}
	c.reviews().endPush(after.UID)
	if wrong := rendered.Check(); wrong != nil {
		return fmt.Errorf("write the rendered files of revision %q: the push succeeded, but the server returned invalid files: %s", after.Name, few(wrong))
	}
	now, err := dir.Files()
	if err != nil {
		return err
	}
	// Files that were edited during rendering stay as they are: they count as edits that are not
	// pushed.
	plan := folder.NewPlan(folder.Metadata{Files: folder.Digests(sent)}, now, rendered)
	if err := applyPlan(dir, plan, rendered); err != nil {
		return err
	}
	if err := dir.SetMetadata(folder.NewMetadata(after)); err != nil {
		return err
	}
	fmt.Fprintf(c.Out, "%s/%s pushed: %s\n", revisionKind, after.Name, changes(added, changed, removed))
	if touched := slices.Concat(plan.Write, plan.Remove); len(touched) > 0 {
		fmt.Fprintf(c.Out, "rendering changed these files, also in %s: %s\n", dirArgument(dir.name), few(touched))
	}
	return failed
}

func changes(added, changed, removed []string) string {
	return fmt.Sprintf("%d added, %d changed, %d removed", len(added), len(changed), len(removed))
}
