// Package report describes Transactions and packages to users: what a Transaction would change, how
// far it is and what to do next, and which package requires which. It is pure.
package report
