package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/resource"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/util/templates"

	"github.com/starlinghq/starling/pkg/core/foresight/forecast"
	"github.com/starlinghq/starling/pkg/core/text"
	"github.com/starlinghq/starling/pkg/foresight"
	"github.com/starlinghq/starling/pkg/plugin"
)

// The exit codes of plan if something would change, and if it is not known what.
const (
	exitChanges = 2
	exitUnknown = 3
)

// planner is the command plan.
type planner struct {
	*options
	files      resource.FilenameOptions
	serverSide bool
	deletions  []string
	labels     []string
	approvals  []string
	failOn     []string
	output     plugin.FormatFlag
}

// What --fail-on accepts.
const (
	failOnRemoval  = "removal"
	failOnConflict = "conflict"
	failOnError    = "error"
)

func newPlanCommand(o *options) *cobra.Command {
	p := &planner{options: o, output: plugin.FormatFlag{Allowed: []string{"json", "yaml", "wide", "diff", "name"}}}
	cmd := &cobra.Command{
		Use:   "plan (-f FILE | -k DIRECTORY | --delete KIND/NAME | --label cluster/NAME=KEY=VALUE | --approve REVISION)",
		Short: "Show what a change would do to each cluster",
		Long: templates.LongDesc(`
			Show what a change would do to each cluster, before it is made: which policies gain and lose objects and clusters, and which
			objects are created, updated and deleted where; which targets PackageVariantSets gain and lose, and which packages are drafted.
			Nothing is changed. Manifests are applied by a dry run, as kubectl diff does.

			The clusters are read from the ITSes of the WDS, with your rights. Clusters in which the same changes are one group. The values
			of Secrets are hidden.

			Exit status: 0 if nothing would change, 2 if something would, 3 if what would change is not known because something could not
			be read, 1 after an error or if --fail-on applies.`),
		Example: templates.Examples(`
			# What would this manifest change?
			kubectl starling plan -f deployment.yaml

			# What would these manifests change together, and is anything removed?
			kubectl starling plan -k overlays/prod --fail-on=removal,conflict

			# What would be removed with a policy, or with a Namespace?
			kubectl starling plan --delete bindingpolicy/web

			# What would a label of a cluster change?
			kubectl starling plan --label cluster/c1=site=edge

			# What would other properties of clusters change?
			kubectl starling plan -f properties.yaml
			kubectl starling plan --delete configmap/c1 --namespace customization-properties

			# What would be delivered if a revision of a package were approved?
			kubectl starling plan --approve c1.web.v2 --namespace default

			# All fields, as a diff
			kubectl starling plan -f deployment.yaml -o diff`),
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := p.check(); err != nil {
				return err
			}
			return p.run(cmd.Context())
		},
	}
	f := cmd.Flags()
	cmdutil.AddFilenameOptionFlags(cmd, &p.files, "that contains the changed objects")
	f.BoolVar(&p.serverSide, "server-side", false, "Plan what \"kubectl apply --server-side\" would change.")
	f.StringSliceVar(&p.deletions, "delete", nil, "Object to delete, as KIND/NAME. May be repeated.")
	f.StringSliceVar(&p.labels, "label", nil, "Label to set on a cluster, as cluster/NAME=KEY=VALUE, or to remove, as cluster/NAME=KEY-. May be repeated.")
	f.StringSliceVar(&p.approvals, "approve", nil, "PackageRevision to approve, in the namespace. May be repeated.")
	f.StringSliceVar(&p.failOn, "fail-on", nil, "Exit with 1 if the plan has one of these: removal, conflict, error.")
	plugin.RegisterValues(cmd, "fail-on", func() []string { return []string{failOnConflict, failOnError, failOnRemoval} })
	p.output.AddTo(cmd)
	return cmd
}

func (p *planner) check() error {
	if len(p.files.Filenames) == 0 && p.files.Kustomize == "" && len(p.deletions)+len(p.labels)+len(p.approvals) == 0 {
		return errors.New("there is nothing to plan: give manifests with -f or -k, or --delete, --label or --approve")
	}
	for _, what := range p.failOn {
		if !slices.Contains([]string{failOnRemoval, failOnConflict, failOnError}, what) {
			return fmt.Errorf("invalid --fail-on %q: must be %s, %s or %s", what, failOnRemoval, failOnConflict, failOnError)
		}
	}
	for _, text := range p.labels {
		if _, _, _, err := parseLabel(text); err != nil {
			return err
		}
	}
	return p.output.Check()
}

func (p *planner) run(ctx context.Context) error {
	reader, err := p.reader()
	if err != nil {
		return err
	}
	progress := p.progress("Reading WDS %s", reader.WDS.Name)
	defer progress.Stop()
	reader.Progress = func(what string) { progress.Set("Reading %s", what) }
	before, err := reader.Read(ctx)
	if err != nil {
		return err
	}
	after := before.Clone()
	progress.Set("Applying the change by a dry run")
	of := change{planner: p, itses: reader.ITSes, before: before, after: after}
	if err := of.make(); err != nil {
		return err
	}
	comparison := forecast.Compare(before, after)
	needs, clusters := comparison.Needs()
	if err := reader.ReadContent(ctx, before, after, needs); err != nil {
		return err
	}
	if err := reader.ReadOthers(ctx, after, clusters); err != nil {
		return err
	}
	plan := &Plan{Forecast: *comparison.Forecast(), Notes: append(of.notes, comparison.Misses()...), connect: p.itses.Connected}
	approved, err := p.addApprovals(ctx, plan, reader, before, after)
	if err != nil {
		return err
	}
	if err := of.addPackages(ctx, plan, reader, approved); err != nil {
		return err
	}
	progress.Stop()
	ofPackages := len(approved)+len(of.packages) > 0
	unknown, rest := reader.Unknown(func(u *forecast.Unknown) bool { return comparison.Matters(u, ofPackages) })
	plan.Unknown = slices.Concat(of.unknown, unknown)
	if len(rest) > 0 {
		plan.Notes = append(plan.Notes, "not read, and without effect on this change: "+text.Join(rest, "; ", 1))
	}
	plan.total()
	if err := plan.print(p.Out, p.output.Value); err != nil {
		return err
	}
	return p.verdict(plan)
}

var errUnknown = errors.New("it is not known what would change, because something could not be read: see what is unknown in the plan")

// verdict returns the exit code. What is unknown may be what --fail-on is about.
func (p *planner) verdict(plan *Plan) error {
	for _, what := range p.failOn {
		if why := plan.has(what); why != "" {
			return fmt.Errorf("--fail-on=%s: %s", what, why)
		}
	}
	switch {
	case plan.isUnknown():
		return plugin.CodedError{Err: errUnknown, Code: exitUnknown}
	case plan.changes():
		return plugin.CodedError{Err: plugin.ErrSilent, Code: exitChanges}
	}
	return nil
}

// reader returns what reads the WDS and its ITSes.
func (o *options) reader() (*foresight.WorldReader, error) {
	wds, err := o.itses.Current()
	if err != nil {
		return nil, err
	}
	itses, err := o.itses.Find()
	return &foresight.WorldReader{WDS: wds, ITSes: itses, Progress: func(string) {}}, err
}
