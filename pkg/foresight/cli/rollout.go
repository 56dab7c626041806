package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/resource"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/util/templates"

	"github.com/starlinghq/starling/pkg/core/foresight/rollout"
	"github.com/starlinghq/starling/pkg/core/text"
	"github.com/starlinghq/starling/pkg/foresight"
	"github.com/starlinghq/starling/pkg/plugin"
)

const (
	// exitTimeout is the exit code after a timeout, as that of timeout(1).
	exitTimeout = 124
	// Facts are read again after a pause that grows with the time that reading takes.
	shortestPause, longestPause = 500 * time.Millisecond, 10 * time.Second
	// shareOfPause is how much longer the pause is than reading.
	shareOfPause = 3
)

// waiter are the options of `rollout status`.
type waiter struct {
	*options

	files   resource.FilenameOptions
	goal    string
	timeout time.Duration
	output  *plugin.FormatFlag
}

// NewRolloutCommand returns the command `rollout`. The flags connect to the WDS.
func NewRolloutCommand(flags *genericclioptions.ConfigFlags, streams genericiooptions.IOStreams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rollout",
		Short: "Wait until an edit has arrived in the clusters",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newStatusCommand(newOptions(flags, streams)))
	return cmd
}

func newStatusCommand(o *options) *cobra.Command {
	const timeout = 10 * time.Minute
	w := &waiter{options: o, output: &plugin.FormatFlag{Allowed: []string{"json", "yaml"}}}
	cmd := &cobra.Command{
		Use:   "status (KIND/NAME | policy/NAME)... | -f FILE | -k DIR",
		Short: "Wait until objects as they are now have arrived in the clusters",
		Long: templates.LongDesc(`
			Wait until objects, or all that policies select, have arrived in their clusters as they are now in the WDS. Content is compared,
			not conditions, so that an answer is never about an earlier edit. What a policy takes off clusters is waited for until
			the clusters have reported that it is removed.

			With -f and -k, the objects must be applied before.

			The exit code is 0 if everything has arrived; 1 after an error, if a cluster refused an object, or if something does not go on
			until somebody acts; and 124 after the timeout.`),
		Example: templates.Examples(`
			# Deliver a change, and wait until it is healthy in all clusters
			kubectl apply -f web.yaml
			kubectl starling rollout status -f web.yaml

			# Wait until all that a policy selects is applied
			kubectl starling rollout status policy/shop --for=applied --timeout=5m

			# Print how far it is as JSON
			kubectl starling rollout status deploy/web -n shop -o json`),
		ValidArgsFunction: w.complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			goal, err := w.check(args)
			if err != nil {
				return err
			}
			return w.run(cmd.Context(), goal, args)
		},
	}
	cmdutil.AddFilenameOptionFlags(cmd, &w.files, "that contains the objects to wait for")
	cmd.Flags().StringVar(&w.goal, "for", string(rollout.Healthy), "What to wait for: delivered (the mailboxes have the content), applied, or healthy.")
	cmd.Flags().DurationVar(&w.timeout, "timeout", timeout, "How long to wait. 0 waits without an end.")
	w.output.AddTo(cmd)
	o.itses.AddTo(cmd)
	plugin.RegisterValues(cmd, "for", func() []string {
		var names []string
		for _, stage := range rollout.Stages() {
			names = append(names, string(stage))
		}
		return names
	})
	return cmd
}

func (w *waiter) complete(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	return w.completeSubject(cmd.Context(), begun, "policy")
}

func (w *waiter) check(args []string) (rollout.Stage, error) {
	fromFiles := len(w.files.Filenames) > 0 || w.files.Kustomize != ""
	switch {
	case len(args) == 0 && !fromFiles:
		return rollout.None, errors.New("name what to wait for: KIND/NAME, policy/NAME, -f or -k")
	case len(args) > 0 && fromFiles:
		return rollout.None, errors.New("names cannot be combined with -f and -k")
	case w.timeout < 0:
		return rollout.None, fmt.Errorf("invalid --timeout %s: must not be negative", w.timeout)
	}
	goal, err := rollout.ParseStage(w.goal)
	if err != nil {
		return rollout.None, fmt.Errorf("--for: %w", err)
	}
	return goal, w.output.Check()
}

