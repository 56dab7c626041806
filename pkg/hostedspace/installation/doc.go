// Package installation installs what Starling needs in a space that runs already: the chart of its
// type, in an ITS the objects of OCM's hub, in a WDS the registration of its package-server.
//
// Check decides from what was observed whether the space may be changed; until then nothing is
// written. Each step may run again: it changes only what differs.
package installation
