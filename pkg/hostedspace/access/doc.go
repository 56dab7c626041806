// Package access finds the kubeconfig of the administrator of a space: in a file, in a Secret of
// the hosting cluster, or in the Secret that a ControlPlane of KubeFlex names.
package access
