package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	pkgv1 "github.com/starlinghq/starling/api/pkg/v1"
	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	pkgv1beta1 "github.com/starlinghq/starling/api/pkg/v1beta1"
	"github.com/starlinghq/starling/pkg/core/resolve"
	"github.com/starlinghq/starling/pkg/core/text"
	"github.com/starlinghq/starling/pkg/core/transaction"
	"github.com/starlinghq/starling/pkg/core/xpkg"
)

// Object is a package object, with its kind. A package of any kind is a Provider here.
type Object struct {
	Kind    string
	Package *pkgv1.Provider
	// Transactions are those of the package.
	Transactions []*pkgv1alpha1.Transaction
	// Revisions are those of the package.
	Revisions []*pkgv1.ProviderRevision
}

func (o *Object) ref() string { return o.Kind + "/" + o.Package.Name }

// Tree is which packages are installed, and which requires which.
type Tree struct {
	// Packages are those that are installed, sorted by source.
	Packages []Node `json:"packages"`
	// Pending are packages whose last change is not installed, sorted.
	Pending []Change `json:"pending,omitempty"`
}

// Node is a package that is installed.
type Node struct {
	// Package is Kind/name of its object, "" if there is none.
	Package string `json:"package,omitempty"`
	// Source is its repository, Version what the Lock has, and Revision the active revision.
	Source   string `json:"source"`
	Version  string `json:"version"`
	Revision string `json:"revision"`
	// Requested is true if a user created the object. Otherwise it is a dependency.
	Requested bool `json:"requested"`
	// Required is true if a user requested it, or a package that requires it, directly or
	// indirectly.
	Required bool `json:"required"`
	// Requires and RequiredBy are sorted by source.
	Requires   []Requirement `json:"requires,omitempty"`
	RequiredBy []Requirement `json:"requiredBy,omitempty"`
}

// Requirement is one package that requires another one.
type Requirement struct {
	// Source is the repository of the other package, and Package its object, if there is one.
	Source     string `json:"source"`
	Package    string `json:"package,omitempty"`
	Constraint string `json:"constraint"`
	// Installed is the version that is installed, "" if none is.
	Installed string `json:"installed,omitempty"`
	// Met is true if that version suits.
	Met bool `json:"met"`
}

// Change is a package whose last change is not installed.
type Change struct {
	Package string `json:"package"`
	// Image is what the object names, and Installed the version that is installed, "" if none is.
	Image     string `json:"image"`
	Installed string `json:"installed,omitempty"`
	// Transaction is its last one, and Reason the reason of its condition Ready.
	Transaction string `json:"transaction,omitempty"`
	Reason      string `json:"reason,omitempty"`
}

// NewTree returns what is installed. lock may be nil.
func NewTree(lock *pkgv1beta1.Lock, objects []Object) Tree {
	tree := Tree{Packages: []Node{}}
	var locked []resolve.Package
	if lock != nil {
		locked = resolve.FromLock(lock.Packages)
	}
	owners := map[string]*Object{} // by revision
	for i := range objects {
		o := &objects[i]
		for _, r := range o.Revisions {
			owners[r.Name] = o
		}
	}
	bySource := map[string]*resolve.Package{}
	name := func(source string) string {
		if p := bySource[source]; p != nil && owners[p.Name] != nil {
			return owners[p.Name].ref()
		}
		return ""
	}
	var wanted []string
	for i := range locked {
		p := &locked[i]
		bySource[p.Source] = p
		if o := owners[p.Name]; o != nil && !managed(o.Package) {
			wanted = append(wanted, p.Source)
		}
	}
	needed := resolve.Reachable(locked, wanted...)
	for _, source := range slices.Sorted(maps.Keys(bySource)) {
		p := bySource[source]
		node := Node{
			Package: name(source), Source: source, Version: p.Version.String(), Revision: p.Name,
			Requested: slices.Contains(wanted, source), Required: needed[source],
		}
		for _, d := range p.Dependencies {
			r := Requirement{Source: d.Source, Package: name(d.Source), Constraint: cmp.Or(d.Constraint, "*")}
			if to := bySource[d.Source]; to != nil {
				r.Installed = to.Version.String()
				met, err := resolve.Fits(r.Constraint, to.Version)
				r.Met = met && err == nil
			}
			node.Requires = append(node.Requires, r)
		}
		slices.SortStableFunc(node.Requires, compareRequirements)
		tree.Packages = append(tree.Packages, node)
	}
	for i := range tree.Packages {
		from := &tree.Packages[i]
		for _, r := range from.Requires {
			if to := tree.find(r.Source); to != nil {
				to.RequiredBy = append(to.RequiredBy, Requirement{
					Source: from.Source, Package: from.Package, Constraint: r.Constraint, Installed: from.Version, Met: r.Met,
				})
			}
		}
	}
	for i := range objects {
		if change := pending(&objects[i], bySource); change != nil {
			tree.Pending = append(tree.Pending, *change)
		}
	}
	slices.SortFunc(tree.Pending, func(a, b Change) int { return cmp.Compare(a.Package, b.Package) })
	return tree
}

func compareRequirements(a, b Requirement) int { return cmp.Compare(a.Source, b.Source) }

// managed reports whether Transactions created the object, for a dependency.
func managed(p *pkgv1.Provider) bool {
	_, found := p.Labels[pkgv1.LabelTransaction]
	return found
}

