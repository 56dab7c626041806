package packagecli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/kubectl/pkg/util/templates"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/kptpkg"
	"github.com/starlinghq/starling/pkg/core/kptpkg/folder"
)

func newPushCommand(o *Options) *cobra.Command {
	p := &push{Options: o}
	cmd := &cobra.Command{
		Use:   "push [REVISION] DIR",
		Short: "Write a folder that was pulled back to its draft, and render it",
		Long: templates.LongDesc(`
			Write a folder that was pulled back to its draft. The server renders it; what the functions said is shown, and what they
			changed comes back into the folder.

			A draft that was changed by somebody else since it was pulled is not overwritten.`),
		Example: templates.Examples(`
			kubectl starling package push ./web

			# Overwrite what somebody else has pushed in the meantime
			kubectl starling package push ./web --force`),
		Args: takes(1, 2),
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
	cmd.Flags().BoolVar(&p.force, "force", false, "Overwrite what somebody else has changed since the folder was pulled.")
	return cmd
}

// push is a command line of push.
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
		return fmt.Errorf("no package was pulled into %s: %s is missing; pull the draft first", from, folder.MetadataName)
	case name != "" && name != was.Name:
		return fmt.Errorf("%s was pulled from %s, not from %s", from, was.Name, name)
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
	p := c.progress("pushing and rendering %s", was.Name)
	defer p.stop()
	server, err := client.GetResources(ctx, was.Name)
	if err != nil {
		return err
	}
	if was.UID != "" && was.UID != string(server.UID) {
		return fmt.Errorf("%s was deleted and made anew since it was pulled; pull it into an empty folder", was.Name)
	}
	if local.Digest() == kptpkg.Files(server.Spec.Resources).Digest() {
		p.stop()
		fmt.Fprintf(c.Out, "%s/%s %s\n", revisionKind, was.Name, c.dryRun.said("unchanged"))
		if client.DryRun {
			return nil
		}
		return dir.SetMetadata(folder.NewMetadata(server))
	}
	// Not by the resourceVersion alone: a changed label is no changed file.
	if !c.force && server.ResourceVersion != was.ResourceVersion && !was.Pulled(server.Spec.Resources) {
		return conflict(dir, was, local, server.Spec.Resources)
	}
	before := kptpkg.Files(server.Spec.Resources)
	server.Spec.Resources = local
	after, err := client.UpdateResources(ctx, server)
	if apierrors.IsConflict(err) {
		return c.lateConflict(ctx, client, dir, was, local, err)
	}
	if err != nil {
		return err
	}
	p.stop()
	return c.pushed(dir, before, local, after)
}

// clientOf returns a client for the namespace that the folder was pulled from.
func (o *Options) clientOf(m folder.Metadata) (*Client, error) {
	client, err := o.client()
	if err != nil {
		return nil, err
	}
	if m.Namespace == "" || m.Namespace == client.Namespace {
		return client, nil
	}
	if o.config.Namespace != nil && *o.config.Namespace != "" {
		return nil, fmt.Errorf("the folder was pulled from namespace %s, not from %s", m.Namespace, client.Namespace)
	}
	client.Namespace = m.Namespace
	return client, nil
}

// conflict says what somebody else has changed, and what to do.
func conflict(dir *Dir, was folder.Metadata, local, server kptpkg.Files) error {
	if was.Files == nil {
		return fmt.Errorf("%s was changed since it was pulled; pull it into an empty folder and bring your edits there, or use --force to overwrite it", was.Name)
	}
	plan := folder.NewPlan(was, local, server)
	theirs := slices.Sorted(slices.Values(slices.Concat(plan.Write, plan.Remove, plan.Conflicts)))
	text := fmt.Sprintf("%s was changed since it was pulled: %s.", was.Name, few(theirs))
	if len(plan.Conflicts) == 0 {
		return fmt.Errorf("%s None of that was edited here: `kubectl starling package pull %s %s` brings it in and keeps your edits; then push again",
			text, was.Name, sameDir(dir.name))
	}
	return fmt.Errorf("%s Edited here as well: %s. Pull it into an empty folder and bring your edits there, or use --force to overwrite it",
		text, few(plan.Conflicts))
}

// lateConflict is for what was changed while we were pushing.
func (c *push) lateConflict(ctx context.Context, client *Client, dir *Dir, was folder.Metadata, local kptpkg.Files, refused error) error {
	now, err := client.GetResources(ctx, was.Name)
	if err != nil {
		return errors.Join(refused, err)
	}
	if was.Pulled(now.Spec.Resources) {
		return fmt.Errorf("%s was changed while it was pushed, though none of its files; push again", was.Name)
	}
	return conflict(dir, was, local, now.Spec.Resources)
}

// pushed brings what the functions changed into the folder, and says what was done.
func (c *push) pushed(dir *Dir, before, sent kptpkg.Files, after *porchv1alpha1.PackageRevisionResources) error {
	rendered := kptpkg.Files(after.Spec.Resources)
	failed := renderError(after.Name, &after.Status.RenderStatus)
	printRendering(visible{c.Out}, &after.Status.RenderStatus)
	added, changed, removed := folder.Changes(before, sent)
	if c.dryRun.mode == dryRunServer {
		fmt.Fprintf(c.Out, "%s/%s %s: %s\n", revisionKind, after.Name, c.dryRun.said("pushed"), changes(added, changed, removed))
		return failed
	}
	if failed != nil && rendered.Digest() == before.Digest() {
		return fmt.Errorf("%w\nThe draft is as it was before; repair the package in %s and push again", failed, sameDir(dir.name))
	}
	if wrong := rendered.Check(); wrong != nil {
		return fmt.Errorf("%s was pushed, but the server answers with files that no folder should hold: %s", after.Name, few(wrong))
	}
	now, err := dir.Files()
	if err != nil {
		return err
	}
	// What was edited while the server rendered stays, and is then an edit that was not pushed.
	plan := folder.NewPlan(folder.Metadata{Files: folder.Digests(sent)}, now, rendered)
	if err := carryOut(dir, plan, rendered); err != nil {
		return err
	}
	if err := dir.SetMetadata(folder.NewMetadata(after)); err != nil {
		return err
	}
	fmt.Fprintf(c.Out, "%s/%s pushed: %s\n", revisionKind, after.Name, changes(added, changed, removed))
	if touched := slices.Concat(plan.Write, plan.Remove); len(touched) > 0 {
		fmt.Fprintf(c.Out, "changed by rendering, in %s as well: %s\n", sameDir(dir.name), few(touched))
	}
	return failed
}

func changes(added, changed, removed []string) string {
	return fmt.Sprintf("%d added, %d changed, %d removed", len(added), len(changed), len(removed))
}
