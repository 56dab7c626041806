package content

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"
	"k8s.io/utils/clock"

	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/client"
	"github.com/starlinghq/starling/pkg/core/kptpkg"
)

// ErrNotFound says that there is no content of that digest.
var ErrNotFound = errors.New("there is no such content")

// Grace is how long content is kept that nothing names: whoever puts content names it some time later.
const Grace = time.Hour

// refreshed is the annotation that says when content was last put again. It keeps the collector away.
const refreshed = "store.starling.io/refreshed"

// partsLabel says how many parts there are, to whoever reads metadata only.
const partsLabel = "store.starling.io/parts"

// metadataOnly asks for an answer without what was sent.
const metadataOnly = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

// Store keeps content in ContentChunks of one space. It is safe for concurrent use, also by several processes; each call blocks until
// the API server has answered.
type Store struct {
	rest     rest.Interface
	chunks   *gentype.ClientWithList[*storev1alpha1.ContentChunk, *storev1alpha1.ContentChunkList]
	metadata metadata.Interface
	clock    clock.PassiveClock
}

// New returns a Store for the space that config leads to.
func New(config *rest.Config, c clock.PassiveClock) (*Store, error) {
	scheme := runtime.NewScheme()
	if err := storev1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	metadataClient, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("build metadata client: %w", err)
	}
	restClient, err := client.NewREST(config, scheme, storev1alpha1.GroupVersion)
	if err != nil {
		return nil, err
	}
	return &Store{
		rest: restClient,
		chunks: gentype.NewClientWithList(storev1alpha1.ContentChunks.Resource, restClient, runtime.NewParameterCodec(scheme), "",
			func() *storev1alpha1.ContentChunk { return &storev1alpha1.ContentChunk{} },
			func() *storev1alpha1.ContentChunkList { return &storev1alpha1.ContentChunkList{} }),
		metadata: metadataClient,
		clock:    c,
	}, nil
}

// Put keeps the files and returns their digest. When it returns, they stay for at least half of Grace, whether something names them or
// not.
func (s *Store) Put(ctx context.Context, files kptpkg.Files) (string, error) {
	parts, err := Encode(files)
	if err != nil {
		return "", fmt.Errorf("encode files: %w", err)
	}
	digest := files.Digest()
	for i, part := range parts {
		chunk := &storev1alpha1.ContentChunk{
			TypeMeta: metav1.TypeMeta{APIVersion: storev1alpha1.GroupVersion.String(), Kind: "ContentChunk"},
			// Our clock, not the API server's, so that ages are told by one.
			ObjectMeta: metav1.ObjectMeta{
				Name: chunkName(digest, i), Annotations: map[string]string{refreshed: s.now()},
				Labels: map[string]string{partsLabel: strconv.Itoa(len(parts))},
			},
			Digest: digest, Part: int32(i), Parts: int32(len(parts)),
			Data: base64.StdEncoding.EncodeToString(part),
		}
		if err := s.putChunk(ctx, chunk); err != nil {
			return "", fmt.Errorf("keep part %d of %d of %s: %w", i+1, len(parts), digest, err)
		}
	}
	return digest, nil
}

// putChunk creates a chunk, or keeps the collector away from one that is there. Between the two the collector may take it.
func (s *Store) putChunk(ctx context.Context, chunk *storev1alpha1.ContentChunk) error {
	var err error
	for range 3 {
		// All that is wanted back is whether it worked.
		err = s.rest.Post().Resource(storev1alpha1.ContentChunks.Resource).SetHeader("Accept", metadataOnly).Body(chunk).Do(ctx).Error()
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
		if _, err = s.refresh(ctx, chunk.Name); !apierrors.IsNotFound(err) {
			return err
		}
	}
	return err
}

func (s *Store) refresh(ctx context.Context, name string) (*metav1.PartialObjectMetadata, error) {
	chunks := s.metadata.Resource(storev1alpha1.ContentChunks)
	// What the API server remembers will do: a chunk that is old in it is patched, and one that is young is not collected.
	there, err := chunks.Get(ctx, name, metav1.GetOptions{ResourceVersion: "0"})
	if apierrors.IsNotFound(err) {
		there, err = chunks.Get(ctx, name, metav1.GetOptions{})
	}
	if err != nil {
		return nil, err
	}
	if s.clock.Since(since(there)) > Grace/2 {
		patch := fmt.Sprintf(`{"metadata":{"uid":%q,"annotations":{%q:%q}}}`, there.UID, refreshed, s.now())
		_, err = chunks.Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		if apierrors.IsConflict(err) { // it was collected and made anew meanwhile
			err = nil
		}
	}
	return there, err
}

