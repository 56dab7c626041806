package packagecli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/kubectl/pkg/util/templates"

	configv1alpha2 "github.com/starlinghq/starling/api/config/v1alpha2"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/kptpkg/lifecycle"
)

// atOnce is how many revisions are moved along at once.
const atOnce = 8

// move moves revisions along their way.
type move struct {
	*Options
	output *output

	verb, done string
	// from are where a revision may be, and to where it goes from each.
	from     map[porchv1alpha1.PackageRevisionLifecycle]porchv1alpha1.PackageRevisionLifecycle
	approval bool

	selector string
	set      string
	wait     bool
	timeout  time.Duration
}

func (m *move) command(use, short, long, examples string) *cobra.Command {
	var points []porchv1alpha1.PackageRevisionLifecycle
	for point := range m.from {
		points = append(points, point)
	}
	slices.Sort(points)
	cmd := &cobra.Command{
		Use: use + " (REVISION... | -l SELECTOR | --set SET)", Short: short, Long: templates.LongDesc(long), Example: templates.Examples(examples),
		ValidArgsFunction: m.completeRevisions(anyNumber, points...),
		RunE: func(cmd *cobra.Command, args []string) error {
			return m.run(cmd.Context(), points, args)
		},
	}
	m.output = newOutput(cmd, m.done)
	cmd.Flags().StringVarP(&m.selector, "selector", "l", "", "Label selector, such as team=shop: all revisions it selects that can be "+m.done+".")
	cmd.Flags().StringVar(&m.set, "set", "", "Name of a PackageVariantSet: all revisions of its variants that can be "+m.done+". With -l, those of them that it selects.")
	registerFunc(cmd, "set", m.completeNames(configv1alpha2.PackageVariantSets, true))
	return cmd
}

// withWait adds flags for what gates stand before.
func (m *move) withWait(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().BoolVar(&m.wait, "wait", false, "Wait until the readiness gates are met.")
	cmd.Flags().DurationVar(&m.timeout, "timeout", defaultWait, "How long to wait for the gates of each revision.")
	return cmd
}

func (m *move) run(ctx context.Context, points []porchv1alpha1.PackageRevisionLifecycle, names []string) error {
	if selected := m.selector != "" || m.set != ""; (len(names) == 0) != selected {
		return fmt.Errorf("name revisions to be %s, or select them with -l or --set", m.done)
	}
	client, err := m.client()
	if err != nil {
		return err
	}
	if err := m.output.check(client); err != nil {
		return err
	}
	if len(names) == 0 {
		if names, err = m.selected(ctx, client, points); err != nil {
			return err
		}
		if len(names) == 0 {
			fmt.Fprintf(m.ErrOut, "No revisions to be %s found in %s namespace.\n", m.done, client.Namespace)
			return nil
		}
	}
	return m.all(ctx, client, names)
}

// selected returns the revisions that the flags select and that can be moved.
func (m *move) selected(ctx context.Context, client *Client, points []porchv1alpha1.PackageRevisionLifecycle) ([]string, error) {
	var ofSet []string
	if m.set != "" {
		var err error
		if ofSet, err = client.ofSet(ctx, m.set); err != nil {
			return nil, err
		}
	}
	var names []string
	for _, point := range points {
		found, err := client.List(ctx, m.selector, "spec.lifecycle="+string(point))
		if err != nil {
			return nil, err
		}
		for i := range found {
			if _, is := slices.BinarySearch(ofSet, found[i].Name); is || m.set == "" {
				names = append(names, found[i].Name)
			}
		}
	}
	return names, nil
}

