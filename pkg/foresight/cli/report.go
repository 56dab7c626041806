package cli

import (
	"fmt"
	"io"
	"slices"

	"github.com/starlinghq/starling/pkg/core/foresight/forecast"
	"github.com/starlinghq/starling/pkg/core/foresight/packages"
	"github.com/starlinghq/starling/pkg/core/text"
	"github.com/starlinghq/starling/pkg/plugin"
)

// Plan is what the command plan prints.
type Plan struct {
	forecast.Forecast `json:",inline"`
	// Approvals are what becomes of the revisions of --approve, one for each package.
	Approvals []forecast.Approval `json:"approvals,omitempty"`
	// Sets are the PackageVariantSets that change, or whose packages do.
	Sets []packages.Set `json:"packageVariantSets,omitempty"`
	// Total counts over all clusters.
	Total Total `json:"total"`
	// Notes are about objects of the change that have no effect on clusters, and what could not be
	// read and does not matter.
	Notes []string `json:"notes,omitempty"`
	// Unknown is what could not be read, if the change can do something else because of that.
	Unknown []string `json:"unknown,omitempty"`

	// connect completes the commands in the text; nil if they need nothing.
	connect func(command string) string
}

// Total counts what changes.
type Total struct {
	Clusters int `json:"clusters"`
	// Created and so on count objects, once for each cluster. Those in conflict are not among the
	// others.
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
	clusters := map[string]bool{}
	for i := range p.Groups {
		g := &p.Groups[i]
		n := len(g.Clusters)
		for _, cluster := range g.Clusters {
			clusters[cluster] = true
		}
		t.Works += n * g.Works
		t.Bytes += n * g.Bytes
		for j := range g.Items {
			item := &g.Items[j]
			switch {
			case item.Conflict: // which of the two contents the cluster has is not known
				t.Conflicts += n
			case item.Verb == forecast.Create:
				t.Created += n
			case item.Verb == forecast.Update:
				t.Updated += n
			case item.Verb == forecast.Delete:
				t.Deleted += n
			default: // the cluster has it afterwards
				t.Kept += n
			}
		}
	}
	t.Clusters = len(clusters)
	t.Seconds = (t.Works + worksPerSecond - 1) / worksPerSecond
}

// changes reports whether anything changes, or would if it were not held back.
func (p *Plan) changes() bool {
	return len(p.Policies)+len(p.Groups)+len(p.Sets) > 0 ||
		slices.ContainsFunc(p.Approvals, func(a forecast.Approval) bool { return a.Changes() })
}

// isUnknown reports whether something else may change than the plan says.
func (p *Plan) isUnknown() bool {
	return len(p.Unknown) > 0 || slices.ContainsFunc(p.Sets, func(s packages.Set) bool { return s.Unknown != "" })
}

// has returns the first reason for --fail-on, "" if there is none.
func (p *Plan) has(what string) string {
	switch what {
	case failOnRemoval:
		for i := range p.Policies {
			if p.Policies[i].Blocked != nil {
				return "the removal block holds back a change of policy " + p.Policies[i].Name
			}
		}
		for i := range p.Sets {
			if p.Sets[i].Blocked != "" {
				return "the removal block holds back a change of PackageVariantSet " + p.Sets[i].Name
			}
			for _, v := range p.Sets[i].Variants {
				if v.Verb == forecast.Delete {
					return "PackageVariant " + v.Name + " would be deleted"
				}
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
		for i := range p.Sets {
			if p.Sets[i].Mistake != "" {
				return "PackageVariantSet " + p.Sets[i].Name + ": " + p.Sets[i].Mistake
			}
		}
		for i := range p.Approvals {
			for _, r := range p.Approvals[i].Revisions {
				if r.Refused != "" {
					return "the approval of " + r.Name + " would be refused: " + r.Refused
				}
			}
		}
		for i := range p.Groups {
			for j := range p.Groups[i].Items {
				if item := &p.Groups[i].Items[j]; item.Error {
					return item.Ref.String() + ": " + item.Why
				}
			}
		}
	}
	return ""
}

func (p *Plan) print(w io.Writer, format string) error {
	if format == "json" || format == "yaml" {
		return plugin.Structured(plugin.EscapingWriter{Writer: w}, p, format)
	}
	w = plugin.Output(w)
	switch format {
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
