package packagecli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/kubectl/pkg/util/templates"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/kptpkg/lifecycle"
	"github.com/starlinghq/starling/pkg/core/kptpkg/lineage"
)

// draft is a revision that is to be created.
type draft struct {
	*Options
	output *output
	spec   porchv1alpha1.PackageRevisionSpec
	gates  []string
}

// firstWorkspace is the workspace of a new package if none is given.
const firstWorkspace = "v1"

func newDraft(o *Options, cmd *cobra.Command) *draft {
	return &draft{Options: o, output: newOutput(cmd, "created")}
}

// into adds the flags that say where a new package is to lie.
func (d *draft) into(cmd *cobra.Command) {
	cmd.Flags().StringVar(&d.spec.RepositoryName, "repository", "", "Repository of the new package.")
	cmd.Flags().StringVar(&d.spec.WorkspaceName, "workspace", firstWorkspace, "Workspace of the draft, which is part of its name.")
	cmd.Flags().StringSliceVar(&d.gates, "gate", nil, "Condition that must be True before the revision is proposed or approved; may be repeated.")
	if err := cmd.MarkFlagRequired("repository"); err != nil {
		panic("packagecli: " + err.Error())
	}
	registerFunc(cmd, "repository", d.completeNames(repositories, true))
}

// check finds what is wrong with the names and the task without asking the server.
func (d *draft) check(client *Client) error {
	if err := d.output.check(client); err != nil {
		return err
	}
	d.spec.Lifecycle = porchv1alpha1.LifecycleDraft
	for _, gate := range d.gates {
		d.spec.ReadinessGates = append(d.spec.ReadinessGates, porchv1alpha1.ReadinessGate{ConditionType: gate})
	}
	if wrong := append(lifecycle.CheckNames(&d.spec), lifecycle.CheckTasks(d.spec.Tasks)...); wrong != nil {
		return errors.New("the draft cannot be created: " + strings.Join(wrong, "; "))
	}
	return nil
}

func (d *draft) create(ctx context.Context, client *Client) error {
	if err := d.check(client); err != nil {
		return err
	}
	p := d.progress("creating %s", lifecycle.Name(d.spec.RepositoryName, d.spec.PackageName, d.spec.WorkspaceName))
	created, err := client.Create(ctx, d.spec)
	p.stop()
	if err != nil {
		return err
	}
	if err := d.output.print(d.Out, *created); err != nil {
		return err
	}
	for _, c := range created.Status.Conditions {
		switch {
		case c.Type == porchv1alpha1.ConditionPipelinePassed && c.Status == porchv1alpha1.ConditionFalse:
			fmt.Fprintf(visible{d.ErrOut}, "Warning: the draft was not rendered: %s\n", cmp.Or(c.Message, c.Reason))
		case c.Type == conditionMergeConflicts && c.Status == porchv1alpha1.ConditionTrue:
			fmt.Fprintf(visible{d.ErrOut}, "Warning: changed here and upstream: %s\n", cmp.Or(c.Message, c.Reason))
		}
	}
	return nil
}

// conditionMergeConflicts is what the server says of an upgrade that met changes on both sides.
const conditionMergeConflicts = "MergeConflicts"

func newInitCommand(o *Options) *cobra.Command {
	var task porchv1alpha1.PackageInitTaskSpec
	var d *draft
	cmd := &cobra.Command{
		Use:   "init PACKAGE --repository REPOSITORY",
		Short: "Begin a new package",
		Long:  templates.LongDesc(`Create a draft of a package that is not there yet. It holds a Kptfile and little else.`),
		Example: templates.Examples(`
			# A draft named catalog.web.v1
			kubectl starling package init web --repository catalog --description "The shop's front"

			# A package in a directory of the repository, with a gate that somebody has to meet
			kubectl starling package init shop/web --repository catalog --gate Reviewed`),
		Args:              takes(1, 1),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := o.client()
			if err != nil {
				return err
			}
			d.spec.PackageName = args[0]
			d.spec.Tasks = []porchv1alpha1.Task{{Type: porchv1alpha1.TaskTypeInit, Init: &task}}
			return d.create(cmd.Context(), client)
		},
	}
	d = newDraft(o, cmd)
	d.into(cmd)
	cmd.Flags().StringVar(&task.Description, "description", "", "What the package is, in a sentence.")
	cmd.Flags().StringSliceVar(&task.Keywords, "keywords", nil, "Words to find the package by.")
	cmd.Flags().StringVar(&task.Site, "site", "", "Where to read about the package.")
	return cmd
}

