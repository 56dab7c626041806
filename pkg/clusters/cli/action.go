package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/starlinghq/starling/pkg/client"
	"github.com/starlinghq/starling/pkg/core/text"
	"github.com/starlinghq/starling/pkg/plugin"
)

const (
	// exitTimeout is the exit code if a command waited too long, as that of timeout(1).
	exitTimeout = 124
	// pollInterval is how often a command that waits reads again.
	pollInterval = time.Second
	// fieldManager is our name in managedFields.
	fieldManager = "kubectl-starling"
)

// action is a command that changes clusters. Each is planned, shown, confirmed, done, and waited
// for.
type action struct {
	*options
	verb verb

	selector  string
	yes, wait bool
	timeout   time.Duration
	// force and agent are flags of some verbs.
	force bool
	agent string
	// unsure is why it is not known whether something was done, by its/cluster.
	unsure map[string]string
}

// verb is what an action does to one cluster.
type verb struct {
	name, title string
	// plan returns what the action would do, nil if there is nothing to do.
	plan func(ctx context.Context, a *action, m *member, l *load) (*plan, error)
	// do does it.
	do func(ctx context.Context, a *action, m *member, p *plan) error
	// pending returns what is missing until it is done, "" if it is; nil if there is nothing to
	// wait for.
	pending func(ctx context.Context, a *action, m *member, wds *client.Client) (string, error)
	// done returns what is the case after it was done.
	done func(a *action, m *member, p *plan) string
	// after does what has to wait until nothing is pending any more, and waits for it until the
	// deadline; nil for nothing.
	after func(ctx, deadline context.Context, a *action, m *member) error
}

// plan is what an action would do to one cluster.
type plan struct {
	// lines are shown to the user.
	lines []string
	// requests are the names of CertificateSigningRequests.
	requests []string
	// load is what concerned the cluster.
	load *load
}

func (a *action) command(use, long, example string) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: a.verb.title, Long: long, Example: example,
		ValidArgsFunction: a.completeClusters,
		RunE:              func(c *cobra.Command, args []string) error { return a.run(c.Context(), args) },
	}
	f := cmd.Flags()
	f.StringVarP(&a.selector, "selector", "l", "", "Labels of clusters, instead of names: KEY=VALUE, for example.")
	f.BoolVarP(&a.yes, "yes", "y", false, "Do not ask.")
	if a.verb.pending != nil {
		if a.verb.after == nil {
			f.BoolVar(&a.wait, "wait", true, "Wait until it is done.")
		}
		f.DurationVar(&a.timeout, "timeout", a.timeout, "How long to wait. Exit status 124 if that is not enough.")
	}
	return cmd
}

func (a *action) run(ctx context.Context, names []string) error {
	progress := a.progress("reading clusters")
	defer progress.Stop()
	targets, err := a.targets(ctx, names, a.selector)
	if err != nil {
		return err
	}
	if len(targets) == 0 {
		fmt.Fprintln(a.Out, "No clusters have these labels.")
		return nil
	}
	wds := a.wds()
	var todo []*member
	plans := map[*member]*plan{}
	for _, m := range targets {
		progress.Set("reading what concerns %s", m)
		l, err := m.loadOf(ctx, wds)
		if err != nil {
			return err
		}
		p, err := a.verb.plan(ctx, a, m, l)
		if err != nil {
			return fmt.Errorf("%s cluster %s: %w", a.verb.name, m, err)
		}
		p.load = l
		progress.WriteAbove(func() { a.show(m, p) })
		if len(p.lines) > 0 {
			todo, plans[m] = append(todo, m), p
		}
	}
	progress.Stop()
	if len(todo) == 0 {
		return nil
	}
	if err := a.confirm(len(todo)); err != nil {
		return err
	}
	for _, m := range todo {
		if err := a.verb.do(ctx, a, m, plans[m]); err != nil {
			return fmt.Errorf("%s cluster %s: %w", a.verb.name, m, err)
		}
	}
	return a.finish(ctx, todo, plans, wds)
}

// show prints what would be done to a cluster.
func (a *action) show(m *member, p *plan) {
	out := plugin.EscapingWriter{Writer: a.Out}
	if len(p.lines) == 0 {
		fmt.Fprintf(out, "%s: nothing to do\n", m)
		return
	}
	fmt.Fprintf(out, "%s:\n", m)
	for _, line := range p.lines {
		fmt.Fprintf(out, "  %s\n", line)
	}
}

// errNoAnswer is the end of a command that may not go on.
var errNoAnswer = errors.New("nothing was changed: without a terminal, confirm with --yes")

// confirm asks whether to go on.
func (a *action) confirm(clusters int) error {
	if a.yes {
		return nil
	}
	if !a.asks {
		return errNoAnswer
	}
	fmt.Fprintf(a.ErrOut, "%s? [y/N] ", capitalize(a.verb.name)+" "+text.Count(clusters, "cluster"))
	answer, _ := bufio.NewReader(a.In).ReadString('\n') // an error is no answer
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return errors.New("nothing was changed")
	}
	return nil
}

func capitalize(word string) string { return strings.ToUpper(word[:1]) + word[1:] }

// finish waits until all is done, and prints that of each cluster.
func (a *action) finish(ctx context.Context, todo []*member, plans map[*member]*plan, wds *client.Client) error {
	out := plugin.EscapingWriter{Writer: a.Out}
	waits := a.verb.pending != nil && a.wait
	deadline, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	progress := a.progress("waiting")
	defer progress.Stop()
	var late []string
	for _, m := range todo {
		missing := ""
		if waits {
			var err error
			if missing, err = a.await(ctx, deadline, m, wds, progress); err != nil {
				return err
			}
			if missing == "" && a.verb.after != nil {
				if err := a.verb.after(ctx, deadline, a, m); err != nil {
					return fmt.Errorf("%s cluster %s: %w", a.verb.name, m, err)
				}
			}
		}
		if missing != "" {
			late = append(late, fmt.Sprintf("%s: %s", m, missing))
			continue
		}
		progress.WriteAbove(func() { fmt.Fprintf(out, "%s %s\n", m, a.verb.done(a, m, plans[m])) })
	}
	progress.Stop()
	if len(late) > 0 {
		return plugin.CodedError{Code: exitTimeout, Err: fmt.Errorf("not done within %s, and goes on:\n  %s", a.timeout, strings.Join(late, "\n  "))}
	}
	return nil
}

// await blocks until nothing is pending, or the time is over: then it returns what is. The deadline
// ends no request: that would be an error of the request.
func (a *action) await(ctx, deadline context.Context, m *member, wds *client.Client, progress *plugin.Progress) (missing string, err error) {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		missing, err = a.verb.pending(ctx, a, m, wds)
		if err != nil {
			return "", fmt.Errorf("wait for cluster %s: %w", m, err)
		}
		if missing == "" {
			return "", nil
		}
		progress.Set("%s: %s", m, missing)
		select {
		case <-deadline.Done():
			return missing, ctx.Err()
		case <-ticker.C:
		}
	}
}
