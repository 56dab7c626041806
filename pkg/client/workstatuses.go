package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
)

// ListWorkStatuses calls each with the WorkStatuses of all mailboxes of an ITS, one by one, and
// returns the metadata of the list. It has one of them in memory at a time: agents write them, and
// each may be as large as an API server accepts. After an error some are missing.
func (c *Client) ListWorkStatuses(ctx context.Context, options metav1.ListOptions, each func(*controlv1alpha1.WorkStatus)) (metav1.ListMeta, error) {
	body, err := c.rest.Get().Resource(controlv1alpha1.WorkStatuses.Resource).SetHeader("Accept", "application/json").
		VersionedParams(&options, c.codec).Stream(ctx)
	if err != nil {
		return metav1.ListMeta{}, err
	}
	defer body.Close()
	list, err := readList(body, each)
	if err != nil {
		return metav1.ListMeta{}, fmt.Errorf("read list of WorkStatuses: %w", err)
	}
	return list, nil
}

// WatchWorkStatuses watches the WorkStatuses of all mailboxes of an ITS.
func (c *Client) WatchWorkStatuses(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	return c.WorkStatuses(metav1.NamespaceAll).Watch(ctx, options)
}

// readList reads a list as JSON, calls each with its items, and returns its metadata.
func readList[T any](from io.Reader, each func(*T)) (list metav1.ListMeta, err error) {
	decoder := json.NewDecoder(from)
	if err := expect(decoder, '{'); err != nil {
		return list, err
	}
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return list, err
		}
		switch key {
		case "metadata":
			err = decoder.Decode(&list)
		case "items":
			err = readItems(decoder, each)
		default:
			err = decoder.Decode(&json.RawMessage{})
		}
		if err != nil {
			return list, err
		}
	}
	return list, expect(decoder, '}')
}

// readItems reads an array.
func readItems[T any](decoder *json.Decoder, each func(*T)) error {
	if err := expect(decoder, '['); err != nil {
		return err
	}
	for decoder.More() {
		item := new(T)
		if err := decoder.Decode(item); err != nil {
			return err
		}
		each(item)
	}
	return expect(decoder, ']')
}

// expect reads a delimiter.
func expect(decoder *json.Decoder, want json.Delim) error {
	switch got, err := decoder.Token(); {
	case errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	case err != nil:
		return err
	case got != want:
		return fmt.Errorf("found %v, want %v", got, want)
	}
	return nil
}
