package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/kubectl/pkg/util/templates"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/lifecycle"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/lineage"
	"github.com/starlinghq/starling/pkg/plugin"
)

// newRevision is a revision to be created.
type newRevision struct {
	*Options
	output *output
	spec   porchv1alpha1.PackageRevisionSpec
	gates  []string
}

// addTargetFlags adds the flags for the location of a new package.
func (d *newRevision) addTargetFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&d.spec.RepositoryName, "repository", "", "Repository of the new package.")
	cmd.Flags().StringVar(&d.spec.WorkspaceName, "workspace", "v1", "Workspace of the draft. It is part of the name of the revision.")
	cmd.Flags().StringSliceVar(&d.gates, "gate", nil, "Readiness gate: a condition that must be True before the revision can be proposed or approved. May be repeated.")
	if err := cmd.MarkFlagRequired("repository"); err != nil {
		panic("cli: " + err.Error())
	}
	plugin.RegisterFunc(cmd, "repository", d.completeNames(repositories, true))
}

// check checks the names and the task before a request is sent.
func (d *newRevision) check(client *Client) error {
	if err := d.output.check(client); err != nil {
		return err
	}
	d.spec.Lifecycle = porchv1alpha1.LifecycleDraft
	for _, gate := range d.gates {
		d.spec.ReadinessGates = append(d.spec.ReadinessGates, porchv1alpha1.ReadinessGate{ConditionType: gate})
	}
	if wrong := append(lifecycle.CheckNames(&d.spec), lifecycle.CheckTasks(d.spec.Tasks)...); wrong != nil {
		return errors.New("create draft: " + strings.Join(wrong.Strings(), "; "))
	}
	return nil
}

func (d *newRevision) create(ctx context.Context, client *Client) error {
	if err := d.check(client); err != nil {
		return err
	}
	p := d.progress("creating %s", lifecycle.Name(d.spec.RepositoryName, d.spec.PackageName, d.spec.WorkspaceName))
	created, err := client.Create(ctx, d.spec)
	p.Stop()
	if err != nil {
		return err
	}
	if err := d.output.print(d.Out, *created); err != nil {
		return err
	}
	for _, c := range created.Status.Conditions {
		switch {
		case c.Type == porchv1alpha1.ConditionPipelinePassed && c.Status == porchv1alpha1.ConditionFalse:
			fmt.Fprintf(plugin.EscapingWriter{Writer: d.ErrOut}, "Warning: rendering the draft failed: %s\n", cmp.Or(c.Message, c.Reason))
		case c.Type == conditionMergeConflicts && c.Status == porchv1alpha1.ConditionTrue:
			fmt.Fprintf(plugin.EscapingWriter{Writer: d.ErrOut}, "Warning: merge conflicts: %s\n", cmp.Or(c.Message, c.Reason))
		}
	}
	return nil
}

// conditionMergeConflicts is set by the server if both sides of an upgrade changed the same.
const conditionMergeConflicts = "MergeConflicts"

