package packagecli

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
	"github.com/starlinghq/starling/pkg/core/kptpkg"
	"github.com/starlinghq/starling/pkg/core/kptpkg/diff"
	"github.com/starlinghq/starling/pkg/core/kptpkg/lineage"
)

// What a revision can be compared with beside another one.
const (
	againstBase     = "base"
	againstUpstream = "upstream"
)

// comparison is a command line of diff.
type comparison struct {
	*Options
	against  string
	folder   string
	format   string
	nameOnly bool
}

// Comparison is the answer of diff for programs.
type Comparison struct {
	// Before and After name the versions; Before is "" for nothing.
	Before  string       `json:"before,omitempty"`
	After   string       `json:"after"`
	Changes []diff.Entry `json:"changes"`
}

func newDiffCommand(o *Options) *cobra.Command {
	c := &comparison{Options: o}
	cmd := &cobra.Command{
		Use:   "diff (REVISION | -f DIR)",
		Short: "Show how a revision differs from what it was made from, object by object",
		Long: templates.LongDesc(`
			Show how a revision differs from what it was made from, object by object; or how a folder differs from the draft it was
			pulled from.

			Values of Secrets are not shown, only whether they are equal. The exit code is 0 without a difference, 1 with one, and
			greater than 1 after an error.`),
		Example: templates.Examples(`
			# A draft against what it was copied, cloned or upgraded from
			kubectl starling package diff edge.web.v2

			# Against the newest published revision of the package, against its upstream, against any revision
			kubectl starling package diff edge.web.v2 --against latest
			kubectl starling package diff edge.web.v2 --against upstream
			kubectl starling package diff edge.web.v2 --against catalog.web.v3

			# What push would change
			kubectl starling package diff -f ./web`),
		Args: func(cmd *cobra.Command, args []string) error {
			if err := takes(0, 1)(cmd, args); err != nil {
				return codedError{err, exitDiffFailed}
			}
			return nil
		},
		ValidArgsFunction: o.completeRevisions(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			differs, err := c.run(cmd.Context(), args)
			switch {
			case err != nil:
				return codedError{err, exitDiffFailed}
			case differs:
				return codedError{errSaid, exitDiffers}
			}
			return nil
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return codedError{err, exitDiffFailed} })
	cmd.Flags().StringVar(&c.against, "against", "", "What to compare with: "+againstBase+" (the default; what it was made from), "+lineage.Latest+
		" (the newest published revision of the package), "+againstUpstream+", or the name of a revision.")
	cmd.Flags().StringVarP(&c.folder, "filename", "f", "", "Folder to compare with the draft that it was pulled from.")
	cmd.Flags().StringVarP(&c.format, "output", "o", "", "Output format. One of: (json, yaml).")
	cmd.Flags().BoolVar(&c.nameOnly, "name-only", false, "Show what differs, and not how.")
	register(cmd, "output", func() []string { return []string{"json", "yaml"} })
	registerFunc(cmd, "against", func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		revisions := o.names(cmd.Context(), porchv1alpha1.ResourcePackageRevisions, true, "")
		return offered(append(revisions, againstBase, lineage.Latest, againstUpstream), nil, begun), cobra.ShellCompDirectiveNoFileComp
	})
	if err := cmd.MarkFlagDirname("filename"); err != nil {
		panic("packagecli: " + err.Error())
	}
	return cmd
}

func (c *comparison) run(ctx context.Context, args []string) (differs bool, err error) {
	if c.format != "" && c.format != "json" && c.format != "yaml" {
		return false, unknownFormat(c.format)
	}
	if (len(args) == 1) == (c.folder != "") {
		return false, errors.New("name either a revision or, with -f, a folder")
	}
	p := c.progress("comparing")
	defer p.stop()
	answer := Comparison{}
	var before, after kptpkg.Files
	if c.folder != "" {
		answer.Before, answer.After, before, after, err = c.folderAndDraft(ctx)
	} else {
		answer.Before, answer.After, before, after, err = c.revisionAndBase(ctx, args[0])
	}
	if err != nil {
		return false, err
	}
	answer.Changes = diff.Packages(before, after)
	p.stop()
	return len(answer.Changes) > 0, c.print(c.Out, &answer)
}

// folderAndDraft reads a folder, and what it is compared with: the draft it was pulled from if nothing else is named.
func (c *comparison) folderAndDraft(ctx context.Context) (nameBefore, nameAfter string, before, after kptpkg.Files, err error) {
	dir, err := OpenDir(c.folder)
	if err != nil {
		return "", "", nil, nil, err
	}
	defer dir.Close()
	was, found, err := dir.Metadata()
	if err == nil && !found {
		err = fmt.Errorf("no package was pulled into %s", c.folder)
	}
	if err != nil {
		return "", "", nil, nil, err
	}
	if after, err = dir.Files(); err != nil {
		return "", "", nil, nil, err
	}
	client, err := c.clientOf(was)
	if err != nil {
		return "", "", nil, nil, err
	}
	nameBefore = was.Name
	if c.against != "" {
		if nameBefore, err = c.other(ctx, client, was.Name); err != nil {
			return "", "", nil, nil, err
		}
	}
	before, err = read(ctx, client, nameBefore)
	return nameBefore, c.folder, before, after, err
}

func (c *comparison) revisionAndBase(ctx context.Context, name string) (nameBefore, nameAfter string, before, after kptpkg.Files, err error) {
	client, err := c.client()
	if err != nil {
		return "", "", nil, nil, err
	}
	if nameBefore, err = c.other(ctx, client, name); err != nil {
		return "", "", nil, nil, err
	}
	if before, err = read(ctx, client, nameBefore); err != nil {
		return "", "", nil, nil, err
	}
	after, err = read(ctx, client, name)
	return nameBefore, name, before, after, err
}

// other returns the name of what a revision is compared with, "" for nothing.
func (c *comparison) other(ctx context.Context, client *Client, name string) (string, error) {
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
	family, err := client.Family(ctx, revision)
	if err != nil {
		return "", err
	}
	found, err := find(family, revision)
	if err != nil {
		return "", fmt.Errorf("%w; name what to compare with by --against", err)
	}
	if found == nil {
		return "", nil
	}
	return found.Name, nil
}

// read returns the files of a revision, none of none.
func read(ctx context.Context, client *Client, name string) (kptpkg.Files, error) {
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
		if c.format == "" {
			return printNames(w, answer)
		}
	case c.format == "":
		printDiff(visible{w}, answer)
		return nil
	}
	if answer.Changes == nil {
		answer.Changes = []diff.Entry{}
	}
	return c.structured(answer, c.format)
}

func printNames(w io.Writer, answer *Comparison) error {
	if len(answer.Changes) == 0 {
		return nil
	}
	t := &metav1.Table{}
	for _, name := range []string{"Change", "File", "Object"} {
		t.ColumnDefinitions = append(t.ColumnDefinitions, metav1.TableColumnDefinition{Name: name, Type: "string"})
	}
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

// nowhere is the other side of what was added or removed.
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
