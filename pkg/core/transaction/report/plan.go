package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	pkgv1alpha1 "github.com/starlinghq/starling/api/pkg/v1alpha1"
	pkgv1beta1 "github.com/starlinghq/starling/api/pkg/v1beta1"
	"github.com/starlinghq/starling/pkg/core/resolve"
	"github.com/starlinghq/starling/pkg/core/text"
	"github.com/starlinghq/starling/pkg/core/transaction"
)

// Outcome is how a Transaction would end.
type Outcome string

// Outcomes.
const (
	// NoChanges means that what is requested is installed.
	NoChanges Outcome = "NoChanges"
	// Changes means that it would be installed.
	Changes Outcome = "Changes"
	// Refused means that the Transaction would fail.
	Refused Outcome = "Refused"
)

// Plan is what a Transaction would change, or why it would fail.
type Plan struct {
	// Change says what was requested: "Install Provider/s3".
	Change  string  `json:"change"`
	Outcome Outcome `json:"outcome"`
	// Problem is set if the outcome is Refused.
	Problem  *Problem                    `json:"problem,omitempty"`
	Changes  []pkgv1alpha1.PackageChange `json:"changes,omitempty"`
	Warnings []string                    `json:"warnings,omitempty"`
	// Packages are all that would be installed afterwards.
	Packages []pkgv1beta1.LockPackage `json:"packages,omitempty"`
}

// NewPlan returns what an ended Transaction, which only validated, has found.
func NewPlan(tx *pkgv1alpha1.Transaction) Plan {
	plan := Plan{Change: changeOf(tx), Outcome: NoChanges, Changes: tx.Status.Changes, Warnings: tx.Status.Warnings, Packages: tx.Status.ProposedLockPackages}
	switch {
	case !transaction.Succeeded(tx):
		plan.Outcome, plan.Changes, plan.Packages = Refused, nil, nil
		plan.Problem = problemOf(&Facts{Transaction: tx})
		plan.Problem.Next = slices.DeleteFunc(plan.Problem.Next, func(step string) bool { return step == again(tx) })
	case len(plan.Changes) > 0:
		plan.Outcome = Changes
	}
	return plan
}

// changeOf says what a Transaction does: "Install Provider/s3 (registry/org/s3:v1.0.0)".
func changeOf(tx *pkgv1alpha1.Transaction) string {
	switch spec := &tx.Spec; {
	case spec.Install != nil:
		return "Install " + snapshot(&spec.Install.Package)
	case spec.Replace != nil:
		return "Replace " + spec.Replace.Source + " with " + snapshot(&spec.Replace.Package)
	case spec.Delete != nil:
		return "Delete " + spec.Delete.Source
	}
	return string(tx.Spec.Change)
}

func snapshot(s *pkgv1alpha1.PackageSnapshot) string {
	name := s.Kind + "/" + s.Metadata.Name
	if image := imageOf(s); image != "" {
		name += " (" + image + ")"
	}
	return name
}

// imageOf returns spec.package, "" if it cannot be read.
func imageOf(s *pkgv1alpha1.PackageSnapshot) string {
	var spec struct {
		Package string `json:"package"`
	}
	if json.Unmarshal(s.Spec.Raw, &spec) != nil {
		return ""
	}
	return spec.Package
}

// Draw writes the plan. If wide, it has the digests, and the packages that do not change.
func (p *Plan) Draw(w io.Writer, wide bool) {
	switch p.Outcome {
	case Refused:
		fmt.Fprintf(w, "%s: would fail.\n", p.Change)
		p.Problem.draw(w)
	case NoChanges:
		fmt.Fprintf(w, "%s: nothing would change.\n", p.Change)
	case Changes:
		fmt.Fprintf(w, "%s: would change %s.\n\n", p.Change, text.Count(len(p.Changes), "package"))
		for i := range p.Changes {
			drawChange(w, &p.Changes[i], wide)
		}
	}
	if len(p.Warnings) > 0 {
		fmt.Fprintln(w, "\nWarnings:")
		for _, warning := range p.Warnings {
			fmt.Fprintln(w, "  - "+warning)
		}
	}
	if wide && len(p.Packages) > 0 {
		fmt.Fprintln(w, "\nInstalled afterwards:")
		for i := range p.Packages {
			fmt.Fprintf(w, "  %s %s\n", p.Packages[i].Source, p.Packages[i].Version)
		}
	}
}

func drawChange(w io.Writer, c *pkgv1alpha1.PackageChange, wide bool) {
	from, to := short(c.From, wide), short(c.To, wide)
	switch {
	case c.To == "":
		fmt.Fprintf(w, "- %s %s\n", c.Source, from)
	case c.From == "":
		fmt.Fprintf(w, "+ %s %s\n", c.Source, to)
	case from == to && !wide && c.From != c.To:
		fmt.Fprintf(w, "~ %s %s: the tag has moved from %s to %s\n", c.Source, from, shortDigest(c.From), shortDigest(c.To))
	case from == to:
		fmt.Fprintf(w, "~ %s %s\n", c.Source, to)
	default:
		fmt.Fprintf(w, "~ %s %s -> %s\n", c.Source, from, to)
	}
	for _, part := range []struct {
		mark    string
		objects []string
	}{{"+", c.Created}, {"~", c.Updated}, {"-", c.Deleted}} {
		for _, object := range part.objects {
			fmt.Fprintf(w, "    %s %s\n", part.mark, object)
		}
	}
}

// short returns the tag of a version, or the beginning of its digest. If wide, it returns all.
func short(version string, wide bool) string {
	if wide {
		return version
	}
	return cmp.Or(resolve.ParseVersion(version).Tag, shortDigest(version))
}

func shortDigest(version string) string {
	const length = len("sha256:") + 12
	digest := resolve.ParseVersion(version).Digest
	return digest[:min(len(digest), length)]
}

// Problem is what keeps a Transaction from going on, and what to do next.
type Problem struct {
	// Step is the step that was not done.
	Step    string `json:"step"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Chain are the requirements that lead to a conflict, from what users want down.
	Chain []string `json:"chain,omitempty"`
	// Hint is what the solver proposes.
	Hint string `json:"hint,omitempty"`
	// Next are things to do. Lines that begin with "kubectl" are commands.
	Next []string `json:"next,omitempty"`
}

func (p *Problem) draw(w io.Writer) {
	fmt.Fprintf(w, "\n%s: %s\n", p.Reason, strings.TrimSuffix(p.Message, "."))
	for _, step := range p.Chain {
		fmt.Fprintln(w, "  "+step)
	}
	if p.Hint != "" {
		fmt.Fprintln(w, p.Hint+".")
	}
	text.WriteNext(w, p.Next)
}