func newInitCommand(o *Options) *cobra.Command {
	var task porchv1alpha1.PackageInitTaskSpec
	d := &newRevision{Options: o}
	cmd := &cobra.Command{
		Use:   "init PACKAGE --repository REPOSITORY",
		Short: "Create a draft of a new package",
		Long:  templates.LongDesc(`Create a draft of a new package with a Kptfile and a README.`),
		Example: templates.Examples(`
			# Create the draft catalog.web.v1
			kubectl starling package init web --repository catalog --description "The shop's front"

			# Create a package in a directory of the repository, with a readiness gate
			kubectl starling package init shop/web --repository catalog --gate Reviewed`),
		Args:              plugin.ArgCount(1, 1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: o.withClient(func(ctx context.Context, client *Client, args []string) error {
			d.spec.PackageName = args[0]
			d.spec.Tasks = []porchv1alpha1.Task{{Type: porchv1alpha1.TaskTypeInit, Init: &task}}
			return d.create(ctx, client)
		}),
	}
	d.output = newOutput(cmd, "created")
	d.addTargetFlags(cmd)
	cmd.Flags().StringVar(&task.Description, "description", "", "Description of the package in one sentence.")
	cmd.Flags().StringSliceVar(&task.Keywords, "keywords", nil, "Keywords of the package, separated by commas.")
	cmd.Flags().StringVar(&task.Site, "site", "", "URL of the documentation of the package.")
	return cmd
}

func newCloneCommand(o *Options) *cobra.Command {
	var flags gitFlags
	d := &newRevision{Options: o}
	cmd := &cobra.Command{
		Use:   "clone SOURCE PACKAGE --repository REPOSITORY",
		Short: "Create a draft of a new package from another package, its upstream",
		Long: templates.LongDesc(`
			Create a draft of a new package with the content of another package. That package becomes its upstream: "upgrade" merges newer
			revisions of it.

			SOURCE is the name of a published revision. It may also be a package in git (REPOSITORY.git/DIRECTORY@REF) or an image
			(oci://IMAGE:TAG) that a Repository of the namespace has imported. To create a new revision of an existing package, use "copy".`),
		Example: templates.Examples(`
			# Clone a revision of another repository
			kubectl starling package clone catalog.web.v1 web --repository edge

			# Clone a package by its address in git
			kubectl starling package clone https://example.com/packages.git/web@v2 web --repository edge
			kubectl starling package clone https://example.com/packages web --directory web --ref web/v2 --repository edge

			# Clone a package by its address in a registry
			kubectl starling package clone oci://registry.example/team/web:v2 web --repository edge`),
		Args:              plugin.ArgCount(2, 2),
		ValidArgsFunction: o.completeRevisions(1, porchv1alpha1.LifecyclePublished),
		RunE: func(cmd *cobra.Command, args []string) error {
			upstream, err := parseSource(args[0], flags)
			if err != nil {
				return err
			}
			client, err := o.client()
			if err != nil {
				return err
			}
			if upstream, err = d.resolveImported(cmd.Context(), client, upstream); err != nil {
				return err
			}
			d.spec.PackageName = args[1]
			d.spec.Tasks = []porchv1alpha1.Task{{Type: porchv1alpha1.TaskTypeClone, Clone: &porchv1alpha1.PackageCloneTaskSpec{Upstream: upstream}}}
			return d.create(cmd.Context(), client)
		},
	}
	d.output = newOutput(cmd, "created")
	d.addTargetFlags(cmd)
	cmd.Flags().StringVar(&flags.ref, "ref", "", "Tag or commit in git (default: the newest revision).")
	cmd.Flags().StringVar(&flags.directory, "directory", "", "Directory of the package in git.")
	cmd.Flags().StringVar(&flags.secret, "secret-ref", "", "Secret with the credentials for git.")
	return cmd
}

// resolveImported replaces a package in git by the name of its imported revision. If there is none,
// the server refuses with advice.
func (d *newRevision) resolveImported(ctx context.Context, client *Client, upstream porchv1alpha1.UpstreamPackage) (porchv1alpha1.UpstreamPackage, error) {
	if upstream.Git == nil {
		return upstream, nil
	}
	p := d.progress("looking for %s", upstream.Git.Repo)
	defer p.Stop()
	all, err := client.List(ctx, "", "")
	if err != nil {
		return upstream, err
	}
	if found := all.FromGit(upstream.Git); found != nil {
		return porchv1alpha1.UpstreamPackage{UpstreamRef: &porchv1alpha1.PackageRevisionRef{Name: found.Name}}, nil
	}
	return upstream, nil
}

func newCopyCommand(o *Options) *cobra.Command {
	d := &newRevision{Options: o}
	cmd := &cobra.Command{
		Use:   "copy REVISION",
		Short: "Create a draft from a published revision of the same package",
		Long:  templates.LongDesc(`Create a draft with the content of a published revision of the same package.`),
		Example: templates.Examples(`
			# Create the next revision of a package
			kubectl starling package copy edge.web.v1

			# Create it in a named workspace
			kubectl starling package copy edge.web.v1 --workspace more-replicas`),
		Args:              plugin.ArgCount(1, 1),
		ValidArgsFunction: o.completeRevisions(1, porchv1alpha1.LifecyclePublished),
		RunE: o.withClient(func(ctx context.Context, client *Client, args []string) error {
			source, err := client.Get(ctx, args[0])
			if err != nil {
				return err
			}
			if d.spec.WorkspaceName == "" {
				if d.spec.WorkspaceName, err = nextWorkspace(ctx, client, source); err != nil {
					return err
				}
			}
			d.spec.RepositoryName, d.spec.PackageName = source.Spec.RepositoryName, source.Spec.PackageName
			d.spec.Tasks = []porchv1alpha1.Task{{
				Type: porchv1alpha1.TaskTypeEdit, Edit: &porchv1alpha1.PackageEditTaskSpec{Source: &porchv1alpha1.PackageRevisionRef{Name: source.Name}},
			}}
			return d.create(ctx, client)
		}),
	}
	d.output = newOutput(cmd, "created")
	cmd.Flags().StringVar(&d.spec.WorkspaceName, "workspace", "", "Workspace of the draft (default: vN, where N follows the newest revision).")
	return cmd
}

// nextWorkspace returns the workspace vN, where N is the number of the next revision.
func nextWorkspace(ctx context.Context, client *Client, r *porchv1alpha1.PackageRevision) (string, error) {
	all, err := client.ListPackage(ctx, r.Spec.RepositoryName, r.Spec.PackageName)
	if err != nil {
		return "", err
	}
	newest := 0
	for i := range all {
		newest = max(newest, all[i].Spec.Revision)
	}
	return all.Workspace(r.Spec.RepositoryName, r.Spec.PackageName, fmt.Sprintf("v%d", newest+1)), nil
}

// denoted returns how a name of a workspace denotes a published revision: by its number, or by the
// tag from which it was imported.
func denoted(r *porchv1alpha1.PackageRevision) string {
	if r.Spec.Revision > 0 {
		return fmt.Sprintf("v%d", r.Spec.Revision)
	}
	return r.Spec.WorkspaceName
}

func newUpgradeCommand(o *Options) *cobra.Command {
	d := &newRevision{Options: o}
	var to, strategy string
	strategies := []string{
		string(porchv1alpha1.ResourceMerge), string(porchv1alpha1.FastForward), string(porchv1alpha1.ForceDeleteReplace), string(porchv1alpha1.CopyMerge),
	}
	cmd := &cobra.Command{
		Use:   "upgrade REVISION",
		Short: "Create a draft that merges a newer revision of the upstream",
		Long: templates.LongDesc(`
			Create a draft that merges a published revision of a package with a newer revision of its upstream, the package that it was
			cloned from. The draft has the changes of both. If both changed the same field, the upstream wins.`),
		Example: templates.Examples(`
			# Upgrade to the newest revision of the upstream
			kubectl starling package upgrade edge.web.v1

			# Upgrade to a specific revision, and discard all changes to the upstream
			kubectl starling package upgrade edge.web.v1 --revision v3 --strategy force-delete-replace`),
		Args:              plugin.ArgCount(1, 1),
		ValidArgsFunction: o.completeRevisions(1, porchv1alpha1.LifecyclePublished),
		RunE: o.withClient(func(ctx context.Context, client *Client, args []string) error {
			task, err := d.upgrade(ctx, client, args[0], to)
			if err != nil || task == nil {
				return err
			}
			task.Strategy = porchv1alpha1.PackageMergeStrategy(strategy)
			d.spec.Tasks = []porchv1alpha1.Task{{Type: porchv1alpha1.TaskTypeUpgrade, Upgrade: task}}
			return d.create(ctx, client)
		}),
	}
	d.output = newOutput(cmd, "created")
	cmd.Flags().StringVar(&d.spec.WorkspaceName, "workspace", "", "Workspace of the draft (default: upgrade-vN, where N is the revision of the upstream, or upgrade- and its tag).")
	cmd.Flags().StringVar(&to, "revision", lineage.Latest, "Revision of the upstream to upgrade to: vN, a tag, a workspace, or "+lineage.Latest+".")
	cmd.Flags().StringVar(&strategy, "strategy", string(porchv1alpha1.ResourceMerge), "Merge strategy. One of: ("+strings.Join(strategies, ", ")+").")
	plugin.RegisterValues(cmd, "strategy", func() []string { return strategies })
	return cmd
}

// upgrade returns the task for an upgrade, or nil (with a message) if the package is up to date.
func (d *newRevision) upgrade(ctx context.Context, client *Client, name, to string) (*porchv1alpha1.PackageUpgradeTaskSpec, error) {
	local, err := client.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	if local.Spec.Lifecycle != porchv1alpha1.LifecyclePublished {
		return nil, fmt.Errorf("upgrade revision %q: it is %s. Only Published revisions can be upgraded", name, local.Spec.Lifecycle)
	}
	family, err := client.Ancestry(ctx, local)
	if err != nil {
		return nil, err
	}
	before, err := family.Upstream(local)
	if err != nil {
		return nil, err
	}
	upstream, err := client.ListPackage(ctx, before.Spec.RepositoryName, before.Spec.PackageName)
	if err != nil {
		return nil, err
	}
	after, err := upstream.Find(before.Spec.RepositoryName, before.Spec.PackageName, to)
	if err != nil {
		return nil, err
	}
	if after.Name == before.Name && !lineage.Moved(local, after) {
		fmt.Fprintf(d.ErrOut, "%s is up to date with its upstream %s\n", name, after.Name)
		return nil, nil //nolint:nilnil // no upgrade is a valid result
	}
	d.spec.RepositoryName, d.spec.PackageName = local.Spec.RepositoryName, local.Spec.PackageName
	if d.spec.WorkspaceName == "" {
		d.spec.WorkspaceName = family.Workspace(local.Spec.RepositoryName, local.Spec.PackageName, "upgrade-"+denoted(after))
	}
	return &porchv1alpha1.PackageUpgradeTaskSpec{
		OldUpstream: porchv1alpha1.PackageRevisionRef{Name: before.Name}, NewUpstream: porchv1alpha1.PackageRevisionRef{Name: after.Name},
		LocalPackageRevisionRef: porchv1alpha1.PackageRevisionRef{Name: name},
	}, nil
}
