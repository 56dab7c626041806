package packagecli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/kubectl/pkg/util/templates"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/kptpkg"
	"github.com/starlinghq/starling/pkg/core/kptpkg/folder"
)

func newPullCommand(o *Options) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "pull REVISION DIR",
		Short: "Write the files of a revision into a folder",
		Long: templates.LongDesc(`
			Write the files of a revision into a folder that kpt understands; the file .KptRevisionMetadata in it says what was pulled.

			The folder must be empty, or one that the same package was pulled into. There, files that nobody touched are brought up to
			date and files that were edited stay; if one was edited in both places, nothing is written.`),
		Example: templates.Examples(`
			kubectl starling package pull edge.web.v1 ./web

			# Throw away what was edited in the folder
			kubectl starling package pull edge.web.v1 ./web --force`),
		Args:              takes(2, 2),
		ValidArgsFunction: o.completeRevisions(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := o.client()
			if err != nil {
				return err
			}
			return o.pull(cmd.Context(), client, args[0], args[1], force)
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "Overwrite what was edited in the folder.")
	return cmd
}

func (o *Options) pull(ctx context.Context, client *Client, name, into string, force bool) error {
	p := o.progress("pulling %s", name)
	resources, err := client.GetResources(ctx, name)
	p.stop()
	if err != nil {
		return err
	}
	server := kptpkg.Files(resources.Spec.Resources)
	if wrong := server.Check(); wrong != nil {
		return fmt.Errorf("%s has files that no folder should hold:\n  %s", name, strings.Join(wrong, "\n  "))
	}
	if _, taken := server[folder.MetadataName]; taken {
		return fmt.Errorf("%s has a file %s of its own", name, folder.MetadataName)
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
	if err := carryOut(dir, plan, server); err != nil {
		if empty { // or it would be in the way of the next attempt
			err = errors.Join(err, carryOut(dir, folder.Plan{Remove: plan.Write}, nil))
		}
		return err
	}
	// Last: what says that all is there is not there before it is.
	if err := dir.SetMetadata(folder.NewMetadata(resources)); err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "%s/%s pulled into %s: %s\n", revisionKind, name, into, planned(plan))
	return nil
}

// planPull decides what to do to the folder. What was half pulled before is no obstacle if it is what is pulled now.
func planPull(dir *Dir, resources *porchv1alpha1.PackageRevisionResources, force bool) (folder.Plan, error) {
	server := kptpkg.Files(resources.Spec.Resources)
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
			return folder.Plan{}, fmt.Errorf("%s is not empty, and no package was pulled into it; name a folder that is empty or not there", dir.name)
		}
		return folder.Plan{Write: server.Paths()}, nil
	}
	if err == nil && !was.SamePackage(is) {
		return folder.Plan{}, fmt.Errorf("%s holds %s of namespace %s, which is another package; name another folder", dir.name, was.Name, was.Namespace)
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
		return plan, fmt.Errorf("nothing was pulled: edited in %s and, differently, in %s: %s; pull into an empty folder to compare, or use --force to lose what is in %s",
			dir.name, is.Name, few(plan.Conflicts), dir.name)
	case another && len(plan.Keep) > 0:
		return plan, fmt.Errorf("nothing was pulled: %s holds %s with edits that were not pushed: %s; push them, name another folder, or use --force to lose them",
			dir.name, was.Name, few(plan.Keep))
	}
	return plan, nil
}

func carryOut(dir *Dir, plan folder.Plan, server kptpkg.Files) error {
	for _, name := range plan.Remove { // first: a file may have become a directory
		if err := dir.Remove(name); err != nil {
			return err
		}
	}
	for i, name := range plan.Write {
		if err := dir.Write(name, server[name]); err != nil {
			return errors.Join(err, fmt.Errorf("%d of %d files are written; pull again when that is repaired", i, len(plan.Write)))
		}
	}
	return nil
}

// planned says in a few words what was done.
func planned(plan folder.Plan) string {
	said := fmt.Sprintf("%s written", plural(len(plan.Write), "file"))
	if n := len(plan.Remove); n > 0 {
		said += fmt.Sprintf(", %d removed", n)
	}
	if n := len(plan.Keep); n > 0 {
		said += fmt.Sprintf("; %s that you edited left alone: %s", plural(n, "file"), few(plan.Keep))
	}
	return said
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// few names files, not all of them if they are many.
func few(names []string) string {
	const many = 10
	if len(names) <= many {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s … and %d more", strings.Join(names[:many], ", "), len(names)-many)
}

// sameDir is how a folder is named in advice to the user.
func sameDir(name string) string {
	if filepath.IsAbs(name) || strings.HasPrefix(name, ".") {
		return name
	}
	return "./" + name
}
