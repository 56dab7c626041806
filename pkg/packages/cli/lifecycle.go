package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/kubectl/pkg/util/templates"

	configv1alpha2 "github.com/starlinghq/starling/api/config/v1alpha2"
	porchv1alpha1 "github.com/starlinghq/starling/api/porch/v1alpha1"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/lifecycle"
	"github.com/starlinghq/starling/pkg/plugin"
)

// maxParallel is the number of revisions that are changed at the same time.
const maxParallel = 8

type lifecycleSteps = map[porchv1alpha1.PackageRevisionLifecycle]porchv1alpha1.PackageRevisionLifecycle

// transition changes the lifecycle of revisions.
type transition struct {
	*Options
	output *output

	verb, done string
	// steps maps each lifecycle that a revision may have to the next one. If the revision has
	// another lifecycle, otherwise is requested, so that the server refuses it and says why.
	steps     lifecycleSteps
	otherwise porchv1alpha1.PackageRevisionLifecycle
	approval  bool

	selector string
	set      string
	wait     bool
	timeout  time.Duration
	// digest is that of the content to approve; "" for none.
	digest string
}

func (m *transition) command(use, short, long, examples string) *cobra.Command {
	points := slices.Sorted(maps.Keys(m.steps))
	cmd := &cobra.Command{
		Use: use + " (REVISION... | -l SELECTOR | --set SET)", Short: short, Long: templates.LongDesc(long), Example: templates.Examples(examples),
		ValidArgsFunction: m.completeRevisions(math.MaxInt, points...),
		RunE: func(cmd *cobra.Command, args []string) error {
			return m.run(cmd.Context(), points, args)
		},
	}
	m.output = newOutput(cmd, m.done)
	cmd.Flags().StringVarP(&m.selector, "selector", "l", "", "Label selector (for example team=shop). Selects all revisions that can be "+m.done+".")
	cmd.Flags().StringVar(&m.set, "set", "", "Name of a PackageVariantSet. Selects all revisions of its variants that can be "+m.done+". Can be combined with -l.")
	plugin.RegisterFunc(cmd, "set", m.completeNames(configv1alpha2.PackageVariantSets, true))
	return cmd
}

// withWait adds the flags for waiting for readiness gates.
func (m *transition) withWait(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().BoolVar(&m.wait, "wait", false, "Wait until the readiness gates are met.")
	cmd.Flags().DurationVar(&m.timeout, "timeout", time.Minute, "The length of time to wait for the readiness gates of each revision.")
	return cmd
}

func (m *transition) run(ctx context.Context, points []porchv1alpha1.PackageRevisionLifecycle, names []string) error {
	if selected := m.selector != "" || m.set != ""; (len(names) == 0) != selected {
		return fmt.Errorf("specify either the revisions to be %s, or -l or --set", m.done)
	}
	if m.digest != "" && len(names) != 1 {
		return errors.New("--digest needs exactly one revision")
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
			fmt.Fprintf(m.ErrOut, "No revisions that can be %s found in %s namespace.\n", m.done, client.Namespace)
			return nil
		}
	}
	return m.moveAll(ctx, client, names)
}

