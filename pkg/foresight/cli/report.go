package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/starlinghq/starling/pkg/core/foresight/forecast"
	"github.com/starlinghq/starling/pkg/core/text"
	"github.com/starlinghq/starling/pkg/plugin"
)

// Plan is what the command plan prints.
type Plan struct {
	forecast.Forecast `json:",inline"`
	// Total counts over all clusters.
	Total Total `json:"total"`
	// Notes are about objects of the change that have no effect on clusters.
	Notes []string `json:"notes,omitempty"`
	// Unknown is what could not be read.
	Unknown []string `json:"unknown,omitempty"`
}

// Total counts what changes.
type Total struct {
	Clusters int `json:"clusters"`
	// Created and so on count objects, once for each cluster.
	Created   int `json:"created"`
	Updated   int `json:"updated"`
	Deleted   int `json:"deleted"`
	Kept      int `json:"kept"`
	Conflicts int `json:"conflicts"`
	// Works is an estimate of how many works are written, Bytes of what is delivered with them, and
	// Seconds of how long that takes.
	Works   int `json:"works"`
	Bytes   int `json:"bytes"`
	Seconds int `json:"seconds"`
}

// worksPerSecond is how many works a hub with two cores writes in a second (docs/performance.md).
const worksPerSecond = 250

func (p *Plan) total() {
	t := &p.Total
	for i := range p.Groups {
		g := &p.Groups[i]
		n := len(g.Clusters)
		t.Clusters += n
		t.Works += n * g.Works
		t.Bytes += n * g.Bytes
		for j := range g.Items {
			item := &g.Items[j]
			switch item.Verb {
			case forecast.Create:
				t.Created += n
			case forecast.Update:
				t.Updated += n
			case forecast.Delete, forecast.Release:
				t.Deleted += n
			case forecast.Keep:
				t.Kept += n
			}
			if item.Conflict {
				t.Conflicts += n
			}
		}
	}
	t.Seconds = (t.Works + worksPerSecond - 1) / worksPerSecond
}

// changes reports whether anything changes, or would if it were not held back.
func (p *Plan) changes() bool { return len(p.Policies)+len(p.Groups) > 0 }

// has returns the first reason for --fail-on, "" if there is none.
func (p *Plan) has(what string) string {
	switch what {
	case failOnRemoval:
		for i := range p.Policies {
			if p.Policies[i].Blocked != nil {
				return "the removal block holds back a change of policy " + p.Policies[i].Name
			}
		}
		if p.Total.Deleted > 0 {
			return text.Count(p.Total.Deleted, "copy|copies") + " would be removed"
		}
	case failOnConflict:
		if p.Total.Conflicts > 0 {
			return text.Count(p.Total.Conflicts, "copy|copies") + " would be in conflict"
		}
	case failOnError:
		for i := range p.Policies {
			if len(p.Policies[i].Mistakes) > 0 {
				return "policy " + p.Policies[i].Name + " would be invalid"
			}
		}
		for i := range p.Groups {
			for j := range p.Groups[i].Items {
				if item := &p.Groups[i].Items[j]; item.Verb == forecast.Keep {
					return item.Ref.String() + ": " + item.Why
				}
			}
		}
	}
	return ""
}

func (p *Plan) print(w io.Writer, format string) error {
	w = plugin.EscapingWriter{Writer: w}
	switch format {
	case "json", "yaml":
		return plugin.Structured(w, p, format)
	case "name":
		for i := range p.Groups {
			for _, cluster := range p.Groups[i].Clusters {
				for j := range p.Groups[i].Items {
					fmt.Fprintf(w, "%s %s %s\n", cluster, p.Groups[i].Items[j].Verb, p.Groups[i].Items[j].Ref)
				}
			}
		}
		return nil
	case "diff":
		return p.printDiff(w)
	}
	limit := 10
	if format == "wide" {
		limit = 1 << 30
	}
	p.printText(w, limit)
	return nil
}

// signs are how the verbs are shown.
var signs = map[forecast.Verb]string{forecast.Create: "+", forecast.Update: "~", forecast.Delete: "-", forecast.Release: "o", forecast.Keep: "="} //nolint:gochecknoglobals // a constant

func (p *Plan) printText(w io.Writer, limit int) {
	for i := range p.Policies {
		printPolicy(w, &p.Policies[i], limit)
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
	if !p.changes() {
		fmt.Fprintln(w, "Nothing changes in any cluster.")
		return
	}
	fmt.Fprintf(w, "In %s: %d created, %d updated, %d deleted, %d kept as they are. About %s, %s, in about %s.\n", text.Count(t.Clusters, "cluster"),
		t.Created, t.Updated, t.Deleted, t.Kept, text.Count(t.Works, "work"), sizeText(t.Bytes), text.Count(t.Seconds, "second"))
}

func sizeText(n int) string { return resource.NewQuantity(int64(n), resource.BinarySI).String() + "B" }

func printPolicy(w io.Writer, p *forecast.Policy, limit int) {
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
		fmt.Fprintf(w, "  ! blocked: this would remove every object from %d of %s (%s). It would be carried out after: kubectl annotate bindingpolicy %s starling.io/allow-removal=%s\n",
			len(p.Blocked.Clusters), text.Count(p.Blocked.Of, "cluster"), text.List(p.Blocked.Clusters, limit), p.Name, p.Blocked.Token)
	}
	if len(p.Refused) > 0 {
		fmt.Fprintf(w, "  ! matches clusters that get nothing: %s\n", text.List(p.Refused, limit))
	}
}

func printGroup(w io.Writer, g *forecast.Group, limit int) {
	same := ""
	if len(g.Clusters) > 1 {
		same = "each "
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
