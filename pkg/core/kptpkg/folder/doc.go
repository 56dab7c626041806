// Package folder is about a package's files in a folder of its author: the file that says what was pulled, and what becomes of the folder
// when it is pulled again. It is pure.
package folder
