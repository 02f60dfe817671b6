{{- define "switchyard.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "switchyard.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "switchyard.labels" -}}
{{ include "switchyard.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "switchyard.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (include "switchyard.name" .) }}
{{- end }}

{{- define "switchyard.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* switchyard.yaml, with the times that the pod's own grace period is made of. */}}
{{- define "switchyard.config" -}}
{{- $drain := dict "drain_delay_seconds" (int .Values.drain.delaySeconds) "drain_seconds" (int .Values.drain.seconds) }}
{{- toYaml (mergeOverwrite (deepCopy .Values.config) (dict "server" $drain)) }}
{{- end }}

{{- define "switchyard.env" -}}
- name: SWITCHYARD_CONFIG
  value: /etc/switchyard/switchyard.yaml
- name: PORT
  value: "8080"
- name: METRICS_PORT
  value: "9464"
{{- with .Values.database }}
{{- if and .bundled.enabled .urlSecret.name }}
{{- fail "database.bundled.enabled and database.urlSecret.name exclude each other: the gateways use one database" }}
{{- end }}
{{- if .urlSecret.name }}
- name: DATABASE_URL
  valueFrom:
    secretKeyRef:
      name: {{ .urlSecret.name }}
      key: {{ .urlSecret.key }}
{{- else if .bundled.enabled }}
- name: POSTGRES_PASSWORD
  valueFrom:
    secretKeyRef:
      name: {{ .bundled.existingSecret }}
      key: password
- name: DATABASE_URL
  value: postgres://switchyard:$(POSTGRES_PASSWORD)@{{ include "switchyard.name" $ }}-postgres:5432/switchyard
{{- end }}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* What a container of this image may do: nothing but write to its own volumes. */}}
{{- define "switchyard.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "switchyard.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end }}
