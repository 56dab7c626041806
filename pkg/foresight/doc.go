// Package foresight reads the facts of which explanations and forecasts are made: from a WDS and
// its ITSes, with the rights of the caller. What may not be read is a fact, too: it says why.
package foresight
