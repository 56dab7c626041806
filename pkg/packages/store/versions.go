package store

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	storev1alpha1 "github.com/starlinghq/starling/api/store/v1alpha1"
)

// version identifies a revision at a resourceVersion.
type version struct {
	namespace, name, resourceVersion string
	uid                              types.UID
}

// versions lists the versions of revisions. It decodes only these fields of a metadata list: all
// metadata would take several times the memory of the revision cache.
func (s *Store) versions(ctx context.Context, namespace string, o metav1.ListOptions) (list metav1.ListMeta, found []version, err error) {
	body, err := s.rest.Get().Namespace(namespace).Resource(storev1alpha1.PackageRevisions.Resource).
		SetHeader("Accept", "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1").
		VersionedParams(&o, s.codec).Stream(ctx)
	if err != nil {
		return list, nil, err
	}
	defer body.Close()
	list, found, err = readVersions(bufio.NewReaderSize(body, 64<<10))
	if err != nil {
		return list, nil, fmt.Errorf("list metadata of revisions: %w", err)
	}
	return list, found, nil
}

// Field numbers of the API's protobuf form.
const (
	unknownRaw          = 2 // runtime.Unknown.raw
	listMetadata        = 1 // PartialObjectMetadataList.metadata
	listItems           = 2 // PartialObjectMetadataList.items
	listResourceVersion = 2 // ListMeta.resourceVersion
	itemMetadata        = 1 // PartialObjectMetadata.metadata
	metaName            = 1 // ObjectMeta.name
	metaNamespace       = 3 // ObjectMeta.namespace
	metaUID             = 5 // ObjectMeta.uid
	metaVersion         = 6 // ObjectMeta.resourceVersion
)

// protobufMagic begins every object in protobuf.
var protobufMagic = []byte("k8s\x00")

var errNotProtobuf = errors.New("unexpected response: not a metadata list in protobuf")

// readVersions decodes a PartialObjectMetadataList in its envelope, item by item.
func readVersions(r *bufio.Reader) (list metav1.ListMeta, found []version, err error) {
	magic := make([]byte, len(protobufMagic))
	if _, err := io.ReadFull(r, magic); err != nil || !bytes.Equal(magic, protobufMagic) {
		return list, nil, errNotProtobuf
	}
	var buffer []byte
	part := func(r *bufio.Reader, field, size int) error {
		switch {
		case field != listMetadata && field != listItems:
			return discard(r, size)
		case size > maxPart:
			return errNotProtobuf
		}
		buffer = slices.Grow(buffer[:0], size)[:size]
		if _, err := io.ReadFull(r, buffer); err != nil {
			return err
		}
		if field == listItems {
			v, err := versionOf(buffer)
			found = append(found, v)
			return err
		}
		return fields(buffer, func(field int, value []byte) error {
			if field == listResourceVersion {
				list.ResourceVersion = string(value)
			}
			return nil
		})
	}
	err = stream(r, func(r *bufio.Reader, field, size int) error {
		if field != unknownRaw {
			return discard(r, size)
		}
		inner := &io.LimitedReader{R: r, N: int64(size)}
		if err := stream(bufio.NewReaderSize(inner, 32<<10), part); err != nil {
			return err
		}
		if inner.N > 0 {
			return io.ErrUnexpectedEOF
		}
		return nil
	})
	return list, found, err
}

// versionOf decodes the metadata of an object.
func versionOf(item []byte) (version, error) {
	var v version
	err := fields(item, func(field int, value []byte) error {
		if field != itemMetadata {
			return nil
		}
		return fields(value, func(field int, value []byte) error {
			switch field {
			case metaName:
				v.name = string(value)
			case metaNamespace:
				v.namespace = string(value)
			case metaUID:
				v.uid = types.UID(value)
			case metaVersion:
				v.resourceVersion = string(value)
			}
			return nil
		})
	})
	return v, err
}

// maxPart bounds what is read at once; metadata has some KiB.
const maxPart = 16 << 20

// stream calls do for each length-delimited field until the end. The callback do must consume the
// field.
func stream(r *bufio.Reader, do func(r *bufio.Reader, field, size int) error) error {
	for {
		tag, err := binary.ReadUvarint(r)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch field, kind := protowire.DecodeTag(tag); kind {
		case protowire.VarintType:
			_, err = binary.ReadUvarint(r)
		case protowire.Fixed64Type:
			err = discard(r, 8)
		case protowire.Fixed32Type:
			err = discard(r, 4)
		case protowire.BytesType:
			var size uint64
			if size, err = binary.ReadUvarint(r); err == nil {
				err = do(r, int(field), int(min(size, math.MaxInt32)))
			}
		default:
			err = errNotProtobuf
		}
		if errors.Is(err, io.EOF) { // within a field
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
	}
}

func discard(r *bufio.Reader, size int) error {
	_, err := r.Discard(size)
	return err
}

// fields calls do for each length-delimited field of a message.
func fields(message []byte, do func(field int, value []byte) error) error {
	for len(message) > 0 {
		field, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return errNotProtobuf
		}
		message = message[n:]
		size := protowire.ConsumeFieldValue(field, kind, message)
		if size < 0 {
			return errNotProtobuf
		}
		if kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(message)
			if err := do(int(field), value); err != nil {
				return err
			}
		}
		message = message[size:]
	}
	return nil
}
