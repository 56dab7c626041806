// Package foresight has what the commands that explain, forecast and wait share: facts about
// clusters, and the links of which an explanation is made. It is pure.
package foresight
