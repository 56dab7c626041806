package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/starlinghq/starling/pkg/core/foresight/forecast"
	"github.com/starlinghq/starling/pkg/core/foresight/packages"
	"github.com/starlinghq/starling/pkg/core/text"
)

// signs are how the verbs are shown.
var signs = map[forecast.Verb]string{forecast.Create: "+", forecast.Update: "~", forecast.Delete: "-", forecast.Release: "o", forecast.Keep: "="} //nolint:gochecknoglobals // a constant

func (p *Plan) printText(w io.Writer, limit int) {
	for i := range p.Policies {
		printPolicy(w, &p.Policies[i], limit, p.connect)
	}
	for i := range p.Approvals {
		printApproval(w, &p.Approvals[i], limit)
	}
	for i := range p.Sets {
		printSet(w, &p.Sets[i], limit)
	}
	for i := range p.Groups {
		if i == limit {
			fmt.Fprintf(w, "%s more; see them with -o wide\n", text.Count(len(p.Groups)-i, "group of clusters|groups of clusters"))
			break
		}
		printGroup(w, &p.Groups[i], limit)
	}
	for _, note := range p.Notes {
		fmt.Fprintln(w, "Note: "+note)
	}
	for _, unknown := range p.Unknown {
		fmt.Fprintln(w, "Unknown: "+unknown)
	}
	t := &p.Total
	switch {
	case len(p.Policies)+len(p.Groups) > 0:
	case p.isUnknown():
		fmt.Fprintln(w, "Whether anything changes in any cluster is not known.")
		return
	default:
		fmt.Fprintln(w, "Nothing changes in any cluster.")
		return
	}
	conflicts := ""
	if t.Conflicts > 0 {
		conflicts = fmt.Sprintf(", %d in conflict", t.Conflicts)
	}
	fmt.Fprintf(w, "In %s: %d created, %d updated, %d deleted, %d kept as they are%s. About %s, %s, in about %s.\n", text.Count(t.Clusters, "cluster"),
		t.Created, t.Updated, t.Deleted, t.Kept, conflicts, text.Count(t.Works, "work"), sizeText(t.Bytes), text.Count(t.Seconds, "second"))
}

func sizeText(n int) string { return resource.NewQuantity(int64(n), resource.BinarySI).String() + "B" }

func printPolicy(w io.Writer, p *forecast.Policy, limit int, connect func(string) string) {
	fmt.Fprintf(w, "Policy %s\n", p.Name)
	refs := func(sign string, n int, of func(int) string, what string) {
		if n == 0 {
			return
		}
		names := make([]string, n)
		for i := range names {
			names[i] = of(i)
		}
		fmt.Fprintf(w, "  %s %s: %s\n", sign, text.Count(n, what), text.List(names, limit))
	}
	refs("+", len(p.Gained), func(i int) string { return p.Gained[i] }, "cluster")
	refs("-", len(p.Lost), func(i int) string { return p.Lost[i] }, "cluster")
	refs("+", len(p.ObjectsGained), func(i int) string { return p.ObjectsGained[i].String() }, "object")
	refs("-", len(p.ObjectsLost), func(i int) string { return p.ObjectsLost[i].String() }, "object")
	for _, mistake := range p.Mistakes {
		fmt.Fprintf(w, "  ! invalid, so its Bindings stay as they are: %s\n", mistake)
	}
	if p.Blocked != nil {
		command := fmt.Sprintf("kubectl annotate bindingpolicy %s starling.io/allow-removal=%s", p.Name, p.Blocked.Token)
		if connect != nil {
			command = connect(command)
		}
		fmt.Fprintf(w, "  ! blocked: this would remove every object from %d of %s (%s). It would be carried out after: %s\n",
			len(p.Blocked.Clusters), text.Count(p.Blocked.Of, "cluster"), text.List(p.Blocked.Clusters, limit), command)
	}
	if len(p.Refused) > 0 {
		fmt.Fprintf(w, "  ! matches clusters that get nothing: %s\n", text.List(p.Refused, limit))
	}
}

func printApproval(w io.Writer, a *forecast.Approval, limit int) {
	fmt.Fprintf(w, "Package %s\n", a.Package)
	for _, r := range a.Revisions {
		if r.Refused != "" {
			fmt.Fprintf(w, "  ! the approval of %s is refused: %s\n", r.Name, r.Refused)
		} else {
			fmt.Fprintf(w, "  + %s is published as revision %s\n", r.Name, r.Version)
		}
	}
	switch {
	case a.Why != "":
		fmt.Fprintf(w, "  = what is delivered of it does not change: %s\n", a.Why)
	case a.Before != "":
		fmt.Fprintf(w, "  ~ Binding %s delivers revision %s to cluster %s, instead of revision %s\n", a.Binding, a.After, a.Cluster, a.Before)
	case a.Binding != "":
		fmt.Fprintf(w, "  + Binding %s delivers revision %s to cluster %s\n", a.Binding, a.After, a.Cluster)
	}
	for i, problem := range a.Problems {
		if i == limit {
			fmt.Fprintf(w, "  %s more; see them with -o wide\n", text.Count(len(a.Problems)-i, "problem"))
			break
		}
		fmt.Fprintf(w, "  ! %s\n", problem)
	}
}

