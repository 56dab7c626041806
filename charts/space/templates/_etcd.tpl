{{- /* etcd is a StatefulSet, in which each replica has a volume. Each restoration has another one, with new volumes. */}}
{{- define "starling.space.etcd" }}
{{- $service := printf "%s-etcd" .space.name }}
{{- $name := include "starling.space.etcd-name" . }}
{{- $domain := printf "%s.%s.svc" $service .root.Release.Namespace }}
{{- $args := merge (dict "component" "etcd" "spread" true) . }}
{{- $restore := .space.restore }}
{{- include "starling.space.etcd-check" . }}
---
apiVersion: v1
kind: Service
metadata:
  name: {{ $service }}
  labels: {{- include "starling.space.labels" $args | nindent 4 }}
spec:
  clusterIP: None
  # Members find each other before they are ready.
  publishNotReadyAddresses: true
  selector: {{- include "starling.space.selector" $args | nindent 4 }}
  ports:
  - {name: client, port: 2379}
  - {name: peer, port: 2380}
  - {name: metrics, port: 2381}
---
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: {{ $name }}
  labels: {{- include "starling.space.labels" $args | nindent 4 }}
spec:
  serviceName: {{ $service }}
  replicas: {{ .space.etcd.replicas }}
  podManagementPolicy: Parallel
  selector:
    matchLabels: {{- include "starling.space.selector" $args | nindent 6 }}
      {{- with $restore.id }}
      starling.io/restored: {{ . | quote }}
      {{- end }}
  template:
    metadata: {{- include "starling.space.pod-metadata" $args | nindent 6 }}
    spec:
      {{- include "starling.space.pod" $args | nindent 6 }}
      automountServiceAccountToken: false
      {{- $peers := list }}
      {{- if gt (int .space.etcd.replicas) 1 }}
      {{- range $i := until (int .space.etcd.replicas) }}
      {{- $peers = append $peers (printf "%s-%d=https://%s-%d.%s:2380" $name $i $name $i $domain) }}
      {{- end }}
      {{- end }}
      {{- if $restore.from }}
      initContainers:
      - name: restore
        {{- include "starling.space.container" $args | nindent 8 }}
        env:
        - name: POD_NAME
          valueFrom: {fieldRef: {fieldPath: metadata.name}}
        args:
        - space
        - restore
        - --space={{ .space.name }}={{ .space.kind }}
        - --id={{ $restore.id }}
        - --dir=/backups
        - --from={{ $restore.from }}
        - --data-dir=/data/etcd
        - --name=$(POD_NAME)
        {{- with $peers }}
        - --peers={{ join "," . }}
        {{- end }}
        resources: {{- toYaml .space.etcd.resources | nindent 10 }}
        volumeMounts:
        - {name: data, mountPath: /data}
        - {name: backups, mountPath: /backups, readOnly: true}
        - {name: tmp, mountPath: /tmp}
      {{- end }}
      containers:
      - name: etcd
        {{- include "starling.space.container" $args | nindent 8 }}
        env:
        - name: POD_NAME
          valueFrom: {fieldRef: {fieldPath: metadata.name}}
        args:
        - etcd
        - --space={{ .space.name }}
        - --
        - --name=$(POD_NAME)
        - --data-dir=/data/etcd
        - --listen=0.0.0.0:2379
        - --advertise=$(POD_NAME).{{ $domain }}:2379
        - --cert=/certificates/server.crt
        - --key=/certificates/server.key
        - --client-ca=/certificates/ca.crt
        {{- if $restore.id }}
        - --must-exist
        {{- end }}
        {{- if $peers }}
        - --peers={{ join "," $peers }}
        - --peer-listen=0.0.0.0:2380
        - --peer-cert=/certificates/peer.crt
        - --peer-key=/certificates/peer.key
        - --peer-ca=/certificates/ca.crt
        {{- end }}
        - --metrics-listen=0.0.0.0:2381
        ports:
        - {name: client, containerPort: 2379}
        - {name: peer, containerPort: 2380}
        - {name: metrics, containerPort: 2381}
        startupProbe:
          httpGet: {path: /readyz, port: metrics}
          periodSeconds: 2
          failureThreshold: 150
        readinessProbe:
          httpGet: {path: /readyz, port: metrics}
          periodSeconds: 5
        livenessProbe:
          httpGet: {path: /livez, port: metrics}
          periodSeconds: 10
          failureThreshold: 8
        resources: {{- toYaml .space.etcd.resources | nindent 10 }}
        volumeMounts:
        - {name: data, mountPath: /data}
        - {name: certificates, mountPath: /certificates, readOnly: true}
        - {name: tmp, mountPath: /tmp}
      volumes:
      - name: certificates
        secret: {secretName: {{ $service }}}
      - name: tmp
        emptyDir: {}
      {{- if $restore.from }}
      - name: backups
        persistentVolumeClaim: {claimName: {{ $restore.claim | default (include "starling.space.backup-claim" .) }}, readOnly: true}
      {{- end }}
  volumeClaimTemplates:
  - metadata:
      name: data
    spec:
      accessModes: [ReadWriteOnce]
      {{- with .space.etcd.storage.className }}
      storageClassName: {{ . }}
      {{- end }}
      resources:
        requests:
          storage: {{ .space.etcd.storage.size }}
{{- if gt (int .space.etcd.replicas) 1 }}
{{ include "starling.space.disruption" (merge (dict "objectName" $service) $args) }}
{{- end }}
{{- end }}

