package packagecli

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
)

// variantsOf is what there is to say of a set.
type variantsOf struct {
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
	// Revisions are the drafts, or the published one.
	Revisions []string `json:"revisions,omitempty"`
	Upstream  string   `json:"upstream,omitempty"`
	Ready     string   `json:"ready"`
	Applied   string   `json:"applied,omitempty"`
	Healthy   string   `json:"healthy,omitempty"`
	WaitsFor  string   `json:"waitsFor,omitempty"`
	// Problem is why it is not ready, or not healthy.
	Problem string `json:"problem,omitempty"`
}

func newVariantsCommand(o *Options) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "variants SET",
		Short: "Show how far the variants of a PackageVariantSet are",
		Long: templates.LongDesc(`
			Show, target by target, how far the variants of a PackageVariantSet are: the state of the package, its drafts or what is
			published of it, and what it waits for.`),
		Example: templates.Examples(`
			kubectl starling package variants web

			# With what the clusters say
			kubectl starling package variants web -o wide

			# Propose and publish all drafts of the set
			kubectl starling package propose --set web
			kubectl starling package approve --set web`),
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: o.completeSets,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains(variantFormats, format) {
				return fmt.Errorf("unable to match a printer suitable for the output format %q, allowed formats are: json,yaml,wide", format)
			}
			client, err := o.client()
			if err != nil {
				return err
			}
			return o.variants(cmd.Context(), client, args[0], format)
		},
	}
	cmd.Flags().StringVarP(&format, "output", "o", "", "Output format. One of: (json, yaml, wide).")
	register(cmd, "output", func() []string { return variantFormats[1:] })
	return cmd
}

var variantFormats = []string{"", "json", "yaml", wideOutput}

func (o *Options) completeSets(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return o.completeNames(configv1alpha2.PackageVariantSets, true)(cmd, args, begun)
}

func (o *Options) variants(ctx context.Context, client *Client, name, format string) error {
	p := o.progress("reading the variants of %s", name)
	defer p.stop()
	set, variants, err := client.VariantsOf(ctx, name)
	if err != nil {
		return err
	}
	p.stop()
	said := describeVariants(set, variants)
	if format == "json" || format == "yaml" {
		return o.structured(said, format)
	}
	return said.print(o.Out, format == wideOutput)
}

// describeVariants tells how far a set is, its targets in the order of repositories and packages.
func describeVariants(set *configv1alpha2.PackageVariantSet, variants []configv1alpha1.PackageVariant) *variantsOf {
	said := &variantsOf{Set: set.Name, Namespace: set.Namespace, Status: set.Status, Targets: []variantTarget{}}
	for i := range variants {
		said.Targets = append(said.Targets, describeVariant(&variants[i]))
	}
	slices.SortFunc(said.Targets, func(a, b variantTarget) int {
		return cmp.Or(cmp.Compare(a.Repository, b.Repository), cmp.Compare(a.Package, b.Package), cmp.Compare(a.PackageVariant, b.PackageVariant))
	})
	return said
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
	status := func(kind string) string {
		if c := meta.FindStatusCondition(pv.Status.Conditions, kind); c != nil {
			return string(c.Status)
		}
		return ""
	}
	t.Ready = cmp.Or(status(configv1alpha1.ConditionReady), string(metav1.ConditionUnknown))
	t.Applied, t.Healthy = status(configv1alpha1.PackageVariantConditionApplied), status(configv1alpha1.PackageVariantConditionHealthy)
	for _, kind := range []string{
		configv1alpha1.ConditionReady, configv1alpha1.PackageVariantConditionApplied, configv1alpha1.PackageVariantConditionHealthy,
	} {
		if c := meta.FindStatusCondition(pv.Status.Conditions, kind); c != nil && c.Status == metav1.ConditionFalse {
			t.Problem = c.Reason + ": " + c.Message
			break
		}
	}
	if pv.DeletionTimestamp != nil {
		t.State = "Deleting"
	}
	return t
}

// waits is what stands in the last column: what has to happen, and else what is wrong.
func (t *variantTarget) waits() string { return cmp.Or(t.WaitsFor, t.Problem) }

// print shows a table, and below it what is wrong with targets that have no variant.
func (v *variantsOf) print(w io.Writer, wide bool) error {
	if len(v.Targets) == 0 {
		fmt.Fprintf(w, "PackageVariantSet %s has no variants.\n", v.Set)
	} else if err := printers.NewTablePrinter(printers.PrintOptions{Wide: wide}).PrintObj(v.table(wide), w); err != nil {
		return err
	}
	told := map[string]bool{}
	for i := range v.Targets {
		told["PackageVariant "+v.Targets[i].PackageVariant] = true
	}
	var more []string
	for _, p := range v.Status.Problems {
		if !told[p.Target] {
			more = append(more, p.Target+": "+p.Message)
		}
	}
	for _, kind := range []string{configv1alpha1.ConditionStalled, configv1alpha1.PackageVariantSetConditionHeld} {
		if c := meta.FindStatusCondition(v.Status.Conditions, kind); c != nil && c.Status == metav1.ConditionTrue && len(more) == 0 {
			more = append(more, c.Reason+": "+c.Message)
		}
	}
	if len(more) > 0 {
		fmt.Fprintf(visible{w}, "\n%s\n", strings.Join(more, "\n"))
	}
	if n := v.Status.MoreProblems; n > 0 && len(more) > 0 {
		fmt.Fprintf(w, "… and up to %d more\n", n)
	}
	return nil
}

func (v *variantsOf) table(wide bool) *metav1.Table {
	t := &metav1.Table{}
	columns := []string{"Repository", "Package", "State", "Revision", "Ready", "Waits For"}
	if wide {
		columns = slices.Insert(columns, 5, "Applied", "Healthy", "Upstream", "PackageVariant")
	}
	for _, name := range columns {
		t.ColumnDefinitions = append(t.ColumnDefinitions, metav1.TableColumnDefinition{Name: name, Type: "string"})
	}
	none := func(text string) string { return cmp.Or(text, "<none>") }
	for i := range v.Targets {
		of := &v.Targets[i]
		cells := []any{of.Repository, of.Package, none(of.State), none(strings.Join(of.Revisions, ",")), of.Ready}
		if wide {
			cells = append(cells, none(of.Applied), none(of.Healthy), none(of.Upstream), of.PackageVariant)
		}
		t.Rows = append(t.Rows, metav1.TableRow{Cells: append(cells, of.waits())})
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
	var all []configv1alpha1.PackageVariant
	options := metav1.ListOptions{LabelSelector: configv1alpha1.LabelPackageVariantSet + "=" + string(set.UID), Limit: pageSize}
	for {
		list, err := c.dynamic.Resource(configv1alpha1.PackageVariants).Namespace(c.Namespace).List(ctx, options)
		if err != nil {
			return nil, nil, err
		}
		for i := range list.Items {
			pv, err := typed[configv1alpha1.PackageVariant](&list.Items[i])
			if err != nil {
				return nil, nil, err
			}
			all = append(all, *pv)
		}
		if options.Continue = list.GetContinue(); options.Continue == "" {
			return set, all, nil
		}
	}
}

// ofSet returns the names of the revisions that the variants of a set keep: drafts, those that are proposed, and those that are published.
func (c *Client) ofSet(ctx context.Context, name string) ([]string, error) {
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
