package wdsserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"
)

// asStored replaces the conversion webhooks of all CustomResourceDefinitions by a conversion that
// changes the apiVersion and nothing else, as the strategy None does. The definitions stay as users
// wrote them, so that clusters get them with their webhooks.
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
