package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/kubectl/pkg/util/templates"

	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/diff"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/lineage"
	"github.com/starlinghq/starling/pkg/plugin"
)

// Values of --against, besides names of revisions.
const (
	againstBase     = "base"
	againstUpstream = "upstream"
)

// Exit codes of diff: if there is a difference, as of kubectl diff, and after an error.
const (
	exitDiffers    = 1
	exitDiffFailed = 2
)

// comparison is the command diff.
type comparison struct {
	*Options
	against  string
	folder   string
	output   plugin.FormatFlag
	nameOnly bool
}

// Comparison is the output of diff as JSON or YAML.
type Comparison struct {
	// Before and After are the names of the versions; Before is "" if there is none.
	Before  string       `json:"before,omitempty"`
	After   string       `json:"after"`
	Changes []diff.Entry `json:"changes"`
}

func newDiffCommand(o *Options) *cobra.Command {
	c := &comparison{Options: o, output: plugin.FormatFlag{Allowed: []string{"json", "yaml"}}}
	cmd := &cobra.Command{
		Use:   "diff (REVISION | -f DIR)",
		Short: "Show the differences of a revision from its base, object by object",
		Long: templates.LongDesc(`
			Show the differences of a revision from the revision that it was created from, object by object. With -f, show the differences
			of a folder from the draft that it was pulled from.

			Values of Secrets are not shown, only whether they differ. Exit status: 0 if no differences were found, 1 if differences were
			found, greater than 1 after an error.`),
		Example: templates.Examples(`
			# Compare a draft with the revision that it was copied, cloned or upgraded from
			kubectl starling package diff edge.web.v2

			# Compare with the newest published revision of the package, with its upstream, and with another revision
			kubectl starling package diff edge.web.v2 --against latest
			kubectl starling package diff edge.web.v2 --against upstream
			kubectl starling package diff edge.web.v2 --against catalog.web.v3

			# Show the changes that push would make
			kubectl starling package diff -f ./web`),
		Args: func(cmd *cobra.Command, args []string) error {
			if err := plugin.ArgCount(0, 1)(cmd, args); err != nil {
				return plugin.CodedError{Err: err, Code: exitDiffFailed}
			}
			return nil
		},
		ValidArgsFunction: o.completeRevisions(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			differs, err := c.run(cmd.Context(), args)
			switch {
			case err != nil:
				return plugin.CodedError{Err: err, Code: exitDiffFailed}
			case differs:
				return plugin.CodedError{Err: plugin.ErrSilent, Code: exitDiffers}
			}
			return nil
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return plugin.CodedError{Err: err, Code: exitDiffFailed} })
	cmd.Flags().StringVar(&c.against, "against", "", "Revision to compare with: "+againstBase+" (default: the revision that it was created from), "+lineage.Latest+
		" (the newest published revision of the package), "+againstUpstream+", or the name of a revision.")
	cmd.Flags().StringVarP(&c.folder, "filename", "f", "", "Folder to compare with the draft that it was pulled from.")
	cmd.Flags().BoolVar(&c.nameOnly, "name-only", false, "Print only the names of the files and objects that differ.")
	c.output.AddTo(cmd)
	plugin.RegisterFunc(cmd, "against", func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		revisions := o.objectNames(cmd.Context(), porchv1alpha1.ResourcePackageRevisions, true, "")
		return plugin.Matching(append(revisions, againstBase, lineage.Latest, againstUpstream), nil, begun), cobra.ShellCompDirectiveNoFileComp
	})
	if err := cmd.MarkFlagDirname("filename"); err != nil {
		panic("cli: " + err.Error())
	}
	return cmd
}

func (c *comparison) run(ctx context.Context, args []string) (differs bool, err error) {
	if err := c.output.Check(); err != nil {
		return false, err
	}
	if (len(args) == 1) == (c.folder != "") {
		return false, errors.New("specify either a revision or -f DIR")
	}
	p := c.progress("comparing packages")
	defer p.Stop()
	var answer *Comparison
	if c.folder != "" {
		answer, err = c.compareFolder(ctx)
	} else {
		answer, err = c.compareRevision(ctx, args[0])
	}
	if err != nil {
		return false, err
	}
	p.Stop()
	return len(answer.Changes) > 0, c.print(c.Out, answer)
}

