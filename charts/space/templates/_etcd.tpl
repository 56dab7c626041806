{{- /* etcd is a StatefulSet, in which each replica has a volume. */}}
{{- define "starling.space.etcd" }}
{{- $name := printf "%s-etcd" .space.name }}
{{- $domain := printf "%s.%s.svc" $name .root.Release.Namespace }}
{{- $args := merge (dict "component" "etcd" "spread" true) . }}
---
apiVersion: v1
kind: Service
metadata:
  name: {{ $name }}
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
  serviceName: {{ $name }}
  replicas: {{ .space.etcd.replicas }}
  podManagementPolicy: Parallel
  selector:
    matchLabels: {{- include "starling.space.selector" $args | nindent 6 }}
  template:
    metadata: {{- include "starling.space.pod-metadata" $args | nindent 6 }}
    spec:
      {{- include "starling.space.pod" $args | nindent 6 }}
      automountServiceAccountToken: false
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
        {{- if gt (int .space.etcd.replicas) 1 }}
        {{- $peers := list }}
        {{- range $i := until (int .space.etcd.replicas) }}
        {{- $peers = append $peers (printf "%s-%d=https://%s-%d.%s:2380" $name $i $name $i $domain) }}
        {{- end }}
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
        secret: {secretName: {{ $name }}}
      - name: tmp
        emptyDir: {}
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
{{ include "starling.space.disruption" (merge (dict "objectName" $name) $args) }}
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