func printSet(w io.Writer, s *packages.Set, limit int) {
	if s.Name == "" {
		fmt.Fprintf(w, "PackageVariants of namespace %s that belong to no set\n", s.Namespace)
	} else {
		fmt.Fprintf(w, "PackageVariantSet %s/%s\n", s.Namespace, s.Name)
	}
	if n := len(s.TargetsGained); n > 0 {
		fmt.Fprintf(w, "  + %s: %s\n", text.Count(n, "target"), text.List(s.TargetsGained, limit))
	}
	if n := len(s.TargetsLost); n > 0 {
		fmt.Fprintf(w, "  - %s: %s\n", text.Count(n, "target"), text.List(s.TargetsLost, limit))
	}
	for i := range s.Variants {
		if i == limit {
			fmt.Fprintf(w, "  %s more; see them with -o wide\n", text.Count(len(s.Variants)-i, "PackageVariant"))
			break
		}
		v := &s.Variants[i]
		sign := signs[v.Verb]
		if v.Verb == "" {
			sign = "="
		}
		fmt.Fprintf(w, "  %s PackageVariant %s of package %s", sign, v.Name, v.Package)
		if len(v.Steps) > 0 {
			fmt.Fprint(w, ": "+text.List(v.Steps, limit))
		}
		fmt.Fprintln(w)
		if v.Problem != "" {
			fmt.Fprintf(w, "      ! %s\n", v.Problem)
		}
	}
	if n := len(s.Drafts); n > 0 {
		fmt.Fprintf(w, "  %s: %s\n", text.Count(n, "new draft"), text.List(s.Drafts, limit))
	}
	if s.Unknown != "" {
		fmt.Fprintf(w, "  ! unknown: %s\n", s.Unknown)
	}
	for _, problem := range []string{s.Mistake, s.Blocked} {
		if problem != "" {
			fmt.Fprintf(w, "  ! %s\n", problem)
		}
	}
}

func printGroup(w io.Writer, g *forecast.Group, limit int) {
	same := ""
	if len(g.Clusters) > 1 {
		same = "each "
	}
	if g.Package != "" {
		same = "package " + g.Package + ", "
	}
	fmt.Fprintf(w, "%s: %s (%s%s, %s)\n", text.Plural(len(g.Clusters), "Cluster", "Clusters"), text.List(g.Clusters, limit), same, text.Count(g.Works, "work"), sizeText(g.Bytes))
	for i := range g.Items {
		if i == limit {
			fmt.Fprintf(w, "  %s more; see them with -o wide\n", text.Count(len(g.Items)-i, "object"))
			break
		}
		item := &g.Items[i]
		fmt.Fprintf(w, "  %s %s", signs[item.Verb], item.Ref)
		if item.Verb == forecast.Release {
			fmt.Fprint(w, ": no longer delivered; the cluster keeps it")
		}
		if item.Why != "" {
			fmt.Fprint(w, ": "+item.Why)
		}
		fmt.Fprintln(w)
		for j, field := range item.Fields {
			if j == limit {
				fmt.Fprintf(w, "      %s more; see them with -o wide\n", text.Count(len(item.Fields)-j, "field"))
				break
			}
			fmt.Fprintf(w, "      %s: %s -> %s\n", field.Path, short(field.Before, limit), short(field.After, limit))
		}
	}
	for _, warning := range slices.Concat(g.Warnings, g.Unavailable) {
		fmt.Fprintf(w, "  ! %s\n", warning)
	}
}

// short returns a value on one line.
func short(value any, limit int) string {
	if value == nil {
		return "none"
	}
	if s, is := value.(string); is {
		return clip(s, limit)
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return clip(string(raw), limit)
}

// maxValue bounds a value in the short output, in bytes.
const maxValue = 100

func clip(value string, limit int) string {
	value = text.OneLine(value)
	if limit <= maxValue {
		value = text.Clip(value, maxValue)
	}
	return value
}

// title returns the head of the diff of an item.
func title(g *forecast.Group, item *forecast.Item) string {
	return item.Ref.String() + " in " + strings.Join(g.Clusters, ", ")
}
