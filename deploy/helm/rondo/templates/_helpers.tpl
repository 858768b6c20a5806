{{- define "rondo.labels" -}}
app.kubernetes.io/name: rondo
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "rondo.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- define "rondo.secret" -}}
{{ .Values.secret.existing | default .Release.Name }}
{{- end -}}

{{- define "rondo.config" -}}
{{ toJson (merge (dict "hosts" (concat (list .Release.Name (printf "%s.%s" .Release.Name .Release.Namespace) (printf "%s.%s.svc" .Release.Name .Release.Namespace)) .Values.hosts)) .Values.config) }}
{{- end -}}