func (w *waiter) run(ctx context.Context, goal rollout.Stage, args []string) error {
	query, notes, err := w.query(args)
	if err != nil {
		return err
	}
	errOut := plugin.EscapingWriter{Writer: w.ErrOut}
	for _, note := range notes {
		fmt.Fprintln(errOut, "Note: "+note)
	}
	reader, err := w.factReader()
	if err != nil {
		return err
	}
	if w.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, w.timeout)
		defer cancel()
	}
	progress := plugin.StartProgressLines(w.ErrOut, w.terminal, "Reading what is in the clusters")
	defer progress.Stop()
	status, err := w.wait(ctx, reader, query, rollout.NewTracker(goal), progress)
	progress.Stop()
	if err != nil {
		return err
	}
	return w.finish(status)
}

// wait reads the facts repeatedly until the result is known, or the time is up: then it is Waiting.
// It returns nil if the time was up before the first look.
func (w *waiter) wait(
	ctx context.Context, reader *foresight.Reader, query foresight.RolloutQuery, tracker *rollout.Tracker, progress *plugin.Progress,
) (*rollout.Status, error) {
	var last *rollout.Status
	lost := time.Time{}
	for {
		began := w.clock.Now()
		facts := reader.Rollout(ctx, query, tracker.Done)
		err := reader.Err()
		switch {
		case ctx.Err() != nil: // what was read is not complete
		case err == nil:
			if last == nil {
				w.unknown(facts.Notes())
			}
			lost = time.Time{}
			last = tracker.Look(began, facts)
			if last.Result != rollout.Waiting {
				return last, nil
			}
			progress.Set("%s", last.Line())
		case last == nil:
			return nil, err
		case lost.IsZero():
			lost = began
			progress.Set("the WDS does not answer: %v", err)
		case began.Sub(lost) > rollout.Patience:
			return nil, err
		}
		pause := min(max(shareOfPause*w.clock.Since(began), shortestPause), longestPause)
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return last, nil
			}
			return nil, ctx.Err()
		case <-time.After(pause):
		}
	}
}

// finish prints the result, and returns the error with its exit code.
func (w *waiter) finish(status *rollout.Status) error {
	if status == nil {
		return plugin.CodedError{Err: fmt.Errorf("timed out after %s, before anything was known", w.timeout), Code: exitTimeout}
	}
	for i := range status.Late {
		status.Late[i].Fix = w.itses.ConnectAll(status.Late[i].Fix)
	}
	if w.output.Value != "" {
		if err := plugin.Structured(w.Out, status, w.output.Value); err != nil {
			return err
		}
	}
	if status.Result == rollout.Arrived {
		if w.output.Value == "" {
			fmt.Fprintf(plugin.EscapingWriter{Writer: w.Out}, "%s %s in %s\n", text.Count(status.Objects, "object is|objects are"), status.Goal, text.Count(status.Clusters, "cluster"))
		}
		return nil
	}
	if w.output.Value == "" {
		status.Write(plugin.EscapingWriter{Writer: w.ErrOut}, status.Result)
	}
	switch status.Result { //nolint:exhaustive // Arrived is above
	case rollout.Waiting:
		return plugin.CodedError{Err: fmt.Errorf("timed out after %s: %s", w.timeout, status.Line()), Code: exitTimeout}
	case rollout.Unknown:
		return fmt.Errorf("it cannot be known whether everything arrives: %s", status.Line())
	}
	return fmt.Errorf("it does not arrive: %s", status.Line())
}

// query returns what the arguments name, or the files.
func (w *waiter) query(args []string) (q foresight.RolloutQuery, notes []string, err error) {
	namespace, err := w.namespace()
	if err != nil {
		return q, nil, err
	}
	for _, arg := range args {
		kind, name, found := strings.Cut(arg, "/")
		switch {
		case !found || kind == "" || name == "":
			return q, nil, fmt.Errorf("invalid argument %q: must be KIND/NAME, such as deployment/web, or policy/NAME", arg)
		case isKind(kind, policyNames, "control.kubestellar.io"):
			q.Policies = append(q.Policies, name)
			continue
		case isKind(kind, transactionNames, "pkg.crossplane.io"):
			return q, nil, fmt.Errorf("%s is of pkg.crossplane.io: run `kubectl starling tx explain %s`", arg, arg)
		}
		mapping, err := w.mapping(kind)
		if err != nil {
			return q, nil, err
		}
		one := foresight.ObjectQuery{Resource: mapping.Resource, Namespace: namespace, Name: name}
		if mapping.Scope.Name() == meta.RESTScopeNameRoot {
			one.Namespace = ""
		}
		q.Objects = append(q.Objects, one)
	}
	if len(args) == 0 {
		return w.fromFiles()
	}
	return q, nil, nil
}
