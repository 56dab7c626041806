// Package reports reads what the clusters report of delivered objects: the WorkStatuses of one WDS, in the mailboxes of all ITSes.
//
// It is read once, for all controllers that stand on it. They ask by object and cluster, and are told of changes. Each inventory
// is read for itself: one that cannot be reached leaves the others alone, and what it may say is known not to be known.
package reports
