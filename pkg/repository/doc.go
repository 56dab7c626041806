// Package repository says what git repositories and OCI registries with packages have in common. The two are in its folders.
//
// What is read from a repository comes from people we do not know, over a network: everything is bounded in size and time, and what is
// wrong with one package is said of that package and keeps no other from being read.
package repository
