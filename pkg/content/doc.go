// Package content keeps the files of packages by their digest.
//
// What is kept is written once and never changed: equal files are kept once, whoever has them. A digest that nothing names any more is
// collected after a grace period.
package content
