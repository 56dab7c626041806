package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/kubectl/pkg/util/templates"

	"github.com/starlinghq/starling/pkg/core/transaction/report"
	"github.com/starlinghq/starling/pkg/plugin"
	"github.com/starlinghq/starling/pkg/transactions"
)

func newExplainCommand(o *options) *cobra.Command {
	output := &plugin.FormatFlag{Allowed: []string{"json", "yaml"}}
	cmd := &cobra.Command{
		Use:   "explain (TRANSACTION | KIND/NAME)",
		Short: "Show how far a Transaction is, why it does not go on, and what to do",
		Long: templates.LongDesc(`
			Show how far a Transaction is, step by step: it acquires the Lock, resolves versions, validates, installs, and commits. Below
			that is the first thing that keeps it from going on, and what to do about it. Of a package, it is the last Transaction.`),
		Example: templates.Examples(`
			# Why is the package not installed?
			kubectl starling tx explain provider/aws

			# What does this Transaction wait for?
			kubectl starling tx explain tx-aws-9eca9e58`),
		Args: plugin.ArgCount(1, 1),
		ValidArgsFunction: completeArguments(func(ctx context.Context) []string {
			return append(o.transactionNames(ctx), o.packageNames(ctx)...)
		}),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := output.Check(); err != nil {
				return err
			}
			return o.explain(cmd.Context(), args[0], output.Value)
		},
	}
	output.AddTo(cmd)
	return cmd
}

func (o *options) explain(ctx context.Context, name, format string) error {
	ref := transactions.Ref{}
	if strings.Contains(name, "/") {
		var err error
		if ref, err = parseRef(name); err != nil {
			return err
		}
	}
	client, err := o.client()
	if err != nil {
		return err
	}
	p := o.progress("reading %s", name)
	defer p.Stop()
	facts, err := factsOf(ctx, client, name, ref, time.Now())
	if err != nil {
		return err
	}
	p.Stop()
	explanation := report.Explain(facts)
	o.connect(explanation.Problem)
	if format != "" {
		return plugin.Structured(o.Out, explanation, format)
	}
	explanation.Draw(plugin.EscapingWriter{Writer: o.Out})
	return nil
}