func newCloneCommand(o *Options) *cobra.Command {
	var flags gitFlags
	var d *draft
	cmd := &cobra.Command{
		Use:   "clone SOURCE PACKAGE --repository REPOSITORY",
		Short: "Begin a new package from another one, which is its upstream from then on",
		Long: templates.LongDesc(`
			Create a draft of a new package with the content of another one, which is its upstream from then on: "upgrade" brings newer
			revisions of it.

			SOURCE is the name of a published revision. It may also be a package in git (REPOSITORY.git/DIRECTORY@REF) or an image
			(oci://IMAGE:TAG), if a Repository of the namespace has imported it from there. For a new revision of a package that is there, use "copy".`),
		Example: templates.Examples(`
			# From a revision in another repository
			kubectl starling package clone catalog.web.v1 web --repository edge

			# By where it lies in git
			kubectl starling package clone https://example.com/packages.git/web@v2 web --repository edge
			kubectl starling package clone https://example.com/packages web --directory web --ref web/v2 --repository edge

			# By where it lies in a registry
			kubectl starling package clone oci://registry.example/team/web:v2 web --repository edge`),
		Args:              takes(2, 2),
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
			if upstream, err = d.imported(cmd.Context(), client, upstream); err != nil {
				return err
			}
			d.spec.PackageName = args[1]
			d.spec.Tasks = []porchv1alpha1.Task{{Type: porchv1alpha1.TaskTypeClone, Clone: &porchv1alpha1.PackageCloneTaskSpec{Upstream: upstream}}}
			return d.create(cmd.Context(), client)
		},
	}
	d = newDraft(o, cmd)
	d.into(cmd)
	cmd.Flags().StringVar(&flags.ref, "ref", "", "Tag or commit in git (default the newest revision).")
	cmd.Flags().StringVar(&flags.directory, "directory", "", "Directory of the package in git.")
	cmd.Flags().StringVar(&flags.secret, "secret-ref", "", "Secret with the credentials for git.")
	return cmd
}

// imported names the revision that a repository holds of a package in git. What none holds is left to the server, which says what to do.
func (d *draft) imported(ctx context.Context, client *Client, upstream porchv1alpha1.UpstreamPackage) (porchv1alpha1.UpstreamPackage, error) {
	if upstream.Git == nil {
		return upstream, nil
	}
	p := d.progress("looking for %s", upstream.Git.Repo)
	defer p.stop()
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
	var d *draft
	cmd := &cobra.Command{
		Use:   "copy REVISION",
		Short: "Begin a new revision of a package with the content of a published one",
		Long:  templates.LongDesc(`Create a draft of the same package with the content of a published revision of it, to edit that.`),
		Example: templates.Examples(`
			# The next revision of a package
			kubectl starling package copy edge.web.v1

			# With a name of its own
			kubectl starling package copy edge.web.v1 --workspace more-replicas`),
		Args:              takes(1, 1),
		ValidArgsFunction: o.completeRevisions(1, porchv1alpha1.LifecyclePublished),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := o.client()
			if err != nil {
				return err
			}
			source, err := client.Get(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if d.spec.WorkspaceName == "" {
				if d.spec.WorkspaceName, err = nextWorkspace(cmd.Context(), client, source); err != nil {
					return err
				}
			}
			d.spec.RepositoryName, d.spec.PackageName = source.Spec.RepositoryName, source.Spec.PackageName
			d.spec.Tasks = []porchv1alpha1.Task{{
				Type: porchv1alpha1.TaskTypeEdit, Edit: &porchv1alpha1.PackageEditTaskSpec{Source: &porchv1alpha1.PackageRevisionRef{Name: source.Name}},
			}}
			return d.create(cmd.Context(), client)
		},
	}
	d = newDraft(o, cmd)
	cmd.Flags().StringVar(&d.spec.WorkspaceName, "workspace", "", "Workspace of the draft (default vN, after the newest revision).")
	return cmd
}

