// Package rollout decides how far an edit is on its way to the clusters: from the links of package
// explain to counts of copies. It is pure: the caller reads the facts again and again, and says
// what time it is.
package rollout
