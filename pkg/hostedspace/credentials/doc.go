// Package credentials keeps the credentials of controllers: for each a Secret in the hosting
// cluster with a kubeconfig and a token of the controller's ServiceAccount in a space. Pods mount
// the Secret, and client-go reads the file with the token again.
//
// A token is requested again when less than a certain time is left of its lifetime, when it is not
// accepted any more, or when what surrounds it differs. A Secret of someone else is never
// overwritten. No message contains a token.
package credentials
