package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/kubectl/pkg/util/templates"
	"k8s.io/utils/clock"
	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"

	"github.com/starlinghq/starling/pkg/core/foresight"
	"github.com/starlinghq/starling/pkg/core/inventory"
	"github.com/starlinghq/starling/pkg/core/text"
	read "github.com/starlinghq/starling/pkg/foresight"
	"github.com/starlinghq/starling/pkg/plugin"
)

const wide = "wide"

// row is what is known of one cluster.
type row struct {
	*foresight.Cluster
	// State says in one word how the cluster is.
	State string `json:"state"`
	// Links are the steps to a cluster that reports.
	Links []foresight.Link `json:"links"`
	// Counts are nil if they could not be read.
	Counts *counts `json:"counts,omitempty"`
}

// NewListCommand returns the command `clusters`.
func NewListCommand(flags *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams, clock clock.PassiveClock) *cobra.Command {
	o := newOptions(flags, streams)
	output := &plugin.FormatFlag{Allowed: []string{"json", "name", wide, "yaml"}}
	selector := ""
	cmd := &cobra.Command{
		Use:   "clusters [NAME …]",
		Short: "Show the clusters of ITSes, and what is delivered to them",
		Long: templates.LongDesc(`
			Show the clusters of all ITSes: whether they are accepted, have joined and respond, when their agents were last heard of,
			and how many of the objects that are delivered to them are applied and healthy.

			STATE is Ready, or the first thing that is not as it should be: NotAccepted, Leaving, NameTaken, Drained, NotJoined,
			NoHeartbeat, NotAvailable, Starting (OCM has not checked the status add-on yet), NoStatus. Healthy are applied objects that report no problem, and those that have no status.
			What you may not read is shown as unknown.`),
		Example: templates.Examples(`
			# All clusters
			kubectl starling clusters

			# Those with a label, with ITS and labels
			kubectl starling clusters -l site=edge -o wide

			# Names of clusters, to accept them all
			kubectl starling clusters -o json | jq -r '.[] | select(.accepted | not) | .name'`),
		ValidArgsFunction: o.completeClusters,
		RunE: func(c *cobra.Command, args []string) error {
			if err := output.Check(); err != nil {
				return err
			}
			return o.show(c.Context(), args, selector, output.Value, clock)
		},
	}
	cmd.Flags().StringVarP(&selector, "selector", "l", "", "Labels of clusters: KEY=VALUE, for example.")
	output.AddTo(cmd)
	o.its.AddTo(cmd)
	return cmd
}

func (o *options) show(ctx context.Context, names []string, selector, format string, clock clock.PassiveClock) error {
	progress := o.progress("reading clusters")
	defer progress.Stop()
	hubs, err := o.hubs()
	if err != nil {
		return err
	}
	members, err := list(ctx, hubs, selector)
	if err != nil {
		return err
	}
	if len(names) > 0 {
		if members, err = named(members, names); err != nil {
			return err
		}
	}
	if format == "name" {
		progress.Stop()
		for _, m := range members {
			fmt.Fprintln(o.Out, "managedcluster.cluster.open-cluster-management.io/"+m.cluster.Name)
		}
		return nil
	}
	progress.Set("reading what is delivered to %s", text.Count(len(members), "cluster"))
	rows, notes, err := readRows(ctx, hubs, members, clock.Now())
	if err != nil {
		return err
	}
	progress.Stop()
	if format == "json" || format == "yaml" {
		return plugin.Structured(o.Out, rows, format)
	}
	return printRows(o.Out, o.ErrOut, rows, notes, format == wide, len(hubs) > 1, clock.Now())
}

// readRows reads what is known of the clusters. notes say what could not be read.
func readRows(ctx context.Context, hubs []*read.ITS, members []*member, now time.Time) (rows []row, notes []string, err error) {
	const few = 20 // mailboxes are read one by one up to this number
	rows = make([]row, 0, len(members))
	for _, h := range hubs {
		of := slices.DeleteFunc(slices.Clone(members), func(m *member) bool { return m.ITS != h })
		if len(of) == 0 {
			continue
		}
		leases, addOns := h.Leases(ctx, ""), h.StatusAddOns(ctx, "")
		counter, unread := newCounter(), ""
		mailboxes := []string{""}
		if len(of) <= few {
			mailboxes = nil
			for _, m := range of {
				mailboxes = append(mailboxes, m.cluster.Name)
			}
		}
		for _, mailbox := range mailboxes {
			if unread, err = counter.count(ctx, h, mailbox); err != nil {
				return nil, nil, err
			}
			if unread != "" {
				notes = append(notes, fmt.Sprintf("what is delivered to clusters of ITS %s is unknown: %s", h.Name, unread))
				break
			}
		}
		for _, m := range of {
			lease := foresight.Fact[*coordinationv1.Lease]{Value: leases.Value[m.cluster.Name], Unread: leases.Unread}
			addOn := foresight.Fact[*addonv1alpha1.ManagedClusterAddOn]{Value: addOns.Value[m.cluster.Name], Unread: addOns.Unread}
			r := row{Cluster: read.ClusterOf(h.Name, m.cluster, lease, addOn)}
			r.Links = r.Judge(now)
			r.State = stateOf(r.Cluster, r.Links)
			if unread == "" {
				r.Counts = counter.of(m.cluster.Name)
			}
			rows = append(rows, r)
		}
	}
	slices.SortStableFunc(rows, func(a, b row) int { return strings.Compare(a.Name, b.Name) })
	return rows, notes, nil
}

