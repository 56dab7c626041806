// Package rights compares the rights in config/rbac with those that were used: every right that an
// identity of Starling has must be used in some end-to-end test, or be in an allow-list with the
// reason why it is needed all the same.
//
// A local fleet with `starling up --audit` records the requests of these identities. Read reduces
// the logs to a set of uses, and Compare compares them with the rules.
package rights
