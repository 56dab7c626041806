package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/kubectl/pkg/cmd/diff"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/util/openapi"
	"k8s.io/kubectl/pkg/util/templates"

	"github.com/starlinghq/starling/pkg/core/foresight/forecast"
	"github.com/starlinghq/starling/pkg/core/objref"
	"github.com/starlinghq/starling/pkg/foresight"
	"github.com/starlinghq/starling/pkg/plugin"
)

// exitChanges is the exit code of plan if something would change.
const exitChanges = 2

// planner is the command plan.
type planner struct {
	*options
	files      resource.FilenameOptions
	serverSide bool
	deletions  []string
	labels     []string
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
		Use:   "plan (-f FILE | -k DIRECTORY | --delete KIND/NAME | --label cluster/NAME=KEY=VALUE)",
		Short: "Show what a change would do to each cluster",
		Long: templates.LongDesc(`
			Show what a change would do to each cluster, before it is made: which policies gain and lose objects and clusters, and which
			objects are created, updated and deleted where. Nothing is changed. Manifests are applied by a dry run, as kubectl diff does.

			The clusters are read from the ITSes of the WDS, with your rights. Clusters in which the same changes are one group. The values
			of Secrets are hidden.

			Exit status: 0 if nothing would change, 2 if something would, 1 after an error or if --fail-on applies.`),
		Example: templates.Examples(`
			# What would this manifest change?
			kubectl starling plan -f deployment.yaml

			# What would these manifests change together, and is anything removed?
			kubectl starling plan -k overlays/prod --fail-on=removal,conflict

			# What would be removed with a policy, or with a Namespace?
			kubectl starling plan --delete bindingpolicy/web

			# What would a label of a cluster change?
			kubectl starling plan --label cluster/c1=site=edge

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
	f.StringSliceVar(&p.failOn, "fail-on", nil, "Exit with 1 if the plan has one of these: removal, conflict, error.")
	plugin.RegisterValues(cmd, "fail-on", func() []string { return []string{failOnConflict, failOnError, failOnRemoval} })
	p.output.AddTo(cmd)
	return cmd
}

func (p *planner) check() error {
	if len(p.files.Filenames) == 0 && p.files.Kustomize == "" && len(p.deletions) == 0 && len(p.labels) == 0 {
		return errors.New("there is nothing to plan: give manifests with -f or -k, or --delete or --label")
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

// parseLabel parses cluster/NAME=KEY=VALUE or cluster/NAME=KEY-. The value is nil for the latter.
func parseLabel(text string) (cluster, key string, value *string, err error) {
	name, label, found := strings.Cut(strings.TrimPrefix(text, "cluster/"), "=")
	key, set, sets := strings.Cut(label, "=")
	switch {
	case !strings.HasPrefix(text, "cluster/") || !found || name == "" || key == "" || !sets && !strings.HasSuffix(key, "-"):
		return "", "", nil, fmt.Errorf("invalid --label %q: must be cluster/NAME=KEY=VALUE, or cluster/NAME=KEY- to remove the label", text)
	case sets:
		return name, key, &set, nil
	}
	return name, strings.TrimSuffix(key, "-"), nil, nil
}

func (p *planner) run(ctx context.Context) error {
	reader, err := p.reader()
	if err != nil {
		return err
	}
	progress := p.progress("Reading WDS %s", reader.WDS.Name)
	defer progress.Stop()
	reader.Progress = func(what string) { progress.Set("Reading %s", what) }
	before, _, err := reader.Read(ctx)
	if err != nil {
		return err
	}
	after := before.Clone()
	progress.Set("Applying the change by a dry run")
	notes, err := p.change(before, after)
	if err != nil {
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
	progress.Stop()
	plan := &Plan{Forecast: *comparison.Forecast(), Notes: notes, Unknown: reader.Unknown()}
	plan.total()
	if err := plan.print(p.Out, p.output.Value); err != nil {
		return err
	}
	return p.verdict(plan)
}

// verdict returns the exit code.
func (p *planner) verdict(plan *Plan) error {
	for _, what := range p.failOn {
		if why := plan.has(what); why != "" {
			return fmt.Errorf("--fail-on=%s: %s", what, why)
		}
	}
	if plan.changes() {
		return plugin.CodedError{Err: plugin.ErrSilent, Code: exitChanges}
	}
	return nil
}

// change makes the change in the copy of a World. The other one gets what the objects are now.
func (p *planner) change(before, after *forecast.World) (notes []string, err error) {
	if len(p.files.Filenames) > 0 || p.files.Kustomize != "" {
		if notes, err = p.apply(before, after); err != nil {
			return nil, err
		}
	}
	if len(p.deletions) > 0 {
		if err := p.remove(after); err != nil {
			return nil, err
		}
	}
	for _, text := range p.labels {
		cluster, key, value, err := parseLabel(text)
		if err != nil {
			return nil, err
		}
		if err := foresight.Label(after, cluster, map[string]*string{key: value}); err != nil {
			return nil, err
		}
	}
	return notes, nil
}

// apply applies manifests by a dry run. A Namespace or a CustomResourceDefinition that comes with
// them does not exist then, so what is in it or of its kind cannot be tried at the API server: it
// is planned as it is in the file.
func (p *planner) apply(before, after *forecast.World) (notes []string, err error) {
	factory := cmdutil.NewFactory(cmdutil.NewMatchVersionFlags(p.flags))
	namespace, enforce, err := factory.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, err
	}
	result := factory.NewBuilder().Unstructured().NamespaceParam(namespace).DefaultNamespace().
		FilenameParam(enforce, &p.files).Flatten().ContinueOnError().Do()
	if err := result.Err(); err != nil {
		return nil, err
	}
	return notes, result.Visit(func(info *resource.Info, err error) error {
		if err != nil {
			return err
		}
		note, err := p.applyOne(info, before, after, factory)
		if note != "" {
			notes = append(notes, note)
		}
		return err
	})
}

func (p *planner) applyOne(info *resource.Info, before, after *forecast.World, schemas openapi.OpenAPIResourcesGetter) (note string, err error) {
	local := info.Object.DeepCopyObject()
	err = info.Get()
	if err != nil && !isNotFound(err) {
		return "", err
	}
	if err != nil {
		info.Object = nil
	} else if live, is := info.Object.(*unstructured.Unstructured); is {
		if _, err := foresight.Set(before, info.Mapping.Resource, live.DeepCopy()); err != nil {
			return "", err
		}
	}
	object := diff.InfoObject{
		LocalObj: local, Info: info, Encoder: unstructured.UnstructuredJSONScheme, OpenAPIGetter: schemas,
		ServerSideApply: p.serverSide, FieldManager: "kubectl", IOStreams: p.IOStreams,
	}
	merged, err := object.Merged()
	if err != nil && isNotFound(err) { // its Namespace comes with it
		merged, err = local, nil
	}
	if err != nil {
		return "", err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(merged)
	if err != nil {
		return "", err
	}
	return foresight.Set(after, info.Mapping.Resource, &unstructured.Unstructured{Object: content})
}

// remove removes the objects of --delete.
func (p *planner) remove(after *forecast.World) error {
	namespace, _, err := p.flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return err
	}
	result := resource.NewBuilder(p.flags).Unstructured().NamespaceParam(namespace).DefaultNamespace().
		ResourceTypeOrNameArgs(false, p.deletions...).Flatten().ContinueOnError().Do()
	if err := result.Err(); err != nil {
		return err
	}
	return result.Visit(func(info *resource.Info, err error) error {
		if err != nil {
			return err
		}
		foresight.Remove(after, objref.New(info.Mapping.Resource.GroupResource(), info.Namespace, info.Name))
		return nil
	})
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
