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
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"
	"k8s.io/utils/clock"

	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
	"github.com/starlinghq/starling/pkg/client"
	"github.com/starlinghq/starling/pkg/core/packages/kpt"
)

// ErrNotFound is returned if there is no content with a digest, or it is incomplete.
var ErrNotFound = errors.New("content not found")

// Grace is how long content without a reference is retained: a writer refers to it some time after
// the Put.
const Grace = time.Hour

// refreshedAnnotation has the time at which content was last put. The collector respects it.
const refreshedAnnotation = "store.starling.io/refreshed"

// partsLabel has the number of parts, for readers of metadata only.
const partsLabel = "store.starling.io/parts"

// metadataOnly requests a response without the data that was sent.
const metadataOnly = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

// Store stores content in ContentChunks of one space. It is safe for concurrent use, also by
// several processes. Each call blocks until the API server has answered.
type Store struct {
	rest     rest.Interface
	metadata metadata.Interface
	clock    clock.PassiveClock
	encoder  Encoder
}

// New returns a Store for the space of config.
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
	return &Store{rest: restClient, metadata: metadataClient, clock: c}, nil
}

// Put stores the files and returns their digest. They are then retained for at least half of Grace,
// with or without a reference.
func (s *Store) Put(ctx context.Context, files kpt.Files) (string, error) {
	parts, err := s.encoder.Encode(files)
	if err != nil {
		return "", fmt.Errorf("encode files: %w", err)
	}
	digest := files.Digest()
	for i, part := range parts {
		chunk := &storev1alpha1.ContentChunk{
			TypeMeta: metav1.TypeMeta{APIVersion: storev1alpha1.GroupVersion.String(), Kind: "ContentChunk"},
			// Times are of this process's clock, not of the API server's, so that ages are computed
			// with one clock.
			ObjectMeta: metav1.ObjectMeta{
				Name: chunkName(digest, i), Annotations: map[string]string{refreshedAnnotation: s.now()},
				Labels: map[string]string{partsLabel: strconv.Itoa(len(parts))},
			},
			Digest: digest, Part: int32(i), Parts: int32(len(parts)),
			Data: base64.StdEncoding.EncodeToString(part),
		}
		if err := s.putChunk(ctx, chunk); err != nil {
			return "", fmt.Errorf("store part %d of %d of content %s: %w", i+1, len(parts), digest, err)
		}
	}
	return digest, nil
}

// putChunk creates a chunk, or refreshes an existing one. The collector may delete it between the
// two attempts.
func (s *Store) putChunk(ctx context.Context, chunk *storev1alpha1.ContentChunk) error {
	var err error
	for range 3 {
		// Only the error is needed from the response.
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
	// The API server's watch cache is recent enough: a chunk that is old there is patched, and one
	// that is young is not collected.
	there, err := chunks.Get(ctx, name, metav1.GetOptions{ResourceVersion: "0"})
	if apierrors.IsNotFound(err) {
		there, err = chunks.Get(ctx, name, metav1.GetOptions{})
	}
	if err != nil {
		return nil, err
	}
	if s.clock.Since(lastPut(there)) > Grace/2 {
		patch := fmt.Sprintf(`{"metadata":{"uid":%q,"annotations":{%q:%q}}}`, there.UID, refreshedAnnotation, s.now())
		_, err = chunks.Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		if apierrors.IsConflict(err) { // it was collected and re-created in between
			err = nil
		}
	}
	return there, err
}

// Retain makes sure that existing content is retained for at least half of Grace, as after Put. It
// returns ErrNotFound if the content does not exist or is incomplete.
func (s *Store) Retain(ctx context.Context, digest string) error {
	for i, n := 0, 1; i < n; i++ {
		chunk, err := s.refresh(ctx, chunkName(digest, i))
		if apierrors.IsNotFound(err) {
			return fmt.Errorf("%s, part %d: %w", digest, i+1, ErrNotFound)
		}
		if err != nil {
			return fmt.Errorf("retain part %d of content %s: %w", i+1, digest, err)
		}
		if n, err = strconv.Atoi(chunk.Labels[partsLabel]); err != nil {
			return fmt.Errorf("%s, part %d: %w", digest, i+1, ErrCorrupt)
		}
	}
	return nil
}

func (s *Store) now() string { return s.clock.Now().UTC().Format(time.RFC3339) }

// lastPut returns when a chunk was last put.
func lastPut(chunk metav1.Object) time.Time {
	if at, err := time.Parse(time.RFC3339, chunk.GetAnnotations()[refreshedAnnotation]); err == nil {
		return at
	}
	return chunk.GetCreationTimestamp().Time
}

// Get returns the files of a digest. Its errors include ErrNotFound and ErrCorrupt.
func (s *Store) Get(ctx context.Context, digest string) (kpt.Files, error) {
	var parts [][]byte
	for i, n := 0, 1; i < n; i++ {
		var chunk storev1alpha1.ContentChunk
		err := s.rest.Get().Resource(storev1alpha1.ContentChunks.Resource).Name(chunkName(digest, i)).Do(ctx).Into(&chunk)
		if apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("%s, part %d: %w", digest, i+1, ErrNotFound)
		}
		if err != nil {
			return nil, fmt.Errorf("read part %d of content %s: %w", i+1, digest, err)
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

// Collect deletes content that was not put within Grace and has no reference, and returns how many
// chunks it deleted. The function used returns the digests with a reference. It is called after the
// content was listed, so that content is kept that was put and referred to in between: a chunk that
// was put again has another resourceVersion than the listed one, and its deletion fails.
func (s *Store) Collect(ctx context.Context, used func(context.Context) (map[string]bool, error)) (int, error) {
	chunks := s.metadata.Resource(storev1alpha1.ContentChunks)
	var old []metav1.PartialObjectMetadata
	list := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return chunks.List(ctx, o) })
	err := list.EachListItem(ctx, metav1.ListOptions{}, func(obj runtime.Object) error {
		if chunk, ok := obj.(*metav1.PartialObjectMetadata); ok && s.clock.Since(lastPut(chunk)) > Grace {
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
		return 0, fmt.Errorf("list references to content: %w", err)
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
			return deleted, fmt.Errorf("delete ContentChunk %q: %w", old[i].Name, err)
		}
	}
	return deleted, nil
}

// chunkName derives the name of a chunk from its digest, which has a colon.
func chunkName(digest string, part int) string {
	return strings.Replace(digest, ":", "-", 1) + "-" + strconv.Itoa(part)
}

// digestOf returns the digest of a chunk by its name, or false if the name is not one of chunkName.
func digestOf(name string) (string, bool) {
	digest, part, ok := strings.Cut(strings.TrimPrefix(name, "sha256-"), "-")
	_, err := strconv.Atoi(part)
	return "sha256:" + digest, ok && err == nil && strings.HasPrefix(name, "sha256-")
}
