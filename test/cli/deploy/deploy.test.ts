// What is in deploy/ and the Dockerfile cannot be run here, so its shape and its names are checked.
import { existsSync, readFileSync } from "node:fs";
import { Script } from "node:vm";
import { describe, expect, test } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { z } from "zod";
import { buildProgram } from "../../../src/cli/program/program.ts";
import { SETTINGS } from "../../../src/config/settings.ts";

const SEE = /^\$\{[A-Z_]+:\?.+\}$/;

const service = z.strictObject({
  build: z.string().optional(),
  image: z.string().regex(/^[a-z]+(?::\d+(?:\.\d+)?)?$/),
  command: z.array(z.string()).optional(),
  hostname: z.string().optional(),
  restart: z.literal("unless-stopped"),
  environment: z.record(z.string().regex(/^[A-Z_]+$/), z.string()),
  depends_on: z.record(z.string(), z.strictObject({ condition: z.literal("service_healthy") })).optional(),
  // On this machine only: the nodes have a token, but no encryption.
  ports: z.array(z.string().regex(/^127\.0\.0\.1:\d+:\d+$/)).optional(),
  volumes: z.array(z.string().regex(/^[\w./-]+:\/[\w/]+(?::ro)?$/)).optional(),
  healthcheck: z.strictObject({
    test: z.tuple([z.literal("CMD")]).rest(z.string()),
    interval: z.string().regex(/^\d+s$/),
    timeout: z.string().regex(/^\d+s$/),
    retries: z.int().min(1),
    start_period: z
      .string()
      .regex(/^\d+s$/)
      .optional(),
  }),
  stop_grace_period: z
    .string()
    .regex(/^\d+s$/)
    .optional(),
  shm_size: z.string().optional(),
});

const COMPOSE = z.strictObject({
  name: z.literal("rondo"),
  services: z.record(z.string().regex(/^[a-z][a-z0-9-]*$/), service),
  volumes: z.record(z.string(), z.strictObject({})),
});

describe("deploy/compose.yml", () => {
  const raw = parse(readFileSync("deploy/compose.yml", "utf8"), { merge: true }) as Record<string, unknown>;
  const compose = COMPOSE.parse(
    Object.fromEntries(Object.entries(raw).filter(([key]) => !key.startsWith("x-"))),
  );
  const { services } = compose;
  const ofRondo = Object.entries(services).filter(([, { image }]) => image === "rondo");

  test("has a database, a broker, three nodes and two workers", () => {
    expect(Object.keys(services)).toEqual([
      "postgres",
      "rabbitmq",
      "node-1",
      "node-2",
      "node-3",
      "worker-1",
      "worker-2",
    ]);
    expect(services["postgres"]?.image).toBe("postgres:15");
  });

  test("depends on services that are there, and mounts volumes that are there", () => {
    for (const { depends_on: needed = {}, volumes = [] } of Object.values(services)) {
      for (const other of Object.keys(needed)) expect(services).toHaveProperty(other);
      for (const volume of volumes) {
        const [from = ""] = volume.split(":");
        if (!from.startsWith(".")) expect(compose.volumes).toHaveProperty([from]);
      }
    }
    const mounted = Object.values(services).flatMap(({ volumes = [] }) =>
      volumes.map((v) => v.split(":")[0]),
    );
    for (const name of Object.keys(compose.volumes)) expect(mounted).toContain(name);
  });

  test("asks for health by scripts that can be read", () => {
    const scripts = ofRondo.map(([, { healthcheck }]) => (healthcheck.test[3] ?? "").replaceAll("$$", "$"));
    for (const script of scripts) expect(new Script(script)).toBeDefined();
    expect(new Set(scripts).size).toBe(2);
  });

  test("publishes no port twice", () => {
    const ports = Object.values(services).flatMap(
      (one) => one.ports?.map((port) => port.split(":")[1]) ?? [],
    );
    expect(ports).toEqual(["7777", "7778", "7779"]);
  });

  test("sets only what the configuration knows", () => {
    const known = Object.values(SETTINGS as Record<string, { env?: string }>).map(({ env }) => env);
    for (const [, { environment }] of ofRondo)
      for (const name of Object.keys(environment)) expect(known).toContain(name);
  });

  test("holds no secret: each is asked for, and is missing loudly", () => {
    const secret = /SECRET|TOKEN|PASS/;
    for (const { environment } of Object.values(services))
      for (const [name, value] of Object.entries(environment)) {
        if (secret.test(name)) expect(value).toMatch(SEE);
        const password = /:\/\/[^:/]+:(.+)@/.exec(value)?.[1];
        if (password !== undefined) expect(password).toMatch(SEE);
      }
  });

  test("gives nodes one secret, one store and a name of their own, and workers a node", () => {
    const nodes = ofRondo.filter(([name]) => name.startsWith("node-"));
    for (const name of ["RONDO_SECRET", "RONDO_STORE", "RONDO_BROKER"])
      expect(new Set(nodes.map(([, { environment }]) => environment[name])).size).toBe(1);
    for (const [name, { environment }] of nodes) {
      expect(environment["RONDO_ADVERTISE"]).toBe(`http://${name}:7777`);
      expect(environment["RONDO_HOST"]).toBe("0.0.0.0");
    }
    for (const [, { environment, depends_on: needed = {} }] of ofRondo.filter(([name]) =>
      name.startsWith("worker-"),
    ))
      expect(Object.keys(needed)).toContain(new URL(environment["RONDO_URL"] ?? "").hostname);
  });

  test("starts workers by flags that there are, with time to end", () => {
    const command = services["worker-1"]?.command ?? [];
    const verb = buildProgram(() => {}).commands.find((one) => one.name() === command[0]);
    const flags = verb?.options.map(({ long }) => long);
    for (const flag of command.filter((text) => text.startsWith("--"))) expect(flags).toContain(flag);
    const grace = Number.parseInt(command[command.indexOf("--grace") + 1] ?? "", 10);
    expect(Number.parseInt(services["worker-1"]?.stop_grace_period ?? "", 10)).toBeGreaterThan(grace);
  });
});

