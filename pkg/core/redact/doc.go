// Package redact removes what may be secret from objects and from texts, so that they can be shown
// to others: the data of Secrets and ConfigMaps, credentials, private keys, and every text that
// contains such a thing in another encoding.
//
// It removes rather too much: a reader of a bug report can ask for more, but cannot unread.
package redact

// Removed stands for a value that was removed.
const Removed = "(removed)"
