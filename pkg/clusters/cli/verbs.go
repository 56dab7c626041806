package cli

import (
	"github.com/spf13/cobra"
	"k8s.io/kubectl/pkg/util/templates"
)

// verbCommands returns the commands that change clusters.
func verbCommands(o *options) []*cobra.Command {
	accept := newAccept(o)
	acceptCommand := accept.command("accept NAME …", templates.LongDesc(`
		Let clusters join that ask for it: approve the certificates that their agents ask for, and accept the clusters, after which
		policies deliver to them what they select for their labels.

		Only requests are approved that were created by a bootstrap identity of OCM, or by the agent itself, and for nothing but the
		certificate of an agent of this cluster. If several agents ask, name the one of the cluster with --agent.`),
		templates.Examples(`
		# Accept one cluster
		kubectl starling cluster accept prod-eu-1

		# Accept all clusters with a label, in a script
		kubectl starling cluster accept -l site=edge --yes`))
	acceptCommand.Flags().StringVar(&accept.agent, "agent", "", "ID of the agent whose certificate to approve, if several ask.")

	deny := newDeny(o)
	denyCommand := deny.command("deny NAME …", templates.LongDesc(`
		Take from clusters all rights in their ITS, and deny what their agents ask for. Their destinations are removed from all
		Bindings.

		OCM leaves an agent the right to its works until it has removed what was delivered. If it does not, because it does not
		run or is not the agent that you installed, its rights end only with --force; then what was delivered stays in the cluster.
		It ends when the ITS confirms that the agents of the cluster may change nothing, and may read nothing that was delivered. To
		accept the cluster again, use "accept".`),
		templates.Examples(`
		# Deny a cluster, and wait until its agent has removed what was delivered
		kubectl starling cluster deny prod-eu-1

		# Deny a cluster that was stolen
		kubectl starling cluster deny prod-eu-1 --force`))
	denyCommand.Flags().BoolVar(&deny.force, "force", false, "Take the rights at once. What was delivered stays in the cluster.")

	drain := newDrain(o)
	drainCommand := drain.command("drain NAME …", templates.LongDesc(`
		Take off clusters what is delivered to them, in order: the label starling.io/drained makes them destinations of no policy and
		no package. What was delivered leaves them as if no selector matched them any more: objects with the option orphan stay, and
		removal blocks count. It ends when no Binding of the WDS lists the cluster, and its mailbox has no works of any WDS.

		The clusters stay accepted and joined. To deliver to them again, use "undrain".`),
		templates.Examples(`
		# Drain a cluster before its maintenance, and deliver to it again
		kubectl starling cluster drain prod-eu-1
		kubectl starling cluster undrain prod-eu-1`))

	undrainCommand := newUndrain(o).command("undrain NAME …", templates.LongDesc(`
		Deliver to drained clusters again what policies and packages select for them.`), templates.Examples(`
		kubectl starling cluster undrain prod-eu-1`))

	remove := newRemove(o)
	removeCommand := remove.command("remove NAME …", templates.LongDesc(`
		Take clusters out of the fleet: drain them, then delete their ManagedClusters and mailboxes. What has the option orphan stays in
		the cluster, all else that was delivered is deleted from it first.

		With --force, the agent is not waited for: what it has not removed by then stays in the cluster.`),
		templates.Examples(`
		# Remove a cluster
		kubectl starling cluster remove prod-eu-1

		# Remove a cluster that does not exist any more
		kubectl starling cluster remove prod-eu-1 --force`))
	removeCommand.Flags().BoolVar(&remove.force, "force", false, "Do not wait for the agent. What was delivered stays in the cluster.")
	return []*cobra.Command{acceptCommand, denyCommand, drainCommand, undrainCommand, removeCommand}
}
