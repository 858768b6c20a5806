// The chart in deploy/helm/rondo cannot be installed here: what it renders to is checked, its shape, its names, its values.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Validator } from "@cfworker/json-schema";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { z } from "zod";
import { buildProgram } from "../../../src/cli/program/program.ts";
import { SETTINGS } from "../../../src/config/settings.ts";
import { renderChart } from "../../fixtures/cli/render-chart.ts";

const CHART = "deploy/helm/rondo";
const SECRET = { store: "postgres://rondo:x@db:5432/rondo", secret: "s", adminToken: "a" };
const BROKER = { broker: "amqp://rondo:x@mq:5672" };
const WORKERS = { enabled: true, image: "mine", keda: { enabled: true } };

const labels = z.record(z.string().regex(/^app\.kubernetes\.io\/[a-z-]+$/), z.string());
const metadata = z.strictObject({ name: z.string().regex(/^[a-z][a-z0-9-]*$/), labels });
const selector = z.strictObject({ matchLabels: labels });
const ref = z.strictObject({ name: z.string(), key: z.string(), optional: z.literal(true).optional() });
const source = z.strictObject({
  secretKeyRef: ref.optional(),
  fieldRef: z.strictObject({ fieldPath: z.literal("metadata.name") }).optional(),
});
const probe = z.strictObject({
  httpGet: z.strictObject({ path: z.string(), port: z.string() }),
  periodSeconds: z.int(),
  timeoutSeconds: z.int().optional(),
  failureThreshold: z.int(),
});
const container = z.strictObject({
  name: z.string(),
  image: z.string(),
  imagePullPolicy: z.string(),
  args: z.array(z.string()),
  ports: z.array(z.strictObject({ name: z.string(), containerPort: z.int() })),
  env: z.array(
    z.strictObject({ name: z.string(), value: z.string().optional(), valueFrom: source.optional() }),
  ),
  startupProbe: probe,
  livenessProbe: probe,
  readinessProbe: probe.optional(),
  securityContext: z.strictObject({
    allowPrivilegeEscalation: z.literal(false),
    readOnlyRootFilesystem: z.literal(true).optional(),
    capabilities: z.strictObject({ drop: z.tuple([z.literal("ALL")]) }),
  }),
  resources: z.strictObject({
    requests: z.record(z.string(), z.string()),
    limits: z.record(z.string(), z.string()),
  }),
  volumeMounts: z.array(
    z.strictObject({ name: z.string(), mountPath: z.string(), readOnly: z.boolean().optional() }),
  ),
});
const pod = z.strictObject({
  terminationGracePeriodSeconds: z.int(),
  automountServiceAccountToken: z.literal(false),
  securityContext: z.strictObject({
    runAsNonRoot: z.literal(true),
    runAsUser: z.int().min(1),
    fsGroup: z.int(),
    seccompProfile: z.strictObject({ type: z.literal("RuntimeDefault") }),
  }),
  topologySpreadConstraints: z.array(z.looseObject({ labelSelector: selector })).optional(),
  containers: z.tuple([container]),
  volumes: z.array(
    z.strictObject({
      name: z.string(),
      configMap: z.strictObject({ name: z.string() }).optional(),
      emptyDir: z.strictObject({}).optional(),
    }),
  ),
});
const template = z.strictObject({ metadata: z.strictObject({ labels }), spec: pod });
const ofKind = <K extends string, S extends z.ZodType>(apiVersion: string, kind: K, spec: S) =>
  z.strictObject({ apiVersion: z.literal(apiVersion), kind: z.literal(kind), metadata, spec });

