// Package certificates issues the certificates of spaces: an authority signs the certificates of
// servers and clients, and each is renewed before it expires.
//
// It reads and writes nothing. Callers keep the pairs: the local fleet in files, a hosted space in
// Secrets.
package certificates
