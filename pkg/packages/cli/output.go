package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/lifecycle"
	"github.com/starlinghq/starling/pkg/plugin"
)

// revisionKind is the kind as kubectl prints it.
const revisionKind = "packagerevision.porch.kpt.dev"

// output prints revisions after a change.
type output struct {
	flags  *genericclioptions.PrintFlags
	dryRun *dryRun
}

// dryRun is the flag --dry-run.
type dryRun struct{ mode string }

// Values of --dry-run. There is no client-side dry run, because only the server can check and
// render.
const (
	dryRunNone   = "none"
	dryRunServer = "server"
)

func newDryRun(cmd *cobra.Command) *dryRun {
	d := &dryRun{}
	cmd.Flags().StringVar(&d.mode, "dry-run", dryRunNone, `Must be "none" or "server". If server, submit a server-side request that checks and renders without storing anything.`)
	plugin.RegisterValues(cmd, "dry-run", func() []string { return []string{dryRunNone, dryRunServer} })
	return d
}

// apply sets the mode of the client.
func (d *dryRun) apply(client *Client) error {
	if d.mode != dryRunNone && d.mode != dryRunServer {
		return fmt.Errorf("invalid dry-run value %q; must be %q or %q", d.mode, dryRunNone, dryRunServer)
	}
	client.DryRun = d.mode == dryRunServer
	return nil
}

// describe returns what was done, with a note about a dry run.
func (d *dryRun) describe(what string) string {
	if d.mode == dryRunServer {
		return what + " (server dry run)"
	}
	return what
}

const wideOutput = "wide"

func newOutput(cmd *cobra.Command, done string) *output {
	scheme := runtime.NewScheme()
	if err := porchv1alpha1.AddToScheme(scheme); err != nil {
		panic("cli: " + err.Error()) // our own types are always valid
	}
	out := &output{flags: genericclioptions.NewPrintFlags(done).WithTypeSetter(scheme), dryRun: newDryRun(cmd)}
	out.flags.AddFlags(cmd)
	out.flags.OutputFlagSpecified = func() bool { return cmd.Flags().Changed("output") }
	flag := cmd.Flags().Lookup("output")
	flag.Usage = strings.Replace(flag.Usage, "One of: (", "One of: ("+wideOutput+", ", 1)
	plugin.RegisterValues(cmd, "output", func() []string { return append(out.flags.AllowedFormats(), wideOutput) })
	return out
}

// check checks the output format before anything is changed.
func (o *output) check(client *Client) error {
	if err := o.dryRun.apply(client); err != nil {
		return err
	}
	o.flags.NamePrintFlags.Operation = o.dryRun.describe(o.flags.NamePrintFlags.Operation)
	if *o.flags.OutputFormat == wideOutput {
		return nil
	}
	_, err := o.flags.ToPrinter()
	if unknown, ok := errors.AsType[genericclioptions.NoCompatiblePrinterError](err); ok {
		unknown.AllowedFormats = append(unknown.AllowedFormats, wideOutput) // kubectl's printers do not include it
		return unknown
	}
	return err
}

// printsEach reports whether each revision is printed as soon as it is changed.
func (o *output) printsEach() bool {
	return *o.flags.OutputFormat == "" || *o.flags.OutputFormat == "name"
}

// print prints one revision as an object, and several as a list.
func (o *output) print(w io.Writer, revisions ...porchv1alpha1.PackageRevision) error {
	if *o.flags.OutputFormat == wideOutput {
		return printers.NewTablePrinter(printers.PrintOptions{Wide: true}).PrintObj(table(revisions), w)
	}
	printer, err := o.flags.ToPrinter()
	if err != nil {
		return err
	}
	if o.printsEach() || len(revisions) == 1 {
		for i := range revisions {
			if err := printer.PrintObj(&revisions[i], w); err != nil {
				return err
			}
		}
		return nil
	}
	for i := range revisions {
		revisions[i].SetGroupVersionKind(porchv1alpha1.GroupVersion.WithKind("PackageRevision"))
	}
	return printer.PrintObj(&porchv1alpha1.PackageRevisionList{Items: revisions}, w)
}

// table returns the server's columns of revisions, and their unmet gates.
func table(revisions []porchv1alpha1.PackageRevision) *metav1.Table {
	t := plugin.NewTable("Name", "Package", "WorkspaceName", "Revision", "Latest", "Lifecycle", "Repository", "Unmet Gates")
	for i := range revisions {
		r := &revisions[i]
		unmet := cmp.Or(strings.Join(lifecycle.Unmet(&r.Spec, &r.Status), ", "), "<none>")
		latest := r.Labels[porchv1alpha1.LatestRevisionLabel] == "true"
		t.Rows = append(t.Rows, metav1.TableRow{Cells: []any{
			r.Name, r.Spec.PackageName, r.Spec.WorkspaceName, int64(r.Spec.Revision), latest, string(r.Spec.Lifecycle), r.Spec.RepositoryName, unmet,
		}})
	}
	return t
}

// printRendering prints the results of the functions, as kpt does.
func printRendering(w io.Writer, status *porchv1alpha1.RenderStatus) {
	for _, r := range status.Result.Items {
		if r == nil {
			continue
		}
		outcome := "PASS"
		if r.ExitCode != 0 {
			outcome = "FAIL"
		}
		fmt.Fprintf(w, "[%s] %q\n", outcome, cmp.Or(r.Image, r.ExecPath))
		if len(r.Results) > 0 {
			fmt.Fprintln(w, "  Results:")
		}
		for i := range r.Results {
			fmt.Fprintln(w, "    "+resultLine(&r.Results[i]))
		}
		if r.Stderr != "" {
			fmt.Fprintf(w, "  Stderr:\n%s", indented(r.Stderr))
		}
		if r.ExitCode != 0 {
			fmt.Fprintf(w, "  Exit code: %d\n", r.ExitCode)
		}
	}
}

func resultLine(r *porchv1alpha1.ResultItem) string {
	line := "[" + cmp.Or(r.Severity, "info") + "]"
	if ref := r.ResourceRef; ref != nil && ref.Name != "" {
		name := ref.Name
		if ref.Namespace != "" {
			name = ref.Namespace + "/" + name
		}
		line += " " + strings.TrimPrefix(ref.APIVersion+"/"+ref.Kind, "/") + " " + name
	}
	if r.Field != nil && r.Field.Path != "" {
		line += " " + r.Field.Path
	}
	if r.File != nil && r.File.Path != "" {
		line += " in " + r.File.Path
	}
	return line + ": " + strings.ReplaceAll(strings.TrimSpace(r.Message), "\n", "\n      ")
}

func indented(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		out.WriteString("    " + strings.TrimRight(line, "\n") + "\n")
	}
	return out.String()
}

// renderError returns nil if rendering passed.
func renderError(name string, status *porchv1alpha1.RenderStatus) error {
	if status.Err == "" && status.Result.ExitCode == 0 {
		return nil
	}
	why := status.Err
	if why == "" {
		var failed []string
		for _, r := range status.Result.Items {
			if r != nil && r.ExitCode != 0 {
				failed = append(failed, cmp.Or(r.Image, r.ExecPath))
			}
		}
		why = cmp.Or(strings.Join(failed, ", "), "the pipeline") + " failed"
	}
	return fmt.Errorf("render revision %q: %s", name, why)
}
