// Package mailboxes reads the WorkStatuses of one WDS in the mailboxes of one ITS, and keeps a part
// of each: a Store, by cluster and object.
//
// A cluster's agent may write any number of WorkStatuses, of any size, into its mailbox. So what is
// kept of one cluster is bounded. Nobody who writes into one mailbox can use up the memory that the
// reports of all clusters share, or affect what is known of another cluster.
package mailboxes