// compareFolder compares a folder with a revision, by default the draft that it was pulled from.
func (c *comparison) compareFolder(ctx context.Context) (*Comparison, error) {
	dir, err := OpenDir(c.folder)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	was, found, err := dir.Metadata()
	if err == nil && !found {
		err = fmt.Errorf("read folder %q: no package was pulled into it", c.folder)
	}
	if err != nil {
		return nil, err
	}
	after, err := dir.Files()
	if err != nil {
		return nil, err
	}
	client, err := c.clientOf(was)
	if err != nil {
		return nil, err
	}
	against := was.Name
	if c.against != "" {
		if against, err = c.resolveAgainst(ctx, client, was.Name); err != nil {
			return nil, err
		}
	}
	before, err := readFiles(ctx, client, against)
	return &Comparison{against, c.folder, diff.Packages(before, after)}, err
}

func (c *comparison) compareRevision(ctx context.Context, name string) (*Comparison, error) {
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	against, err := c.resolveAgainst(ctx, client, name)
	if err != nil {
		return nil, err
	}
	before, err := readFiles(ctx, client, against)
	if err != nil {
		return nil, err
	}
	after, err := client.GetResources(ctx, name)
	if err != nil {
		return nil, err
	}
	files := kpt.Files(after.Spec.Resources)
	if !c.nameOnly {
		if err := c.reviews().record(after.UID, files.ContentDigest()); err != nil {
			fmt.Fprintf(c.ErrOut, "Warning: %v\n", err)
		}
	}
	return &Comparison{against, name, diff.Packages(before, files)}, nil
}

// resolveAgainst returns the name of the revision to compare with; "" if there is none.
func (c *comparison) resolveAgainst(ctx context.Context, client *Client, name string) (string, error) {
	var find func(lineage.Revisions, *porchv1alpha1.PackageRevision) (*porchv1alpha1.PackageRevision, error)
	switch c.against {
	case "", againstBase:
		find = lineage.Revisions.Base
	case againstUpstream:
		find = lineage.Revisions.Upstream
	case lineage.Latest:
		find = func(all lineage.Revisions, r *porchv1alpha1.PackageRevision) (*porchv1alpha1.PackageRevision, error) {
			return all.Find(r.Spec.RepositoryName, r.Spec.PackageName, lineage.Latest)
		}
	default:
		return c.against, nil
	}
	revision, err := client.Get(ctx, name)
	if err != nil {
		return "", err
	}
	family, err := client.Ancestry(ctx, revision)
	if err != nil {
		return "", err
	}
	found, err := find(family, revision)
	if err != nil {
		return "", fmt.Errorf("%w. Specify a revision to compare with by --against", err)
	}
	if found == nil {
		return "", nil
	}
	return found.Name, nil
}

// readFiles returns the files of a revision, or none for the name "".
func readFiles(ctx context.Context, client *Client, name string) (kpt.Files, error) {
	if name == "" {
		return nil, nil
	}
	resources, err := client.GetResources(ctx, name)
	if err != nil {
		return nil, err
	}
	return resources.Spec.Resources, nil
}

func (c *comparison) print(w io.Writer, answer *Comparison) error {
	switch {
	case c.nameOnly:
		for i := range answer.Changes {
			answer.Changes[i].Diff = ""
		}
		if c.output.Value == "" {
			return printNames(w, answer)
		}
	case c.output.Value == "":
		printDiff(plugin.EscapingWriter{Writer: w}, answer)
		return nil
	}
	if answer.Changes == nil {
		answer.Changes = []diff.Entry{}
	}
	return plugin.Structured(c.Out, answer, c.output.Value)
}

func printNames(w io.Writer, answer *Comparison) error {
	if len(answer.Changes) == 0 {
		return nil
	}
	t := plugin.NewTable("Change", "File", "Object")
	for i := range answer.Changes {
		e := &answer.Changes[i]
		object := ""
		if e.Object != nil {
			object = e.Object.String()
		}
		t.Rows = append(t.Rows, metav1.TableRow{Cells: []any{string(e.Change), e.File, object}})
	}
	return printers.NewTablePrinter(printers.PrintOptions{}).PrintObj(t, w)
}

// nowhere stands for the missing side of an added or removed object.
const nowhere = "/dev/null"

func printDiff(w io.Writer, answer *Comparison) {
	for i := range answer.Changes {
		e := &answer.Changes[i]
		before, after := answer.Before+":"+e.File, answer.After+":"+e.File
		if e.FromFile != "" {
			before = answer.Before + ":" + e.FromFile
		}
		switch e.Change {
		case diff.Added:
			before = nowhere
		case diff.Removed:
			after = nowhere
		case diff.Changed, diff.Moved:
		}
		title := "file " + e.File
		if e.Object != nil {
			title = e.Object.String()
		}
		fmt.Fprintf(w, "diff %s (%s)\n--- %s\n+++ %s\n", title, strings.ToLower(string(e.Change)), before, after)
		if e.Note != "" {
			fmt.Fprintf(w, "# %s\n", e.Note)
		}
		fmt.Fprint(w, e.Diff)
	}
}
