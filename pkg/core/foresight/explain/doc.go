// Package explain says where an object, a policy, a package or a cluster is on its way, as a chain
// of links: from an object that exists in the WDS to its status that came back from a cluster. The
// first link that is not good is the answer; links after it are not judged. It is pure: the facts
// are gathered by pkg/foresight.
package explain