{{- define "starling.space.etcd-name" -}}
{{ .space.name }}-etcd{{ with .space.restore.id }}-{{ . }}{{ end }}
{{- end }}

{{- /* endpoints returns the URLs of the members of etcd, separated by commas. */}}
{{- define "starling.space.etcd-endpoints" -}}
{{- $servers := .space.etcd.endpoints }}
{{- if not $servers }}
{{- $name := include "starling.space.etcd-name" . }}
{{- range $i := until (int .space.etcd.replicas) }}
{{- $servers = append $servers (printf "https://%s-%d.%s-etcd.%s.svc:2379" $name $i $.space.name $.root.Release.Namespace) }}
{{- end }}
{{- end }}
{{- join "," $servers }}
{{- end }}

{{- /*
etcd-check fails if the release would go back to an etcd that a restoration has replaced: its StatefulSet is not there,
its volume is, and so is another etcd of the space.
*/}}
{{- define "starling.space.etcd-check" }}
{{- $name := include "starling.space.etcd-name" . }}
{{- $namespace := .root.Release.Namespace }}
{{- $others := list }}
{{- $present := false }}
{{- range (lookup "apps/v1" "StatefulSet" $namespace "").items }}
{{- $labels := .metadata.labels | default dict }}
{{- if and (eq (get $labels "starling.io/space") $.space.name) (eq (get $labels "app.kubernetes.io/name") "etcd") }}
{{- if eq .metadata.name $name }}
{{- $present = true }}
{{- else }}
{{- $others = append $others .metadata.name }}
{{- end }}
{{- end }}
{{- end }}
{{- if and $others (not $present) (lookup "v1" "PersistentVolumeClaim" $namespace (printf "data-%s-0" $name)) }}
{{- fail (printf "space %q: restore.id %q is that of an older etcd, which has been replaced by %s: set restore.id to that of the last restoration, or to a new one" $.space.name $.space.restore.id (join ", " $others)) }}
{{- end }}
{{- end }}

{{- /* disruption is a PodDisruptionBudget of a component with several replicas. */}}
{{- define "starling.space.disruption" }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ .objectName }}
  labels: {{- include "starling.space.labels" . | nindent 4 }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels: {{- include "starling.space.selector" . | nindent 6 }}
{{- end }}