// nextWorkspace is named after the number that the next revision will have.
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

func newUpgradeCommand(o *Options) *cobra.Command {
	var d *draft
	var to, strategy string
	strategies := []string{
		string(porchv1alpha1.ResourceMerge), string(porchv1alpha1.FastForward), string(porchv1alpha1.ForceDeleteReplace), string(porchv1alpha1.CopyMerge),
	}
	cmd := &cobra.Command{
		Use:   "upgrade REVISION",
		Short: "Begin a new revision of a package with a newer revision of its upstream merged in",
		Long: templates.LongDesc(`
			Create a draft that is a published revision of a package merged with a newer revision of the package that it was cloned from.
			What was changed in either stays; where both changed the same, the upstream wins.`),
		Example: templates.Examples(`
			# To the newest revision of its upstream
			kubectl starling package upgrade edge.web.v1

			# To a certain one, which replaces what was changed here
			kubectl starling package upgrade edge.web.v1 --revision v3 --strategy force-delete-replace`),
		Args:              takes(1, 1),
		ValidArgsFunction: o.completeRevisions(1, porchv1alpha1.LifecyclePublished),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := o.client()
			if err != nil {
				return err
			}
			task, err := d.upgrade(cmd.Context(), client, args[0], to)
			if err != nil || task == nil {
				return err
			}
			task.Strategy = porchv1alpha1.PackageMergeStrategy(strategy)
			d.spec.Tasks = []porchv1alpha1.Task{{Type: porchv1alpha1.TaskTypeUpgrade, Upgrade: task}}
			return d.create(cmd.Context(), client)
		},
	}
	d = newDraft(o, cmd)
	cmd.Flags().StringVar(&d.spec.WorkspaceName, "workspace", "", "Workspace of the draft (default upgrade-vN, after the upstream's revision).")
	cmd.Flags().StringVar(&to, "revision", lineage.Latest, "Revision of the upstream: vN, its workspace, or "+lineage.Latest+".")
	cmd.Flags().StringVar(&strategy, "strategy", string(porchv1alpha1.ResourceMerge), "How to merge: "+strings.Join(strategies, ", ")+".")
	register(cmd, "strategy", func() []string { return strategies })
	return cmd
}

// upgrade finds out between which revisions of the upstream the package is to be upgraded; nil if it is there already, which is said.
func (d *draft) upgrade(ctx context.Context, client *Client, name, to string) (*porchv1alpha1.PackageUpgradeTaskSpec, error) {
	local, err := client.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	if local.Spec.Lifecycle != porchv1alpha1.LifecyclePublished {
		return nil, fmt.Errorf("%s is %s; only what is Published can be upgraded", name, local.Spec.Lifecycle)
	}
	family, err := client.Family(ctx, local)
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
	if after.Name == before.Name {
		fmt.Fprintf(d.ErrOut, "%s is at %s already\n", name, after.Name)
		return nil, nil //nolint:nilnil // nothing to do is an answer
	}
	d.spec.RepositoryName, d.spec.PackageName = local.Spec.RepositoryName, local.Spec.PackageName
	if d.spec.WorkspaceName == "" {
		d.spec.WorkspaceName = family.Workspace(local.Spec.RepositoryName, local.Spec.PackageName, fmt.Sprintf("upgrade-v%d", after.Spec.Revision))
	}
	return &porchv1alpha1.PackageUpgradeTaskSpec{
		OldUpstream: porchv1alpha1.PackageRevisionRef{Name: before.Name}, NewUpstream: porchv1alpha1.PackageRevisionRef{Name: after.Name},
		LocalPackageRevisionRef: porchv1alpha1.PackageRevisionRef{Name: name},
	}, nil
}
