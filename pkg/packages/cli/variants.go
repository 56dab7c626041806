package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/kubectl/pkg/util/templates"

	configv1alpha1 "github.com/starlinghq/starling/api/config/v1alpha1"
	configv1alpha2 "github.com/starlinghq/starling/api/config/v1alpha2"
	"github.com/starlinghq/starling/pkg/plugin"
)

// variantSetView is the output of the command variants.
type variantSetView struct {
	Set       string                                 `json:"set"`
	Namespace string                                 `json:"namespace"`
	Status    configv1alpha2.PackageVariantSetStatus `json:"status"`
	Targets   []variantTarget                        `json:"targets"`
}

// variantTarget is one PackageVariant of a set.
type variantTarget struct {
	Repository     string `json:"repository"`
	Package        string `json:"package"`
	PackageVariant string `json:"packageVariant"`
	State          string `json:"state,omitempty"`
	// Revisions are the drafts, or the published revision.
	Revisions []string `json:"revisions,omitempty"`
	Upstream  string   `json:"upstream,omitempty"`
	Ready     string   `json:"ready"`
	Applied   string   `json:"applied,omitempty"`
	Healthy   string   `json:"healthy,omitempty"`
	WaitsFor  string   `json:"waitsFor,omitempty"`
	// Problem is why the variant is not ready or not healthy.
	Problem string `json:"problem,omitempty"`
}

func newVariantsCommand(o *Options) *cobra.Command {
	output := &plugin.FormatFlag{Allowed: []string{"json", "yaml", wideOutput}}
	cmd := &cobra.Command{
		Use:   "variants SET",
		Short: "Show the state of the variants of a PackageVariantSet",
		Long: templates.LongDesc(`
			Show the variants of a PackageVariantSet, one line for each target: the state of the package, its drafts or published revision,
			and what it waits for.`),
		Example: templates.Examples(`
			kubectl starling package variants web

			# Include the status of the clusters
			kubectl starling package variants web -o wide

			# Propose and publish all drafts of the set
			kubectl starling package propose --set web
			kubectl starling package approve --set web`),
		Args: cobra.ExactArgs(1),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return o.completeNames(configv1alpha2.PackageVariantSets, true)(cmd, args, begun)
		},
		RunE: o.withClient(func(ctx context.Context, client *Client, args []string) error {
			if err := output.Check(); err != nil {
				return err
			}
			return o.variants(ctx, client, args[0], output.Value)
		}),
	}
	output.AddTo(cmd)
	return cmd
}

func (o *Options) variants(ctx context.Context, client *Client, name, format string) error {
	p := o.progress("reading the variants of %s", name)
	defer p.Stop()
	set, variants, err := client.VariantsOf(ctx, name)
	if err != nil {
		return err
	}
	p.Stop()
	view := describeVariants(set, variants)
	if format == "json" || format == "yaml" {
		return plugin.Structured(o.Out, view, format)
	}
	return view.print(o.Out, format == wideOutput)
}

// describeVariants returns the state of a set. Its targets are sorted by repository and package.
func describeVariants(set *configv1alpha2.PackageVariantSet, variants []configv1alpha1.PackageVariant) *variantSetView {
	view := &variantSetView{Set: set.Name, Namespace: set.Namespace, Status: set.Status, Targets: []variantTarget{}}
	for i := range variants {
		view.Targets = append(view.Targets, describeVariant(&variants[i]))
	}
	slices.SortFunc(view.Targets, func(a, b variantTarget) int {
		return cmp.Or(cmp.Compare(a.Repository, b.Repository), cmp.Compare(a.Package, b.Package), cmp.Compare(a.PackageVariant, b.PackageVariant))
	})
	return view
}

func describeVariant(pv *configv1alpha1.PackageVariant) variantTarget {
	t := variantTarget{PackageVariant: pv.Name, State: string(pv.Status.State), WaitsFor: pv.Status.WaitsFor}
	if d := pv.Spec.Downstream; d != nil {
		t.Repository, t.Package = d.Repo, d.Package
	}
	for _, target := range pv.Status.DownstreamTargets {
		t.Revisions = append(t.Revisions, target.Name)
	}
	if up := pv.Status.Upstream; up != nil {
		t.Upstream = up.Name
	}
	for _, condition := range []struct {
		kind   string
		status *string
	}{
		{configv1alpha1.ConditionReady, &t.Ready},
		{configv1alpha1.PackageVariantConditionApplied, &t.Applied},
		{configv1alpha1.PackageVariantConditionHealthy, &t.Healthy},
	} {
		c := meta.FindStatusCondition(pv.Status.Conditions, condition.kind)
		if c == nil {
			continue
		}
		*condition.status = string(c.Status)
		if c.Status == metav1.ConditionFalse && t.Problem == "" {
			t.Problem = c.Reason + ": " + c.Message
		}
	}
	t.Ready = cmp.Or(t.Ready, string(metav1.ConditionUnknown))
	if pv.DeletionTimestamp != nil {
		t.State = "Deleting"
	}
	return t
}

