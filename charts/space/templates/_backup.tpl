{{- /* A CronJob writes snapshots of etcd into a volume, which stays when the release is uninstalled. */}}
{{- define "starling.space.backup" }}
{{- $name := printf "%s-backup" .space.name }}
{{- $args := merge (dict "component" "backup") . }}
{{- $backup := .space.backup }}
{{- if not $backup.storage.existingClaim }}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: {{ $name }}
  labels: {{- include "starling.space.labels" $args | nindent 4 }}
  annotations:
    helm.sh/resource-policy: keep
spec:
  accessModes: [{{ $backup.storage.accessMode }}]
  {{- with $backup.storage.className }}
  storageClassName: {{ . }}
  {{- end }}
  resources:
    requests:
      storage: {{ $backup.storage.size }}
{{- end }}
---
# A backup with each release. Helm waits until the claim is bound, which some storage does only for a pod.
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ $name }}-{{ .root.Release.Revision }}
  labels: {{- include "starling.space.labels" $args | nindent 4 }}
spec:
  backoffLimit: 10
  template: {{- include "starling.space.backup-pod" $args | nindent 4 }}
---
apiVersion: batch/v1
kind: CronJob
metadata:
  name: {{ $name }}
  labels: {{- include "starling.space.labels" $args | nindent 4 }}
spec:
  schedule: {{ $backup.schedule | quote }}
  concurrencyPolicy: Forbid
  successfulJobsHistoryLimit: 1
  jobTemplate:
    spec:
      backoffLimit: 3
      template: {{- include "starling.space.backup-pod" $args | nindent 8 }}
{{- end }}

{{- define "starling.space.backup-pod" -}}
metadata: {{- include "starling.space.pod-metadata" . | nindent 2 }}
spec:
  {{- include "starling.space.pod" . | nindent 2 }}
  {{- if not .space.affinity }}
  # While it is restored, etcd may mount the volume, and only one node may.
  affinity:
    podAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels: {{- include "starling.space.selector" (dict "space" .space "component" "etcd") | nindent 14 }}
  {{- end }}
  automountServiceAccountToken: false
  restartPolicy: OnFailure
  containers:
  - name: backup
    {{- include "starling.space.container" . | nindent 4 }}
    args:
    - space
    - backup
    - --space={{ .space.name }}
    - --type={{ .space.kind }}
    - --endpoint={{ include "starling.space.etcd-endpoints" . }}
    - --ca=/certificates/ca.crt
    - --cert=/certificates/client.crt
    - --key=/certificates/client.key
    - --dir=/backups
    - --keep={{ .space.backup.keep }}
    resources: {{- toYaml .space.backup.resources | nindent 6 }}
    volumeMounts:
    - {name: backups, mountPath: /backups}
    - {name: certificates, mountPath: /certificates, readOnly: true}
    - {name: tmp, mountPath: /tmp}
  volumes:
  - name: backups
    persistentVolumeClaim: {claimName: {{ include "starling.space.backup-claim" . }}}
  - name: certificates
    secret:
      secretName: {{ .space.name }}-etcd
      items:
      - {key: ca.crt, path: ca.crt}
      - {key: client.crt, path: client.crt}
      - {key: client.key, path: client.key}
  - name: tmp
    emptyDir: {}
{{- end }}

{{- define "starling.space.backup-claim" -}}
{{ .space.backup.storage.existingClaim | default (printf "%s-backup" .space.name) }}
{{- end }}
