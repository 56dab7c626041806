// Package statusreports reads the reports of clusters on delivered objects: the WorkStatuses of one
// WDS, in the mailboxes of all ITSes.
//
// They are read once, for all controllers that use them. Controllers get reports by object and
// cluster, and receive changes. Each ITS is read on its own: one that cannot be reached does not
// affect the others, and what it may hold is reported as unknown. What is kept of one cluster is
// bounded (package mailboxes).
package statusreports
