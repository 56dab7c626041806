// Package content stores the files of packages by their digest.
//
// Content is written once and never changed. Equal files are stored once. Content whose digest
// nothing refers to is deleted after a grace period.
package content
