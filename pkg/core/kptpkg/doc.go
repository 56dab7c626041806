// Package kptpkg is about the files of one package: what they may be, and the Kptfile among them. It is pure.
package kptpkg