const OBJECT = z.discriminatedUnion("kind", [
  z.strictObject({
    apiVersion: z.literal("v1"),
    kind: z.literal("Secret"),
    metadata,
    type: z.literal("Opaque"),
    stringData: z.record(z.string(), z.string().min(1)),
  }),
  z.strictObject({
    apiVersion: z.literal("v1"),
    kind: z.literal("ConfigMap"),
    metadata,
    data: z.record(z.string(), z.string()),
  }),
  ofKind(
    "v1",
    "Service",
    z.strictObject({
      clusterIP: z.literal("None").optional(),
      publishNotReadyAddresses: z.boolean().optional(),
      selector: labels,
      ports: z.array(z.strictObject({ name: z.string(), port: z.int(), targetPort: z.string() })),
    }),
  ),
  ofKind(
    "apps/v1",
    "StatefulSet",
    z.strictObject({
      serviceName: z.string(),
      replicas: z.int(),
      podManagementPolicy: z.literal("Parallel"),
      selector,
      template,
    }),
  ),
  ofKind("apps/v1", "Deployment", z.strictObject({ replicas: z.int().optional(), selector, template })),
  ofKind("policy/v1", "PodDisruptionBudget", z.strictObject({ maxUnavailable: z.int(), selector })),
  ofKind(
    "keda.sh/v1alpha1",
    "TriggerAuthentication",
    z.strictObject({
      secretTargetRef: z.array(z.strictObject({ parameter: z.string(), name: z.string(), key: z.string() })),
    }),
  ),
  ofKind(
    "keda.sh/v1alpha1",
    "ScaledObject",
    z.strictObject({
      scaleTargetRef: z.strictObject({ name: z.string() }),
      minReplicaCount: z.int(),
      maxReplicaCount: z.int(),
      pollingInterval: z.int(),
      cooldownPeriod: z.int(),
      triggers: z.array(
        z.strictObject({
          type: z.literal("metrics-api"),
          metadata: z.record(z.string(), z.string()),
          authenticationRef: z.strictObject({ name: z.string() }),
        }),
      ),
    }),
  ),
]);

const render = (over: Record<string, unknown>) =>
  renderChart(CHART, over).objects.map((one) => OBJECT.parse(one));
const all = render({
  secret: { ...SECRET, ...BROKER },
  workers: WORKERS,
  hosts: ["rondo.example.org"],
  config: { retention: "7d" },
});

function one<K extends z.infer<typeof OBJECT>["kind"]>(kind: K, name = "") {
  const found = all.find((object) => object.kind === kind && object.metadata.name.endsWith(name));
  return found as Extract<z.infer<typeof OBJECT>, { kind: K }>;
}
const pods = [one("StatefulSet").spec, one("Deployment").spec];

