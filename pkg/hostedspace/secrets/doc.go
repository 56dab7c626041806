// Package secrets makes what the pods of a hosted space mount: a Secret for each of them, with
// its certificates and its kubeconfig. The chart "space" names the same Secrets and files.
package secrets