// Keep does for content that is there what Put does: it stays for at least half of Grace. An error that is ErrNotFound says that it is
// not there, or is incomplete.
func (s *Store) Keep(ctx context.Context, digest string) error {
	for i, n := 0, 1; i < n; i++ {
		chunk, err := s.refresh(ctx, chunkName(digest, i))
		if apierrors.IsNotFound(err) {
			return fmt.Errorf("%s, part %d: %w", digest, i+1, ErrNotFound)
		}
		if err != nil {
			return fmt.Errorf("keep part %d of %s: %w", i+1, digest, err)
		}
		if n, err = strconv.Atoi(chunk.Labels[partsLabel]); err != nil {
			return fmt.Errorf("%s, part %d: %w", digest, i+1, ErrCorrupt)
		}
	}
	return nil
}

func (s *Store) now() string { return s.clock.Now().UTC().Format(time.RFC3339) }

// since returns when a chunk was put last.
func since(chunk metav1.Object) time.Time {
	if at, err := time.Parse(time.RFC3339, chunk.GetAnnotations()[refreshed]); err == nil {
		return at
	}
	return chunk.GetCreationTimestamp().Time
}

// Get returns the files of a digest: an error that is ErrNotFound if they are not there, or ErrCorrupt.
func (s *Store) Get(ctx context.Context, digest string) (kptpkg.Files, error) {
	var parts [][]byte
	for i, n := 0, 1; i < n; i++ {
		chunk, err := s.chunks.Get(ctx, chunkName(digest, i), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("%s, part %d: %w", digest, i+1, ErrNotFound)
		}
		if err != nil {
			return nil, fmt.Errorf("read part %d of %s: %w", i+1, digest, err)
		}
		part, err := base64.StdEncoding.DecodeString(chunk.Data)
		if err != nil {
			return nil, fmt.Errorf("%s, part %d: %w", digest, i+1, ErrCorrupt)
		}
		n = int(chunk.Parts)
		parts = append(parts, part)
	}
	files, err := Decode(parts, digest)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", digest, err)
	}
	return files, nil
}

// Collect deletes content that was not put within Grace and that nothing names, and returns how many parts it deleted. Used lists the
// digests that are named; it is asked after the content was listed, so that what is put and named meanwhile stays: a chunk that was
// put again has another version than the one that is to be deleted.
func (s *Store) Collect(ctx context.Context, used func(context.Context) (map[string]bool, error)) (int, error) {
	chunks := s.metadata.Resource(storev1alpha1.ContentChunks)
	var old []metav1.PartialObjectMetadata
	list := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return chunks.List(ctx, o) })
	err := list.EachListItem(ctx, metav1.ListOptions{}, func(obj runtime.Object) error {
		if chunk, ok := obj.(*metav1.PartialObjectMetadata); ok && s.clock.Since(since(chunk)) > Grace {
			old = append(old, *chunk)
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("list content: %w", err)
	}
	if len(old) == 0 {
		return 0, nil
	}
	named, err := used(ctx)
	if err != nil {
		return 0, fmt.Errorf("list what names content: %w", err)
	}
	deleted := 0
	for i := range old {
		digest, ok := digestOf(old[i].Name)
		if !ok || named[digest] {
			continue
		}
		uid, version := old[i].UID, old[i].ResourceVersion
		err := chunks.Delete(ctx, old[i].Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}})
		switch {
		case err == nil:
			deleted++
		case !apierrors.IsNotFound(err) && !apierrors.IsConflict(err):
			return deleted, fmt.Errorf("delete %s: %w", old[i].Name, err)
		}
	}
	return deleted, nil
}

// chunkName names a part after its digest, which has a colon.
func chunkName(digest string, part int) string {
	return strings.Replace(digest, ":", "-", 1) + "-" + strconv.Itoa(part)
}

// digestOf returns the digest that a chunk's name was made of; false for names that we do not make.
func digestOf(name string) (string, bool) {
	digest, part, ok := strings.Cut(strings.TrimPrefix(name, "sha256-"), "-")
	_, err := strconv.Atoi(part)
	return "sha256:" + digest, ok && err == nil && strings.HasPrefix(name, "sha256-")
}
