package clusterrepositories

import "context"

// Reader reads what is there now, whatever was watched. packagewatch.Reader is one.
type Reader interface {
	// Empty tells whether there is no revision in a Repository.
	Empty(ctx context.Context, namespace, repository string) (bool, error)
}