// all moves several at once. Each is told as soon as it and all before it are done; an error of one stops none of the others.
func (m *move) all(ctx context.Context, client *Client, names []string) error {
	p := m.progress("%s %d of %d revisions", m.done, 0, len(names))
	defer p.stop()
	type outcome struct {
		revision *porchv1alpha1.PackageRevision
		err      error
		ended    bool
	}
	var (
		mu       sync.Mutex
		outcomes = make([]outcome, len(names))
		told     int
		moved    []porchv1alpha1.PackageRevision
		failed   []error
	)
	tell := func() {
		for ; told < len(names) && outcomes[told].ended; told++ {
			switch o := outcomes[told]; {
			case o.err != nil && len(names) == 1:
				failed = append(failed, o.err)
			case o.err != nil:
				failed = append(failed, o.err)
				p.above(func() { fmt.Fprintln(m.ErrOut, message(o.err)) })
			case m.output.each():
				p.above(func() {
					if err := m.output.print(m.Out, *o.revision); err != nil {
						failed = append(failed, err)
					}
				})
			default:
				moved = append(moved, *o.revision)
			}
		}
		p.set("%s %d of %d revisions", m.done, told, len(names))
	}
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i, name := range names {
		group.Go(func() error {
			revision, err := m.one(ctx, client, name)
			if err != nil {
				err = fmt.Errorf("%s %s: %w", m.verb, name, err)
			}
			mu.Lock()
			defer mu.Unlock()
			outcomes[i] = outcome{revision, err, true}
			tell()
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	p.stop()
	if len(moved) > 0 {
		if err := m.output.print(m.Out, moved...); err != nil {
			return err
		}
	}
	if len(names) > 1 && len(failed) > 0 {
		return errSaid
	}
	return errors.Join(failed...)
}

// one moves a revision.
func (m *move) one(ctx context.Context, client *Client, name string) (*porchv1alpha1.PackageRevision, error) {
	if m.wait {
		if err := m.awaitGates(ctx, client, name); err != nil {
			return nil, err
		}
	}
	var from porchv1alpha1.PackageRevisionLifecycle
	return client.SetLifecycle(ctx, name, m.approval, func(now *porchv1alpha1.PackageRevision) (porchv1alpha1.PackageRevisionLifecycle, error) {
		at := now.Spec.Lifecycle
		if from != "" && at != from {
			return "", fmt.Errorf("somebody else has made it %s", at)
		}
		from = at
		to, known := m.from[at]
		if !known {
			to = m.fallback()
		}
		if at == to {
			return "", fmt.Errorf("it is %s already", to)
		}
		return to, nil
	})
}

// fallback is where a revision is sent that is where it should not be: the server says why it cannot.
func (m *move) fallback() porchv1alpha1.PackageRevisionLifecycle {
	if to, ok := m.from[porchv1alpha1.LifecycleProposed]; ok {
		return to
	}
	for _, to := range m.from {
		return to
	}
	return ""
}

func (m *move) awaitGates(ctx context.Context, client *Client, name string) error {
	var unmet []string
	met := func(r *porchv1alpha1.PackageRevision) bool {
		unmet = lifecycle.Unmet(r.Spec.ReadinessGates, r.Status.Conditions)
		return len(unmet) == 0
	}
	// What is waited for is known before the wait begins, or one that ends before the first answer could not say.
	r, err := client.Get(ctx, name)
	if err != nil || met(r) {
		return err
	}
	waitCtx, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	if err = client.Await(waitCtx, name, met); err != nil && waitCtx.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("after %s, %s", m.timeout, lifecycle.NotReady(unmet))
	}
	return err
}

func newProposeCommand(o *Options) *cobra.Command {
	m := &move{Options: o, verb: "propose", done: "proposed", from: map[porchv1alpha1.PackageRevisionLifecycle]porchv1alpha1.PackageRevisionLifecycle{
		porchv1alpha1.LifecycleDraft: porchv1alpha1.LifecycleProposed,
	}}
	return m.withWait(m.command("propose", "Propose drafts to be published",
		`Propose drafts to be published. The server refuses those whose readiness gates are not met, and says which.`, `
			kubectl starling package propose edge.web.v1

			# All drafts of a team, as soon as they are ready
			kubectl starling package propose -l team=shop --wait --timeout 5m`))
}

func newApproveCommand(o *Options) *cobra.Command {
	m := &move{Options: o, verb: "approve", done: "approved", approval: true, from: map[porchv1alpha1.PackageRevisionLifecycle]porchv1alpha1.PackageRevisionLifecycle{
		porchv1alpha1.LifecycleProposed: porchv1alpha1.LifecyclePublished,
	}}
	return m.withWait(m.command("approve", "Publish what was proposed",
		`Publish revisions that were proposed. Whoever does that needs the right to update packagerevisions/approval.`, `
			kubectl starling package approve edge.web.v1

			# Several at once
			kubectl starling package approve edge.web.v1 edge.db.v1
			kubectl starling package approve -l team=shop

			# All that is proposed of the variants of a PackageVariantSet
			kubectl starling package approve --set web`))
}

func newRejectCommand(o *Options) *cobra.Command {
	m := &move{Options: o, verb: "reject", done: "rejected", approval: true, from: map[porchv1alpha1.PackageRevisionLifecycle]porchv1alpha1.PackageRevisionLifecycle{
		porchv1alpha1.LifecycleProposed:         porchv1alpha1.LifecycleDraft,
		porchv1alpha1.LifecycleDeletionProposed: porchv1alpha1.LifecyclePublished,
	}}
	return m.command("reject", "Send back what was proposed, or keep what was to be deleted",
		`Make drafts again of revisions that were proposed, and published ones of those that were proposed for deletion. Whoever does that
		needs the right to update packagerevisions/approval.`, `
			kubectl starling package reject edge.web.v1`)
}

func newProposeDeleteCommand(o *Options) *cobra.Command {
	m := &move{Options: o, verb: "propose deletion of", done: "proposed for deletion", from: map[porchv1alpha1.PackageRevisionLifecycle]porchv1alpha1.PackageRevisionLifecycle{
		porchv1alpha1.LifecyclePublished: porchv1alpha1.LifecycleDeletionProposed,
	}}
	return m.command("propose-delete", "Propose that published revisions be deleted",
		`Propose that published revisions be deleted. After that, kubectl delete packagerevision deletes them, and "reject" keeps them.`, `
			kubectl starling package propose-delete edge.web.v1
			kubectl delete packagerevision edge.web.v1`)
}
