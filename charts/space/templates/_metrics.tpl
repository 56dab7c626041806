{{- /* Prometheus reads metrics of etcd. Those of kube-apiserver need credentials of the space. */}}
{{- define "starling.space.servicemonitor" }}
{{- $name := printf "%s-etcd" .space.name }}
{{- $args := merge (dict "component" "etcd") . }}
---
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata:
  name: {{ $name }}
  labels: {{- merge (include "starling.space.labels" $args | fromYaml) .space.metrics.serviceMonitor.labels | toYaml | nindent 4 }}
spec:
  selector:
    matchLabels: {{- include "starling.space.selector" $args | nindent 6 }}
  endpoints:
  - port: metrics
    interval: {{ .space.metrics.serviceMonitor.interval }}
    relabelings:
    - targetLabel: job
      replacement: {{ $name }}
{{- end }}
