// Where settings come from: flag > environment > file > default, each with its origin, and mistakes with their place.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { loadLightModule } from "../../src/cli/load/load-module.ts";
import { type LoadedConfig, loadConfig } from "../../src/config/load-config.ts";
import type { RondoError } from "../../src/std/rejection.ts";

interface Given {
  readonly flags?: Record<string, unknown>;
  readonly env?: Record<string, string>;
  readonly files?: Record<string, string>;
}

function load({ flags = {}, env = {}, files = {} }: Given): Promise<LoadedConfig> {
  const cwd = mkdtempSync(join(tmpdir(), "rondo-config-"));
  onTestFinished(() => rmSync(cwd, { recursive: true, force: true }));
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(join(cwd, name, ".."), { recursive: true });
    writeFileSync(join(cwd, name), text);
  }
  return loadConfig({ flags, env, cwd, loadModule: loadLightModule });
}

async function refusal(given: Given): Promise<Pick<RondoError, "code" | "message">> {
  const { code, message } = await load(given).then(
    () => expect.unreachable("it was not refused"),
    (error: RondoError) => error,
  );
  return { code, message };
}

describe("a value", () => {
  const files = { "rondo.config.json": '{ "port": 1, "host": "file", "store": "file:a" }' };

  test("of a flag beats one of the environment, which beats one of the file, which beats the default", async () => {
    const { config, origins } = await load({
      flags: { port: "3", store: undefined },
      env: { RONDO_PORT: "2", RONDO_HOST: "env" },
      files,
    });
    expect([config.port, config.host, config.store, config.prefix]).toEqual([3, "env", "file:a", "rondo"]);
    expect([origins.port, origins.host, origins.store, origins.prefix]).toEqual([
      { kind: "flag", name: "port" },
      { kind: "environment", name: "RONDO_HOST" },
      { kind: "file", name: "rondo.config.json" },
      { kind: "default" },
    ]);
  });

  test("without any origin is the default", async () => {
    const { config, file } = await load({});
    expect(file).toBe(null);
    expect(config).toEqual({
      store: "file:.rondo",
      broker: null,
      prefix: "rondo",
      host: "127.0.0.1",
      port: 7_777,
      advertise: null,
      hosts: [],
      cors: { origins: [] },
      files: [],
      stateStores: {},
      allowTargets: [],
      webhookSecrets: [],
      alerts: {},
      projects: {},
      receiptTopics: [],
      brokerSilence: 300_000,
      brokerRequests: "trusted",
      shortMessages: false,
      ring: {},
      turnMessages: 256,
      retention: 2_592_000_000,
      eventsKept: 604_800_000,
      webhooks: {},
      lease: 10_000,
      claimLease: 30_000,
      sweep: 10_000,
      heartbeat: 30_000,
      limits: {},
      url: null,
      token: null,
      secret: null,
      adminToken: null,
    });
  });

  test("that is empty in the environment, or an empty list of arguments, is none", async () => {
    const { config } = await load({ flags: { files: [] }, env: { RONDO_STORE: "" } });
    expect([config.store, config.files]).toEqual(["file:.rondo", []]);
  });
});

describe("the file", () => {
  test.each([
    ["rondo.config.ts", "const n: number = 5;\nexport default { port: n } as { port: number };"],
    ["rondo.config.js", "export default { port: 5 };"],
    ["rondo.config.json", '{ "port": 5 }'],
  ])("may be %s", async (name, text) => {
    const { config, origins } = await load({ files: { [name]: text, "package.json": '{"type":"module"}' } });
    expect([config.port, origins.port]).toEqual([5, { kind: "file", name }]);
  });

  test("of code may use rondo, and is told with its place if it is broken", async () => {
    const uses = 'import { RondoError } from "rondo";\nexport default { port: RondoError.name.length };';
    expect((await load({ files: { "rondo.config.ts": uses } })).config.port).toBe(10);
    await expect(load({ files: { "rondo.config.ts": "export default {\n  port: ;\n};" } })).rejects.toThrow(
      "rondo.config.ts:2:9: Unexpected token",
    );
  });

  test("that RONDO_CONFIG names is taken instead, and its paths are meant from its own folder", async () => {
    const { config, origins } = await load({
      env: { RONDO_CONFIG: "deep/other.json" },
      files: {
        "rondo.config.json": '{ "port": 5 }',
        "deep/other.json": '{ "port": 6, "store": "file:data", "files": ["flow.ts"] }',
      },
    });
    expect([config.port, config.store, config.files]).toEqual([6, "file:deep/data", ["deep/flow.ts"]]);
    expect(origins.port).toEqual({ kind: "file", name: "other.json" });
  });

  test("gives everything there is to set in it", async () => {
    const fields = {
      broker: "amqp://localhost",
      prefix: "p",
      advertise: "https://rondo.example/",
      hosts: ["rondo.example"],
      stateStores: { main: "embedded", other: { kind: "http", url: "http://localhost:3500" } },
      allowTargets: ["10.0.0.0/8"],
      webhookSecrets: ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
      projects: { billing: { concurrency: 5 } },
      retention: "7d",
      heartbeat: "15s",
      limits: { bodyBytes: 1_000 },
    };
    const { config } = await load({ files: { "rondo.config.json": JSON.stringify(fields) } });
    expect(config).toMatchObject({
      ...fields,
      advertise: "https://rondo.example",
      retention: 604_800_000,
      heartbeat: 15_000,
    });
  });
});