// stateOf returns the first thing of a cluster that is not as it should be, in a word.
func stateOf(c *foresight.Cluster, links []foresight.Link) string {
	first := foresight.First(links)
	if first == nil {
		return "Ready"
	}
	switch first.Name {
	case foresight.LinkAccepted:
		switch {
		case c.Leaving:
			return "Leaving"
		case !c.Accepted:
			return "NotAccepted"
		case c.NameTaken != "":
			return "NameTaken"
		}
		return "Drained"
	case foresight.LinkJoined:
		return "NotJoined"
	case foresight.LinkAgent:
		if first.State == foresight.Unknown {
			return "Unknown"
		}
		return "NoHeartbeat"
	case foresight.LinkAvailable:
		return "NotAvailable"
	}
	if first.State == foresight.Waiting {
		return starting
	}
	return "NoStatus"
}

// printRows prints the table, and what could not be read.
func printRows(out, errOut io.Writer, rows []row, notes []string, wide, withITS bool, now time.Time) error {
	if len(rows) == 0 {
		fmt.Fprintln(errOut, "No clusters found.")
		return nil
	}
	columns := []string{"Name", "State", "Accepted", "Joined", "Available", "Heartbeat", "Add-On", "Applied", "Healthy", "Version", "Age"}
	if wide {
		columns = append(columns, "Labels")
	}
	if wide || withITS {
		columns = slices.Insert(columns, 1, "ITS")
	}
	t := plugin.NewTable(columns...)
	for i := range rows {
		cells := rows[i].cells(now)
		if wide {
			cells = append(cells, metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: rows[i].Labels}))
		}
		if wide || withITS {
			cells = slices.Insert(cells, 1, any(rows[i].ITS))
		}
		t.Rows = append(t.Rows, metav1.TableRow{Cells: cells})
	}
	if err := printers.NewTablePrinter(printers.PrintOptions{Wide: wide}).PrintObj(t, out); err != nil {
		return err
	}
	for _, note := range notes {
		fmt.Fprintln(plugin.EscapingWriter{Writer: errOut}, note)
	}
	return nil
}

const (
	none    = "<none>"
	unknown = "<unknown>"
	// starting is of a status add-on that OCM has not checked yet: it does so once a minute.
	starting = "Starting"
)

func (r *row) cells(now time.Time) []any {
	is := func(yes bool) string {
		if yes {
			return "True"
		}
		return "False"
	}
	status := func(s metav1.ConditionStatus) string {
		if s == "" {
			return none
		}
		return string(s)
	}
	accepted := is(r.Accepted)
	if r.Accepted && inventory.Drained(r.Labels) {
		accepted = "Drained"
	}
	heartbeat := none
	switch lease := r.Lease.Value; {
	case r.Lease.Unread != "":
		heartbeat = unknown
	case lease != nil:
		heartbeat = duration.HumanDuration(max(now.Sub(lease.Renewed), 0)) + " ago"
	}
	addOn := none
	switch of := r.AddOn.Value; {
	case r.AddOn.Unread != "":
		addOn = unknown
	case of != nil && of.NotPermitted != "":
		addOn = "Denied"
	case of != nil && of.Available.Status == "":
		addOn = starting
	case of != nil:
		addOn = status(of.Available.Status)
	}
	applied, healthy := unknown, unknown
	if n := r.Counts; n != nil {
		applied, healthy = fmt.Sprintf("%d/%d", n.Applied, n.Objects), fmt.Sprintf("%d/%d", n.Healthy, n.Objects)
	}
	version := r.Kubernetes
	if version == "" {
		version = none
	}
	return []any{
		r.Name, r.State, accepted, is(r.Joined), status(r.Available.Status), heartbeat, addOn, applied, healthy, version,
		duration.HumanDuration(max(now.Sub(r.Created), 0)),
	}
}
