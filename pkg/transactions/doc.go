// Package transactions reads what the transactions controller needs of a WDS: packages and their
// revisions, Transactions, Locks and ImageConfigs.
//
// Providers, Configurations and Functions have the same fields, except that a Configuration has no
// runtime. So one type stands for all of them: pkgv1.Provider, with its Kind beside it. The same
// holds for their revisions.
package transactions
