{{- /* Who may connect to etcd and to OCM's hub. The API server authenticates everyone, and everyone may connect to it. */}}
{{- define "starling.space.networkpolicies" }}
{{- $space := .space.name }}
{{- if not .space.etcd.endpoints }}
{{- $args := merge (dict "component" "etcd") . }}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ $space }}-etcd
  labels: {{- include "starling.space.labels" $args | nindent 4 }}
spec:
  podSelector:
    matchLabels: {{- include "starling.space.selector" $args | nindent 6 }}
  policyTypes: [Ingress]
  ingress:
  - from:
    {{- range list "apiserver" "backup" }}
    - podSelector:
        matchLabels: {{- include "starling.space.selector" (dict "space" $.space "component" .) | nindent 10 }}
    {{- end }}
    ports:
    - {port: client}
  - from:
    - podSelector:
        matchLabels: {{- include "starling.space.selector" $args | nindent 10 }}
    ports:
    - {port: peer}
  {{- if .space.metrics.serviceMonitor.enabled }}
  # With the label that Prometheus Operator gives Prometheus.
  - from:
    - namespaceSelector: {}
      podSelector:
        matchLabels: {app.kubernetes.io/name: prometheus}
    ports:
    - {port: metrics}
  {{- end }}
{{- end }}
{{- if eq .space.kind "its" }}
{{- $args := merge (dict "component" "ocm") . }}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ $space }}-ocm
  labels: {{- include "starling.space.labels" $args | nindent 4 }}
spec:
  podSelector:
    matchLabels: {{- include "starling.space.selector" $args | nindent 6 }}
  policyTypes: [Ingress]
  ingress:
  - from:
    - podSelector:
        matchLabels: {{- include "starling.space.selector" (dict "space" .space "component" "apiserver") | nindent 10 }}
    ports:
    - {port: webhooks}
{{- end }}
{{- end }}
