// Package transform turns an object of a WDS into what is delivered to clusters.
//
// A Pipeline is a list of Steps. The standard ones remove what the server owns, what we write
// ourselves, and what the cluster that receives the object decides for its kind. Further steps,
// such as what users ask for by kind, come after them. Steps that depend on the destination change
// the result, since everything before them is done once for all destinations.
//
// The result is canonical: the same object gives the same bytes, whatever order its fields came in,
// and applying a pipeline to its own result changes nothing. So if hashes are equal, nothing has to
// be written.
package transform