const MISTAKES: [what: string, given: Given, code: string, says: string][] = [
  [
    "a misspelt key",
    { files: { "rondo.config.json": '{ "prot": 1 }' } },
    "unknown_field",
    'rondo.config.json: prot: there is no such field (did you mean "port"? known are: store, broker,',
  ],
  [
    "a misspelt key further in",
    { files: { "rondo.config.json": '{ "projects": { "a": { "concurency": 1 } } }' } },
    "unknown_field",
    'rondo.config.json: projects.a.concurency: there is no such field (did you mean "concurrency"?',
  ],
  [
    "a token in a file",
    { files: { "rondo.config.json": '{ "token": "x" }' } },
    "unknown_field",
    "this setting is not allowed in a file: set RONDO_TOKEN in the environment",
  ],
  ["a port that is none", { flags: { port: "99999" } }, "invalid_input", '--port: "99999" is not a port'],
  ["a port of text", { env: { RONDO_PORT: "x" } }, "invalid_input", 'RONDO_PORT: "x" is not a port'],
  [
    "a mistake in a file that a flag overrules",
    { flags: { port: "1" }, files: { "rondo.config.json": '{ "port": "x" }' } },
    "invalid_input",
    'rondo.config.json: port: "x" is not a port',
  ],
  ["an address that is none", { flags: { url: "localhost:1" } }, "invalid_input", "--url: "],
  [
    "a list with a hole",
    { files: { "rondo.config.json": '{ "hosts": ["a", 1] }' } },
    "invalid_input",
    "rondo.config.json: hosts[1]: 1 is not a text",
  ],
  [
    "an origin with a path",
    { files: { "rondo.config.json": '{ "cors": { "origins": ["https://app.example/x"] } }' } },
    "invalid_input",
    'rondo.config.json: cors.origins[0]: "https://app.example/x" is not an origin',
  ],
  ["an origin without a scheme", { env: { RONDO_CORS: "*, app.example" } }, "invalid_input", "RONDO_CORS"],
  [
    "a limit of nothing",
    { files: { "rondo.config.json": '{ "projects": { "a": { "concurrency": 0 } } }' } },
    "invalid_input",
    "concurrency: 0 is not a whole number above zero",
  ],
  [
    "a time that is none",
    { files: { "rondo.config.json": '{ "retention": "soon" }' } },
    "invalid_input",
    '"soon" is not a duration',
  ],
  [
    "a lease of nothing",
    { files: { "rondo.config.json": '{ "lease": "0s" }' } },
    "invalid_input",
    'rondo.config.json: lease: "0s" is not a duration of at least 1 s',
  ],
  [
    "a heartbeat that nobody can keep",
    { files: { "rondo.config.json": '{ "heartbeat": 1 }' } },
    "invalid_input",
    "heartbeat: 1 is not a duration of at least 100 ms",
  ],
  [
    "a size with a unit",
    { files: { "rondo.config.json": '{ "limits": { "bodyBytes": "1MB" } }' } },
    "invalid_input",
    'limits.bodyBytes: "1MB" is not a whole number above zero (in bytes, without a unit, such as 1048576)',
  ],
  [
    "a limit of time with a unit",
    { files: { "rondo.config.json": '{ "limits": { "answerMs": "30s" } }' } },
    "invalid_input",
    "(in milliseconds, without a unit, such as 30000)",
  ],
  ["no JSON", { files: { "rondo.config.json": "{ port: 1 }" } }, "invalid_json", "is not JSON"],
  ["no object", { files: { "rondo.config.json": "[]" } }, "invalid_input", "does not contain an object"],
  [
    "a file that is not there",
    { env: { RONDO_CONFIG: "x.json" } },
    "not_found",
    "RONDO_CONFIG names the file x.json",
  ],
  [
    "two files",
    { files: { "rondo.config.json": "{}", "rondo.config.ts": "export default {};" } },
    "conflict",
    "several configuration files: rondo.config.ts, rondo.config.json",
  ],
];

