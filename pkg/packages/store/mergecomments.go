package store

import (
	"maps"

	"github.com/starlinghq/starling/pkg/core/packages/kpt"
	"github.com/starlinghq/starling/pkg/core/packages/kpt/merge"
	"github.com/starlinghq/starling/pkg/packages/boundedcache"
)

// mergeCommentCache caches packages with their merge comments by digest. One upstream is cloned
// many times, and finding the positions of the comments is most of the work of a clone.
type mergeCommentCache struct {
	*boundedcache.Cache[string, kpt.Files]
}

// mergeCommentCacheSize is the maximum size of the cache in bytes.
const mergeCommentCacheSize = 16 << 20

// add adds merge comments to a clone of the content with that digest. The clone differs from that
// content in its Kptfile only.
func (m mergeCommentCache) add(digest string, files kpt.Files) kpt.Files {
	kptfile := merge.AddMergeComments(kpt.Files{kpt.KptfileName: files[kpt.KptfileName]})
	marked, known := m.Get(digest)
	if !known {
		marked = merge.AddMergeComments(files)
		m.Add(digest, marked, marked.Size())
	}
	marked = maps.Clone(marked)
	maps.Copy(marked, kptfile)
	return marked
}