// print prints a table, and below it the problems of targets without a variant.
func (v *variantSetView) print(w io.Writer, wide bool) error {
	if len(v.Targets) == 0 {
		fmt.Fprintf(w, "PackageVariantSet %s has no variants.\n", v.Set)
	} else if err := printers.NewTablePrinter(printers.PrintOptions{Wide: wide}).PrintObj(v.table(wide), w); err != nil {
		return err
	}
	shown := map[string]bool{}
	for i := range v.Targets {
		shown["PackageVariant "+v.Targets[i].PackageVariant] = true
	}
	var more []string
	for _, p := range v.Status.Problems {
		if !shown[p.Target] {
			more = append(more, p.Target+": "+p.Message)
		}
	}
	for _, kind := range []string{configv1alpha1.ConditionStalled, configv1alpha1.PackageVariantSetConditionRemovalBlocked} {
		if c := meta.FindStatusCondition(v.Status.Conditions, kind); c != nil && c.Status == metav1.ConditionTrue && len(more) == 0 {
			more = append(more, c.Reason+": "+c.Message)
		}
	}
	if len(more) > 0 {
		fmt.Fprintf(plugin.EscapingWriter{Writer: w}, "\n%s\n", strings.Join(more, "\n"))
	}
	if n := v.Status.MoreProblems; n > 0 && len(more) > 0 {
		fmt.Fprintf(w, "… and up to %d more\n", n)
	}
	return nil
}

func (v *variantSetView) table(wide bool) *metav1.Table {
	columns := []string{"Repository", "Package", "State", "Revision", "Ready", "Waits For"}
	if wide {
		columns = slices.Insert(columns, 5, "Applied", "Healthy", "Upstream", "PackageVariant")
	}
	t := plugin.NewTable(columns...)
	none := func(text string) string { return cmp.Or(text, "<none>") }
	for i := range v.Targets {
		of := &v.Targets[i]
		cells := []any{of.Repository, of.Package, none(of.State), none(strings.Join(of.Revisions, ",")), of.Ready}
		if wide {
			cells = append(cells, none(of.Applied), none(of.Healthy), none(of.Upstream), of.PackageVariant)
		}
		t.Rows = append(t.Rows, metav1.TableRow{Cells: append(cells, cmp.Or(of.WaitsFor, of.Problem))})
	}
	return t
}

// VariantsOf returns a PackageVariantSet and its PackageVariants.
func (c *Client) VariantsOf(ctx context.Context, name string) (*configv1alpha2.PackageVariantSet, []configv1alpha1.PackageVariant, error) {
	obj, err := c.dynamic.Resource(configv1alpha2.PackageVariantSets).Namespace(c.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, nil, err
	}
	set, err := typed[configv1alpha2.PackageVariantSet](obj)
	if err != nil {
		return nil, nil, err
	}
	variants, err := listAll[configv1alpha1.PackageVariant](ctx, c.dynamic.Resource(configv1alpha1.PackageVariants).Namespace(c.Namespace),
		metav1.ListOptions{LabelSelector: configv1alpha1.LabelPackageVariantSet + "=" + string(set.UID)})
	// Any author of PackageVariants may set the label. What only has the label is not the set's,
	// and must not be approved with it.
	return set, slices.DeleteFunc(variants, func(pv configv1alpha1.PackageVariant) bool { return !metav1.IsControlledBy(&pv, set) }), err
}

// revisionsOfSet returns the names of the current revisions of a set's variants, in any lifecycle.
func (c *Client) revisionsOfSet(ctx context.Context, name string) ([]string, error) {
	_, variants, err := c.VariantsOf(ctx, name)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for i := range variants {
		for _, target := range variants[i].Status.DownstreamTargets {
			names[target.Name] = true
		}
	}
	return slices.Sorted(maps.Keys(names)), nil
}
