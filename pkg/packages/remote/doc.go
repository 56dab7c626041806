// Package remote has what git repositories and OCI registries with packages have in common. Their
// implementations are in its subdirectories.
//
// Repositories contain data of unknown authors and are read over a network. Everything is therefore
// bounded in size and time. An error in one package is reported for that package and does not
// prevent reading the others.
package remote