// selected returns the revisions that the flags select and that can change.
func (m *transition) selected(ctx context.Context, client *Client, points []porchv1alpha1.PackageRevisionLifecycle) ([]string, error) {
	var ofSet []string
	if m.set != "" {
		var err error
		if ofSet, err = client.revisionsOfSet(ctx, m.set); err != nil {
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

// moveAll changes several revisions at the same time. It prints the results in the order of the
// names, each as early as possible. An error of one does not stop the others.
func (m *transition) moveAll(ctx context.Context, client *Client, names []string) error {
	p := m.progress("%s %d of %d revisions", m.done, 0, len(names))
	defer p.Stop()
	type outcome struct {
		revision *porchv1alpha1.PackageRevision
		err      error
		ended    bool
	}
	var (
		mu       sync.Mutex
		outcomes = make([]outcome, len(names))
		printed  int
		moved    []porchv1alpha1.PackageRevision
		failed   []error
	)
	printEnded := func() {
		for ; printed < len(names) && outcomes[printed].ended; printed++ {
			switch o := outcomes[printed]; {
			case o.err != nil:
				failed = append(failed, o.err)
				if len(names) > 1 {
					p.WriteAbove(func() { fmt.Fprintln(m.ErrOut, plugin.Message(o.err)) })
				}
			case m.output.printsEach():
				p.WriteAbove(func() {
					if err := m.output.print(m.Out, *o.revision); err != nil {
						failed = append(failed, err)
					}
				})
			default:
				moved = append(moved, *o.revision)
			}
		}
		p.Set("%s %d of %d revisions", m.done, printed, len(names))
	}
	var group errgroup.Group
	group.SetLimit(maxParallel)
	for i, name := range names {
		group.Go(func() error {
			revision, err := m.moveOne(ctx, client, name)
			if err != nil {
				err = fmt.Errorf("%s revision %q: %w", m.verb, name, err)
			}
			mu.Lock()
			defer mu.Unlock()
			outcomes[i] = outcome{revision, err, true}
			printEnded()
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	p.Stop()
	if len(moved) > 0 {
		if err := m.output.print(m.Out, moved...); err != nil {
			return err
		}
	}
	if len(names) > 1 && len(failed) > 0 {
		return plugin.ErrSilent
	}
	return errors.Join(failed...)
}

// moveOne changes one revision.
func (m *transition) moveOne(ctx context.Context, client *Client, name string) (*porchv1alpha1.PackageRevision, error) {
	if m.wait {
		if err := m.waitForGates(ctx, client, name); err != nil {
			return nil, err
		}
	}
	var from porchv1alpha1.PackageRevisionLifecycle
	moved, err := client.SetLifecycle(ctx, name, m.approval, func(now *porchv1alpha1.PackageRevision) (porchv1alpha1.PackageRevisionLifecycle, error) {
		at := now.Spec.Lifecycle
		if from != "" && at != from {
			return "", fmt.Errorf("another user changed its lifecycle to %s", at)
		}
		from = at
		to, known := m.steps[at]
		if !known {
			to = m.otherwise
		}
		if at == to && to != porchv1alpha1.LifecycleDeletionProposed { // a deletion can be proposed again, as with Porch
			return "", fmt.Errorf("it is already %s", to)
		}
		if m.digest == "" && (to == porchv1alpha1.LifecycleProposed && at == porchv1alpha1.LifecycleDraft || to == porchv1alpha1.LifecyclePublished) {
			if err := m.reviews().checkPushed(name, now.UID); err != nil {
				return "", err
			}
		}
		if to == porchv1alpha1.LifecyclePublished && at == porchv1alpha1.LifecycleProposed {
			seen, err := m.reviews().of(now.UID)
			if err != nil {
				return "", err
			}
			return to, checkReviewed(name, now.Status.ContentDigest, m.digest, seen)
		}
		return to, nil
	})
	if err == nil && m.approval && m.output.dryRun.mode == dryRunNone {
		m.reviews().forget(moved.UID)
	}
	return moved, err
}

func (m *transition) waitForGates(ctx context.Context, client *Client, name string) error {
	var unmet []string
	met := func(r *porchv1alpha1.PackageRevision) bool {
		unmet = lifecycle.Unmet(&r.Spec, &r.Status)
		return len(unmet) == 0
	}
	// The unmet gates are read before the wait, so that a timeout before the first event can report
	// them.
	r, err := client.Get(ctx, name)
	if err != nil || met(r) {
		return err
	}
	waitCtx, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	if err = client.WaitFor(waitCtx, name, met); err != nil && waitCtx.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("timed out after %s: %s", m.timeout, lifecycle.NotReady(unmet))
	}
	return err
}

func newProposeCommand(o *Options) *cobra.Command {
	m := &transition{Options: o, verb: "propose", done: "proposed", otherwise: porchv1alpha1.LifecycleProposed, steps: lifecycleSteps{
		porchv1alpha1.LifecycleDraft: porchv1alpha1.LifecycleProposed,
	}}
	return m.withWait(m.command("propose", "Propose drafts for publication",
		`Propose drafts for publication. The server refuses drafts whose readiness gates are not met, and lists those gates.`, `
			kubectl starling package propose edge.web.v1

			# Propose all drafts of a team as soon as their gates are met
			kubectl starling package propose -l team=shop --wait --timeout 5m`))
}

func newApproveCommand(o *Options) *cobra.Command {
	m := &transition{Options: o, verb: "approve", done: "approved", approval: true, otherwise: porchv1alpha1.LifecyclePublished, steps: lifecycleSteps{
		porchv1alpha1.LifecycleProposed: porchv1alpha1.LifecyclePublished,
	}}
	cmd := m.withWait(m.command("approve", "Publish proposed revisions",
		`Publish proposed revisions. This requires the right to update packagerevisions/approval.

		If you have compared a revision with diff and its content has changed since, the command refuses to publish it.`, `
			kubectl starling package approve edge.web.v1

			# Approve a revision only if its content has this digest, which status.contentDigest shows
			kubectl starling package approve edge.web.v1 --digest sha256:1b2c…

			# Approve several revisions
			kubectl starling package approve edge.web.v1 edge.db.v1
			kubectl starling package approve -l team=shop

			# Approve all proposed revisions of the variants of a PackageVariantSet
			kubectl starling package approve --set web`))
	cmd.Flags().StringVar(&m.digest, "digest", "", "Digest of the content that was reviewed, as in status.contentDigest. If the revision has other content, it is not approved.")
	return cmd
}

func newRejectCommand(o *Options) *cobra.Command {
	m := &transition{Options: o, verb: "reject", done: "rejected", approval: true, otherwise: porchv1alpha1.LifecycleDraft, steps: lifecycleSteps{
		porchv1alpha1.LifecycleProposed:         porchv1alpha1.LifecycleDraft,
		porchv1alpha1.LifecycleDeletionProposed: porchv1alpha1.LifecyclePublished,
	}}
	return m.command("reject", "Reject proposed revisions or proposed deletions",
		`Reject proposed revisions, which become drafts again, or proposed deletions, whose revisions stay published. This requires the right
		to update packagerevisions/approval.`, `
			kubectl starling package reject edge.web.v1`)
}

func newProposeDeleteCommand(o *Options) *cobra.Command {
	m := &transition{Options: o, verb: "propose deletion of", done: "proposed for deletion", otherwise: porchv1alpha1.LifecycleDeletionProposed, steps: lifecycleSteps{
		porchv1alpha1.LifecyclePublished: porchv1alpha1.LifecycleDeletionProposed,
	}}
	return m.command("propose-delete", "Propose published revisions for deletion",
		`Propose published revisions for deletion. Afterwards "kubectl delete packagerevision" deletes them, and "reject" keeps them.`, `
			kubectl starling package propose-delete edge.web.v1
			kubectl delete packagerevision edge.web.v1`)
}
