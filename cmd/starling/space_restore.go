package main

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/starlinghq/starling/cmd/starling/etcdsnapshot"
	"github.com/starlinghq/starling/pkg/hostedspace/backup"
)

// restorationID is what an ID may be: it is a part of names.
var restorationID = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,8}[a-z0-9])?$`)

func newSpaceRestoreCommand() *cobra.Command {
	var r etcdsnapshot.Restoration
	var member etcdFlags
	var spaces []string
	cmd := &cobra.Command{
		Use:   "restore",
		Short: "Make the data directory of etcd from a backup of a space",
		Long: `Make the data directory of a member of etcd from a backup of a space. The member must not run. With several members,
run this for each of them, with the same backup.

What was written after the backup is unknown to the space afterwards, and clusters have it. So everything that would
change a cluster is stopped, before the API server of the space starts: Bindings get the annotation starling.io/hold,
and OCM's agents do nothing with the ManifestWorks of an ITS. docs/operations.md says how to go on.

A data directory is made once for each ID, however often this runs. With another ID and --replace it is made again. What
it had is kept aside, as DATA-DIR-before-ID.`,
		Example: `  starling space restore --space wds1=wds --id r1 --dir /backups --from latest --data-dir /data/etcd`,
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if !restorationID.MatchString(r.ID) {
				return usage(fmt.Errorf("--id %q must be at most 10 lower case letters, digits and \"-\"", r.ID))
			}
			for _, text := range spaces {
				name, kind, _ := strings.Cut(text, "=")
				if name == "" || kind != "wds" && kind != "its" {
					return usage(fmt.Errorf("--space %q must be NAME=wds or NAME=its", text))
				}
				r.Spaces = append(r.Spaces, etcdsnapshot.Space{Name: name, Type: kind})
			}
			members, own, err := member.members()
			if err != nil {
				return usage(err)
			}
			r.Member, r.Cluster, r.URLs = member.name, members.String(), own.StringSlice()
			ctx, stop := signalContext(c.Context())
			defer stop()
			if err := r.Run(ctx); err != nil {
				return fmt.Errorf("restore space %q: %w", r.Spaces[0].Name, err)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&spaces, "space", nil, "Name and type of the space, as NAME=wds or NAME=its. May be repeated, if one etcd has several: "+
		"the backup is of the first one.")
	f.StringVar(&r.ID, "id", "", "ID of this restoration, at most 10 characters. Choose another one each time.")
	f.StringVar(&r.Dir, "dir", "", "Directory of the backups.")
	f.StringVar(&r.From, "from", backup.Latest, "Name of the file of a backup, or \"latest\".")
	f.StringVar(&r.DataDir, "data-dir", "", "Data directory of the member.")
	f.BoolVar(&r.Replace, "replace", false, "If true, a data directory that has data is kept aside and replaced.")
	f.StringVar(&member.name, "name", "starling", "Name of the member.")
	f.StringVar(&member.peers, "peers", "", "All members, as NAME=https://HOST:PORT,... If empty, there is only this member.")
	for _, name := range []string{"space", "id", "dir", "data-dir"} {
		_ = cmd.MarkFlagRequired(name) // the flag exists
	}
	return cmd
}
