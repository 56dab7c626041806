// Package transform turns an object of a WDS into what is delivered to clusters.
//
// A Pipeline is a list of Steps. The standard ones take away what the server owns, what we write ourselves, and what the
// cluster that gets the object decides for its kind. Further steps, such as what users ask for by kind, go behind them; steps
// that depend on the destination work on the result, since everything before them is done once for all destinations.
//
// The result is canonical: the same object gives the same bytes, whatever order its fields came in, and applying a pipeline to
// its own result changes nothing. So equal hashes mean that nothing is to be written.
package transform