describe("deploy/keda-scaledobject.yml", () => {
  test("is YAML, and starts workers by flags that there are", () => {
    const documents = parseAllDocuments(readFileSync("deploy/keda-scaledobject.yml", "utf8"));
    expect(documents.flatMap(({ errors }) => errors)).toEqual([]);
    const args =
      /args: \[rondo, (.*)\]/.exec(readFileSync("deploy/keda-scaledobject.yml", "utf8"))?.[1] ?? "";
    const verb = buildProgram(() => {}).commands.find((one) => one.name() === args.split(",")[0]);
    const flags = verb?.options.map(({ long }) => long);
    for (const [flag] of args.matchAll(/--[a-z-]+/g)) expect(flags).toContain(flag);
  });
});

describe("the Dockerfile", () => {
  const text = readFileSync("Dockerfile", "utf8").replaceAll("\\\n", "");
  const steps = text.split("\n").filter((line) => /^[A-Z]+ /.test(line));
  const last = steps.slice(steps.findLastIndex((step) => step.startsWith("FROM")));
  const of = (name: string, among = steps): string[] =>
    among.filter((step) => step.startsWith(`${name} `)).map((step) => step.slice(name.length + 1));

  test("copies what is there, and into the image only what is needed to run", () => {
    for (const copy of of("COPY").filter((one) => !one.startsWith("--from")))
      for (const source of copy.split(" ").slice(0, -1)) expect(existsSync(source), source).toBe(true);
    expect(of("COPY", last).flatMap((copy) => copy.split(" ").at(-1))).toEqual([
      "./",
      "bin",
      "node_modules",
      "dist",
    ]);
    expect(text).toContain("npm prune --omit=dev");
    const { files } = JSON.parse(readFileSync("package.json", "utf8")) as { files: string[] };
    // The package has pages, examples and templates too; an image that runs it needs none of them.
    const isRun = (name: string): boolean =>
      !/^!|^docs\b|^examples\b|^deploy\b|^llms\.txt$|^ARCHITECTURE\.md$|^Dockerfile$/.test(name);
    for (const name of files.filter(isRun))
      expect(of("COPY", last).some((copy) => copy.split(" ").at(-1) === name)).toBe(true);
  });

  test("copies all that the build reads", () => {
    const { scripts } = JSON.parse(readFileSync("package.json", "utf8")) as { scripts: { build: string } };
    const reads = ["src", "tools", ...scripts.build.split(" ").filter((word) => existsSync(word))];
    const copied = of("COPY", steps.slice(0, -last.length)).flatMap((copy) => copy.split(" ").slice(0, -1));
    for (const path of reads) expect(copied).toContain(path);
  });

  test("is built from the oldest Node that is supported, in stages, and does not run as root", () => {
    expect(of("FROM")).toEqual(["node:24-slim AS build", "node:24-slim"]);
    const user = of("USER", last).at(-1);
    expect(user).toBe("node");
    expect(last.findIndex((step) => step.startsWith("USER"))).toBeLessThan(
      last.findIndex((step) => step.startsWith("ENTRYPOINT")),
    );
  });

  test("is asked for its health where the server answers, and stops by the signal that ends it well", () => {
    const health = of("HEALTHCHECK", last)[0] ?? "";
    expect(health).toContain("/healthz");
    const script = (JSON.parse(/CMD (\[.*\])/.exec(health)?.[1] ?? "[]") as string[])[2] ?? "";
    expect(new Script(script)).toBeDefined();
    expect(of("STOPSIGNAL", last)).toEqual(["SIGTERM"]);
  });

  test("sets only what the configuration knows", () => {
    const known = Object.values(SETTINGS as Record<string, { env?: string }>).map(({ env }) => env);
    for (const [, name] of text.matchAll(/\b(RONDO_[A-Z_]+)\b/g)) expect(known).toContain(name);
  });
});