test.each(MISTAKES)("%s is refused with its place", async (_, given, code, says) => {
  expect(await refusal(given)).toEqual({ code, message: expect.stringContaining(says) as string });
});

test("of post-operations can be in the environment", async () => {
  const { config, origins } = await load({
    env: {
      RONDO_STATE_STORES: '{ "main": "redis://r", "embedded": "embedded" }',
      RONDO_ALLOW_TARGETS: "lxi-ui-api:6001, 10.0.0.0/8",
      RONDO_CORS: "https://App.example/, http://localhost:5173",
      RONDO_WEBHOOK_SECRETS: "a-secret-of-16-bytes,whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    },
  });
  expect(config.stateStores).toEqual({ main: "redis://r", embedded: "embedded" });
  expect(config.allowTargets).toEqual(["lxi-ui-api:6001", "10.0.0.0/8"]);
  expect(config.webhookSecrets).toEqual(["a-secret-of-16-bytes", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]);
  expect(config.cors).toEqual({ origins: ["https://app.example", "http://localhost:5173"] });
  expect(origins.allowTargets).toEqual({ kind: "environment", name: "RONDO_ALLOW_TARGETS" });
  const byHost = await load({ env: { RONDO_WEBHOOK_SECRETS: '{ "a.b": ["a-secret-of-16-bytes"] }' } });
  expect(byHost.config.webhookSecrets).toEqual({ "a.b": ["a-secret-of-16-bytes"] });
});

test.each([
  ["stateStores", { "1x": "embedded" }, "is not a name"],
  ["stateStores", { a: "mysql://x" }, "stateStores.a.url: this is not an http address"],
  ["stateStores", { a: { kind: "redis" } }, "stateStores.a.url: this is not a redis:// address"],
  [
    "stateStores",
    { a: { kind: "mongo" } },
    'stateStores.a.kind: "mongo" is not one of "embedded", "postgres", "redis", "http"',
  ],
  ["stateStores", { a: { kind: "toString" } }, 'stateStores.a.kind: "toString" is not one of'],
  [
    "stateStores",
    { a: { kind: "redis", url: "redis://r", table: "x" } },
    "stateStores.a.table: there is no such",
  ],
  ["stateStores", { a: { kind: "postgres", url: "postgres://p", table: "a;b" } }, "stateStores.a.table"],
  ["stateStores", { a: "http://user:hunter2@h" }, "stateStores.a.url: this is not an http address"],
  ["stateStores", { a: 5 }, "stateStores.a: this is not a state store"],
  ["stateStores", { embedded: "redis://r" }, "is the name of Rondo's own store"],
  ["stateStores", "{", "is not JSON"],
  ["allowTargets", ["ok", "http://x"], "allowTargets[1]"],
  ["allowTargets", 5, "is not a list"],
  ["webhookSecrets", ["whsec_!"], "has a wrong value"],
  ["webhookSecrets", ["whsec_AAAA"], "has a wrong value"],
  ["webhookSecrets", ["short"], "has a wrong value"],
  ["webhookSecrets", { "a.b": "not a list" }, "has a wrong value"],
])("%s %j is refused", async (name, value, says) => {
  const { message } = await refusal({ files: { "rondo.config.json": JSON.stringify({ [name]: value }) } });
  expect(message).toContain(says);
  expect(message).not.toContain("hunter2");
});

test("a secret is not repeated when it is refused", async () => {
  const { message } = await refusal({
    files: { "rondo.config.json": '{ "webhookSecrets": ["hunter2", 5, "x"] }' },
  });
  expect(message).not.toContain("hunter2");
});
