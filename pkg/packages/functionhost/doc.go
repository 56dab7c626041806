// Package functionhost runs functions of packages that are not built in: their images, in pods that
// an administrator has listed.
//
// In such a pod, a Server of our own binary is the first process of the container. It runs the
// program of the image for each request, with a ResourceList as its input. A package-server has a
// Client. Nothing but the two needs to know of images: the pods are Deployments of the chart, each
// of one image by its digest, without rights, network and writable files except /tmp.
package functionhost
