// The demo's own routes: only on its server, and only for those who may operate.
import { expect, onTestFinished, test } from "vitest";
import { openServer } from "../../../src/compose/compose-server.ts";
import type { ApiExtension } from "../../../src/server/parts.ts";
import { MemoryStore } from "../../../src/store/memory/memory-store.ts";
import { demoExtension } from "../../../tools/demo/demo-routes.ts";
import type { Deed, Stage } from "../../../tools/demo/stage.ts";

const ADMIN = "an-admin-token-for-this-test";

async function serve(extension?: ApiExtension) {
  const server = await openServer({
    store: new MemoryStore(),
    port: 0,
    adminToken: ADMIN,
    ...(extension === undefined ? {} : { extension }),
  });
  onTestFinished(() => server.close({ graceMs: 0 }));
  const ask = (method: string, path: string, sent: { token?: string; body?: unknown } = {}) =>
    fetch(`${server.url}${path}`, {
      method,
      headers: {
        ...(sent.token === undefined ? {} : { authorization: `Bearer ${sent.token}` }),
        ...(sent.body === undefined ? {} : { "content-type": "application/json" }),
      },
      ...(sent.body === undefined ? {} : { body: JSON.stringify(sent.body) }),
    });
  return ask;
}

test("buttons work for operators, viewers only look, and nobody else sees anything", async () => {
  const done: Deed[] = [];
  const stage = {
    show: () => ({ step: "done", isStaying: true }),
    act: async (deed: Deed) => {
      done.push(deed);
      return `did ${deed}`;
    },
  } as unknown as Stage;
  const ask = await serve(demoExtension(() => stage));
  const tokens: Record<string, string> = {};
  for (const role of ["viewer", "operator", "worker"]) {
    const made = await ask("POST", "/v1/tokens", { token: ADMIN, body: { name: role, role } });
    tokens[role] = ((await made.json()) as { token: string }).token;
  }
  const statuses = async (method: string, body?: unknown): Promise<number[]> => {
    const all = [undefined, tokens["worker"], tokens["viewer"], tokens["operator"]];
    const answers = await Promise.all(
      all.map((token) => ask(method, "/v1/demo", { ...(token === undefined ? {} : { token }), body })),
    );
    return answers.map(({ status }) => status);
  };
  expect(await statuses("GET")).toEqual([401, 403, 200, 200]);
  expect(await statuses("POST", { deed: "kill" })).toEqual([401, 403, 403, 200]);
  expect(done).toEqual(["kill"]);
  expect((await ask("POST", "/v1/demo", { token: ADMIN, body: { deed: "explode" } })).status).toBe(422);
  expect((await ask("GET", "/demo")).status).toBe(200);
});

test("an ordinary server has neither the routes nor the page", async () => {
  const ask = await serve();
  for (const [method, path] of [
    ["GET", "/v1/demo"],
    ["POST", "/v1/demo"],
    ["GET", "/demo"],
  ] as const)
    expect((await ask(method, path, { token: ADMIN })).status, path).toBe(404);
});