// pending returns the change of a package that is not installed, nil if there is none.
func pending(o *Object, installed map[string]*resolve.Package) *Change {
	c := &Change{Package: o.ref(), Image: o.Package.Spec.Package}
	for source, p := range installed {
		if slices.ContainsFunc(o.Revisions, func(r *pkgv1.ProviderRevision) bool { return r.Name == p.Name }) {
			c.Installed = p.Version.String()
			image, err := xpkg.ParseReference(c.Image)
			same := err == nil && image.Source == source && (image.Tag == "" || image.Tag == p.Version.Tag) &&
				(image.Digest == "" || image.Digest == p.Version.Digest)
			if (same || managed(o.Package)) && o.Package.DeletionTimestamp == nil {
				return nil
			}
		}
	}
	if last := transaction.Last(o.Transactions); last != nil {
		c.Transaction = last.Name
		if ready := meta.FindStatusCondition(last.Status.Conditions, pkgv1alpha1.TransactionConditionReady); ready != nil {
			c.Reason = ready.Reason
		}
	}
	return c
}

func (t *Tree) find(source string) *Node {
	for i := range t.Packages {
		if t.Packages[i].Source == source {
			return &t.Packages[i]
		}
	}
	return nil
}

// Find returns the package that an object, or a repository, has installed, nil if there is none.
func (t *Tree) Find(name string) *Node {
	for i := range t.Packages {
		if n := &t.Packages[i]; n.Package != "" && n.Package == name || n.Source == name {
			return n
		}
	}
	return nil
}

// Of returns the tree of one package: what it requires, directly or indirectly.
func (t *Tree) Of(n *Node) Tree {
	of := Tree{Packages: []Node{}}
	reached := map[string]bool{}
	for todo := []*Node{n}; len(todo) > 0; todo = todo[1:] {
		at := todo[0]
		if reached[at.Source] {
			continue
		}
		reached[at.Source] = true
		for _, r := range at.Requires {
			if to := t.find(r.Source); to != nil {
				todo = append(todo, to)
			}
		}
	}
	for i := range t.Packages {
		if reached[t.Packages[i].Source] {
			of.Packages = append(of.Packages, t.Packages[i])
		}
	}
	for _, c := range t.Pending {
		if slices.ContainsFunc(of.Packages, func(n Node) bool { return n.Package == c.Package }) {
			of.Pending = append(of.Pending, c)
		}
	}
	return of
}

// Draw writes the tree. The packages that users requested come first, then those that nothing
// requires.
func (t *Tree) Draw(w io.Writer) {
	d := drawing{Tree: t, w: w, shown: map[string]bool{}}
	var roots, unused []*Node
	for i := range t.Packages {
		switch n := &t.Packages[i]; {
		case n.Requested:
			roots = append(roots, n)
		case !n.Required && len(n.RequiredBy) == 0:
			unused = append(unused, n)
		}
	}
	if len(t.Packages) == 0 {
		fmt.Fprintln(w, "No packages are installed.")
	}
	d.all(roots)
	if len(unused) > 0 {
		fmt.Fprintln(w, heading(len(roots) > 0, "Nothing requires these. Delete them if you do not need them:"))
		d.all(unused)
	}
	// In a cycle each package requires another.
	for i := range t.Packages {
		if n := &t.Packages[i]; !d.shown[n.Source] {
			d.all([]*Node{n})
		}
	}
	t.drawPending(w)
}

func heading(after bool, text string) string {
	if after {
		return "\n" + text
	}
	return text
}

// DrawNode writes the tree of one package, and what requires it.
func (t *Tree) DrawNode(w io.Writer, n *Node) {
	d := drawing{Tree: t, w: w, shown: map[string]bool{}}
	d.all([]*Node{n})
	switch {
	case len(n.RequiredBy) > 0:
		fmt.Fprintln(w, "\nRequired by:")
		for _, r := range n.RequiredBy {
			fmt.Fprintf(w, "  %s %s requires %s%s\n", cmp.Or(r.Package, r.Source), short(r.Installed, false), r.Constraint, notMet(r))
		}
	case !n.Required:
		fmt.Fprintln(w, "\nNothing requires it.")
	}
	of := t.Of(n)
	of.drawPending(w)
}

func (t *Tree) drawPending(w io.Writer) {
	if len(t.Pending) == 0 {
		return
	}
	fmt.Fprintln(w, heading(true, "Not installed yet:"))
	for _, c := range t.Pending {
		line := "  " + c.Package + " " + c.Image
		if c.Installed != "" {
			line += " (installed: " + short(c.Installed, false) + ")"
		}
		if c.Transaction != "" {
			line += ", transaction " + c.Transaction
		}
		if c.Reason != "" {
			line += ": " + c.Reason
		}
		fmt.Fprintln(w, line)
	}
}

type drawing struct {
	*Tree
	w io.Writer
	// shown are the sources whose requirements are drawn already.
	shown map[string]bool
}

func (d *drawing) all(roots []*Node) {
	for _, n := range roots {
		fmt.Fprintf(d.w, "%s %s  %s\n", cmp.Or(n.Package, n.Source), short(n.Version, false), n.Source)
		d.below(n, "")
	}
}

func (d *drawing) below(n *Node, prefix string) {
	d.shown[n.Source] = true
	for i, r := range n.Requires {
		branch, under := text.Branch(i == len(n.Requires)-1)
		to := d.find(r.Source)
		line := cmp.Or(r.Package, r.Source)
		switch {
		case to == nil:
			line += fmt.Sprintf(" (required: %s, not installed)", r.Constraint)
		default:
			line += fmt.Sprintf(" %s (required: %s%s)", short(to.Version, false), r.Constraint, notMet(r))
		}
		again := to != nil && d.shown[r.Source] && len(to.Requires) > 0
		if again {
			line += ", see above"
		}
		fmt.Fprintln(d.w, strings.TrimRight(prefix+branch+line, " "))
		if to != nil && !again {
			d.below(to, prefix+under)
		}
	}
}

func notMet(r Requirement) string {
	if r.Met {
		return ""
	}
	return ", not met"
}