describe("deploy/helm/rondo", () => {
  test("has nodes only, unless workers are wanted", () => {
    expect(render({ secret: SECRET }).map(({ kind }) => kind)).toEqual([
      "ConfigMap",
      "StatefulSet",
      "PodDisruptionBudget",
      "Secret",
      "Service",
      "Service",
    ]);
    expect(all.map(({ kind }) => kind)).toEqual(expect.arrayContaining(["Deployment", "ScaledObject"]));
    expect(one("Deployment").spec.replicas).toBeUndefined();
  });

  test("asks for what is missing", () => {
    for (const name of Object.keys(SECRET))
      expect(() => render({ secret: { ...SECRET, [name]: "" } })).toThrow(`secret.${name} is needed`);
    expect(() => render({ secret: SECRET, workers: { enabled: true } })).toThrow("workers.image is needed");
  });

  test("uses a secret that is there instead of making one", () => {
    const objects = render({ secret: { existing: "mine" } });
    expect(objects.some(({ kind }) => kind === "Secret")).toBe(false);
    expect(JSON.stringify(objects)).toContain('"secretKeyRef":{"name":"mine","key":"store"}');
  });

  test("takes keys of secrets that are there, and selects pods by labels that they have", () => {
    const keys = Object.keys(one("Secret").stringData);
    for (const [, key] of JSON.stringify(all).matchAll(/"name":"rondo","key":"(\w+)"/g))
      expect(keys).toContain(key);
    for (const { selector: wanted, template: made } of pods)
      expect(made.metadata.labels).toMatchObject(wanted.matchLabels);
    for (const object of all)
      if (object.kind === "Service")
        expect(pods[0]?.template.metadata.labels).toMatchObject(object.spec.selector);
    expect(one("StatefulSet").spec.serviceName).toBe(one("Service", "-nodes").metadata.name);
    expect(one("ScaledObject").spec.scaleTargetRef.name).toBe(one("Deployment").metadata.name);
  });

  test("sets only what the configuration knows, by variables and in the file", () => {
    const known = Object.values(SETTINGS as Record<string, { env?: string }>).map(({ env }) => env);
    const named = pods.flatMap(({ template: made }) => made.spec.containers[0].env.map(({ name }) => name));
    for (const name of named) expect([...known, "RONDO_CONFIG", "POD_NAME"]).toContain(name);
    const config = JSON.parse(one("ConfigMap").data["rondo.config.json"] ?? "") as Record<string, unknown>;
    for (const name of Object.keys(config)) expect(Object.keys(SETTINGS)).toContain(name);
    expect(config).toEqual({
      hosts: ["rondo", "rondo.flows", "rondo.flows.svc", "rondo.example.org"],
      retention: "7d",
    });
  });

  test("gives each node a name of its own that the others can reach", () => {
    const [node] = one("StatefulSet").spec.template.spec.containers;
    const advertise = node.env.find(({ name }) => name === "RONDO_ADVERTISE")?.value;
    expect(advertise).toBe("http://$(POD_NAME).rondo-nodes.flows.svc:7777");
    // A variable can name those before it only.
    expect(node.env[0]?.name).toBe("POD_NAME");
  });

  test("probes ports and paths that there are, and mounts volumes that there are", () => {
    for (const { template: made } of pods) {
      const [{ ports, startupProbe, livenessProbe, readinessProbe, volumeMounts }] = made.spec.containers;
      for (const { httpGet } of [startupProbe, livenessProbe, readinessProbe].filter(
        (one) => one !== undefined,
      )) {
        expect(ports.map(({ name }) => name)).toContain(httpGet.port);
        expect(["/healthz", "/readyz"]).toContain(httpGet.path);
      }
      expect(volumeMounts.map(({ name }) => name)).toEqual(made.spec.volumes.map(({ name }) => name));
    }
  });

  test("starts processes by verbs and flags that there are, with time to end", () => {
    const [worker] = one("Deployment").spec.template.spec.containers;
    for (const { args } of [worker, one("StatefulSet").spec.template.spec.containers[0]]) {
      const verb = buildProgram(() => {}).commands.find((command) => command.name() === args[0]);
      const flags = verb?.options.map(({ long }) => long);
      for (const flag of args.filter((text) => text.startsWith("--"))) expect(flags).toContain(flag);
    }
    const grace = Number.parseInt(worker.args[worker.args.indexOf("--grace") + 1] ?? "", 10);
    expect(one("Deployment").spec.template.spec.terminationGracePeriodSeconds).toBeGreaterThan(grace);
  });

  test("has values that fit their schema, which refuses others", () => {
    const schema = JSON.parse(readFileSync(join(CHART, "values.schema.json"), "utf8")) as never;
    const values = parse(readFileSync(join(CHART, "values.yaml"), "utf8")) as Record<string, unknown>;
    const validate = (value: unknown) => new Validator(schema, "7", false).validate(value);
    expect(validate(values).errors).toEqual([]);
    expect(validate({ ...values, nodes: { replicas: 0 } }).valid).toBe(false);
    expect(validate({ ...values, node: {} }).valid).toBe(false);
    expect(validate({ ...values, secret: { store: "file:.rondo" } }).valid).toBe(false);
  });

  test("is of this version, and says that it was not run", () => {
    const chart = parse(readFileSync(join(CHART, "Chart.yaml"), "utf8")) as { appVersion: string };
    expect(chart.appVersion).toBe(
      (JSON.parse(readFileSync("package.json", "utf8")) as { version: string }).version,
    );
    expect(readFileSync(join(CHART, "values.yaml"), "utf8")).toContain("was not installed where it was");
  });

  test("names commands in its notes that there are", () => {
    const notes = renderChart(CHART, { secret: SECRET }).files["NOTES.txt"] ?? "";
    const verbs = buildProgram(() => {}).commands.map((command) => command.name());
    const named = Array.from(notes.matchAll(/^ +rondo (\w+)/gm), ([, verb]) => verb);
    expect(named.length).toBeGreaterThan(1);
    for (const verb of named) expect(verbs).toContain(verb);
  });
});
