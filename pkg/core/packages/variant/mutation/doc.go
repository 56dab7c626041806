// Package mutation changes the files of a package as its PackageVariant says: it sets the package
// context, adds functions, and injects objects. It is pure. Unchanged files stay equal byte for
// byte; changed files retain comments and order.
package mutation
