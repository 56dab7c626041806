package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"github.com/starlinghq/starling/pkg/foresight"
	"github.com/starlinghq/starling/pkg/plugin"
	"github.com/starlinghq/starling/pkg/spaces"
)

// options are common to the commands about clusters of ITSes.
type options struct {
	genericiooptions.IOStreams
	flags *genericclioptions.ConfigFlags
	its   *plugin.ITSFlags
	// terminal is true if ErrOut is a terminal, asks if In is one: then there is somebody to ask.
	terminal, asks bool
}

func newOptions(flags *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *options {
	isTerminal := func(stream any) bool {
		file, isFile := stream.(*os.File)
		return isFile && term.IsTerminal(int(file.Fd()))
	}
	return &options{
		IOStreams: streams, flags: flags, its: plugin.NewITSFlags(flags),
		terminal: isTerminal(streams.ErrOut), asks: isTerminal(streams.In),
	}
}

func (o *options) progress(format string, args ...any) *plugin.Progress {
	return plugin.StartProgressLines(o.ErrOut, o.terminal, format, args...)
}

// hubs returns the ITSes. If it is not known which there are, the current context may be one.
func (o *options) hubs() ([]*foresight.ITS, error) {
	found, err := o.its.Find()
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		current, err := o.its.Current()
		if err != nil {
			return nil, err
		}
		found = []spaces.Connection{current}
	}
	hubs := make([]*foresight.ITS, 0, len(found))
	for _, its := range found {
		h, err := foresight.NewITS(its)
		if err != nil {
			return nil, fmt.Errorf("connect to ITS %q: %w", its.Name, err)
		}
		hubs = append(hubs, h)
	}
	return hubs, nil
}

// member is a cluster of an ITS.
type member struct {
	*foresight.ITS

	cluster *clusterv1.ManagedCluster
}

// String returns its/cluster.
func (m *member) String() string { return m.ITS.Name + "/" + m.cluster.Name }

// list returns the clusters of all ITSes that the selector selects, by name.
func list(ctx context.Context, hubs []*foresight.ITS, selector string) ([]*member, error) {
	var all []*member
	for _, h := range hubs {
		found, err := h.Clusters.List(ctx, metav1.ListOptions{LabelSelector: selector})
		if apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("context %q is no ITS, it serves no ManagedClusters: name the ITS with --its-context", h.Name)
		}
		if err != nil {
			return nil, fmt.Errorf("list the clusters of ITS %q: %w", h.Name, err)
		}
		for i := range found.Items {
			all = append(all, &member{ITS: h, cluster: &found.Items[i]})
		}
	}
	slices.SortStableFunc(all, func(a, b *member) int { return strings.Compare(a.cluster.Name, b.cluster.Name) })
	return all, nil
}

// named returns those of the clusters that have the names, in that order. A name may be ITS/NAME.
func named(all []*member, names []string) ([]*member, error) {
	var found []*member
	for _, name := range names {
		matching := slices.DeleteFunc(slices.Clone(all), func(m *member) bool { return m.cluster.Name != name && m.String() != name })
		switch {
		case len(matching) == 0:
			return nil, fmt.Errorf("no ITS has a cluster %q: it has not asked to join. List them with: kubectl starling clusters", name)
		case len(matching) > 1:
			return nil, fmt.Errorf("several ITSes have a cluster %q: say which, as %s or %s", name, matching[0], matching[1])
		}
		if !slices.Contains(found, matching[0]) {
			found = append(found, matching[0])
		}
	}
	return found, nil
}

// targets returns the clusters that a command is about: those of the names, or of the selector.
func (o *options) targets(ctx context.Context, names []string, selector string) ([]*member, error) {
	if (len(names) > 0) == (selector != "") {
		return nil, errors.New("specify names of clusters, or a selector with -l")
	}
	hubs, err := o.hubs()
	if err != nil {
		return nil, err
	}
	all, err := list(ctx, hubs, selector)
	if err != nil || len(names) == 0 {
		return all, err
	}
	return named(all, names)
}

// completeClusters completes arguments with names of clusters.
func (o *options) completeClusters(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	const timeout = 3 * time.Second
	ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
	defer cancel()
	hubs, err := o.hubs()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	all, err := list(ctx, hubs, "")
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names := make([]string, len(all))
	for i, m := range all {
		names[i] = m.cluster.Name
	}
	return plugin.Matching(slices.Compact(names), args, begun), cobra.ShellCompDirectiveNoFileComp
}
