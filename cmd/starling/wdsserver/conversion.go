package wdsserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"

	controlv1alpha1 "github.com/starlinghq/starling/api/control/v1alpha1"
)

// asStored replaces the conversion webhooks of all CustomResourceDefinitions by a conversion that
// changes the apiVersion, as the strategy None does, and says so in an annotation. The API server
// then drops the fields that the other version does not have. The definitions stay as users wrote
// them, so that clusters get them with their webhooks.
func asStored(webhook.AuthenticationInfoResolver) webhook.AuthenticationInfoResolver {
	return converter{}
}

// converter is a webhook.AuthenticationInfoResolver whose clients send no request.
type converter struct{}

// ClientConfigFor implements webhook.AuthenticationInfoResolver.
func (converter) ClientConfigFor(string) (*rest.Config, error) {
	return &rest.Config{WrapTransport: func(http.RoundTripper) http.RoundTripper { return converter{} }}, nil
}

// ClientConfigForService implements webhook.AuthenticationInfoResolver.
func (c converter) ClientConfigForService(string, string, int) (*rest.Config, error) {
	return c.ClientConfigFor("")
}

// asked and answered have the fields of a ConversionReview that are needed, of any version of its
// API. An API server sends an empty response, too.
type asked struct {
	version
	Request *request `json:"request"`
}

type answered struct {
	version
	Response response `json:"response"`
}

type version struct {
	Kind       string `json:"kind"`
	APIVersion string `json:"apiVersion"`
}

type request struct {
	UID               string                       `json:"uid"`
	DesiredAPIVersion string                       `json:"desiredAPIVersion"`
	Objects           []map[string]json.RawMessage `json:"objects"`
}

type response struct {
	UID              string                       `json:"uid"`
	ConvertedObjects []map[string]json.RawMessage `json:"convertedObjects"`
	Result           map[string]string            `json:"result"`
}

// RoundTrip implements http.RoundTripper: it converts.
func (converter) RoundTrip(r *http.Request) (*http.Response, error) {
	defer r.Body.Close()
	var of asked
	if err := json.NewDecoder(r.Body).Decode(&of); err != nil {
		return nil, fmt.Errorf("decode ConversionReview: %w", err)
	}
	if of.Request == nil {
		return nil, errors.New("a ConversionReview without a request")
	}
	desired, err := json.Marshal(of.Request.DesiredAPIVersion)
	if err != nil {
		return nil, err
	}
	for _, object := range of.Request.Objects {
		if err := annotate(object); err != nil {
			return nil, err
		}
		object["apiVersion"] = desired
	}
	body, err := json.Marshal(answered{version: of.version, Response: response{
		UID: of.Request.UID, ConvertedObjects: of.Request.Objects, Result: map[string]string{"status": "Success"},
	}})
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: http.StatusOK, Status: "200 OK", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"application/json"}}, ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body)),
	}, nil
}

// whole is the value of AnnotationNotConverted of an object that is written in another version than
// that in which it is stored, and lacks nothing (completeFromStored). It is not stored.
const whole = ""

// annotate says of an object from which version it is not converted, unless it has that from an
// earlier time.
func annotate(object map[string]json.RawMessage) error {
	var (
		apiVersion  string
		metadata    map[string]json.RawMessage
		annotations map[string]string
	)
	if err := json.Unmarshal(object["apiVersion"], &apiVersion); err != nil {
		return fmt.Errorf("decode apiVersion: %w", err)
	}
	if err := json.Unmarshal(object["metadata"], &metadata); err != nil {
		return fmt.Errorf("decode metadata: %w", err)
	}
	if written := metadata["annotations"]; written != nil {
		if err := json.Unmarshal(written, &annotations); err != nil {
			return fmt.Errorf("decode annotations: %w", err)
		}
	}
	version, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return err
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	switch from, has := annotations[controlv1alpha1.AnnotationNotConverted]; {
	case !has:
		annotations[controlv1alpha1.AnnotationNotConverted] = version.Version
	case from == whole:
		delete(annotations, controlv1alpha1.AnnotationNotConverted)
	default:
		return nil
	}
	if metadata["annotations"], err = json.Marshal(annotations); err != nil {
		return err
	}
	object["metadata"], err = json.Marshal(metadata)
	return err
}
