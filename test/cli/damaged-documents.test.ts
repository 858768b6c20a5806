// Damaged documents of an embedded store, at a real server: each concerns only itself, and nothing falls open.
import { join } from "node:path";
import { expect, test } from "vitest";
import { loadDriver } from "../../src/store/sqlite/driver.ts";
import { cli, type Ended, folder, startServer } from "../fixtures/cli/cli-process-fixture.ts";

/** What stands in the place of a stored body, in SQL. */
const DAMAGES: readonly [what: string, body: string][] = [
  ["one character is another", "substr(body, 1, 2) || '~' || substr(body, 4)"],
  ["no JSON and no checksum", "'{'"],
  ["JSON of another shape", "'5'"],
  ["bytes that are no text", "x'fffe00'"],
];

/** Damages the documents of these kinds, while no server has the file. */
async function damageDocuments(cwd: string, body: string): Promise<void> {
  const file = (await loadDriver()).open(join(cwd, ".rondo", "rondo.db"));
  file.exec(
    `UPDATE documents SET body = ${body} WHERE kind IN ('schedule', 'token', 'topic') AND id <> 'keeps'`,
  );
  file.close();
}

const step = (name: string, topic: string) => ({
  rondo: 2,
  name,
  phases: [{ name: "go", handlers: { go: { command: { cmd_type: "GO", cmd_data: {} }, topic } } }],
});

test.each(DAMAGES)("a damaged schedule, token and topic concern themselves only: %s", async (_, damage) => {
  const cwd = folder();
  const env = { RONDO_ADMIN_TOKEN: "admin-token-of-this-test" };
  const rondo = (...args: string[]): Promise<Ended> => cli(args, { cwd, env });
  const asker = (url: string) => async (path: string, body?: object) => {
    const answer = await fetch(url + path, {
      method: body === undefined ? "GET" : "POST",
      headers: { authorization: `Bearer ${env.RONDO_ADMIN_TOKEN}`, "content-type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return { status: answer.status, body: (await answer.json()) as Record<string, unknown> };
  };

  const first = await startServer({ cwd, env });
  const before = asker(first.url);
  for (const flow of [step("mine", "MINE_CMD"), step("theirs", "VIC_CMD")])
    expect((await before("/v1/workflows", flow)).status).toBe(201);
  for (const id of ["keeps", "nightly"])
    expect((await before("/v1/schedules", { id, workflow: "mine", cron: "0 3 * * *" })).status).toBe(201);
  expect((await before("/v1/executions", { workflow: "mine", input: {}, project: "open" })).status).toBe(201);
  const made = await before("/v1/tokens", { name: "o", role: "operator", project: "att" });
  expect(made.status).toBe(201);
  const foreign = { workflow: "theirs", input: {}, project: "att" };
  expect((await before("/v1/executions", foreign)).status).toBe(403);
  first.process.kill("SIGTERM");
  expect(await first.process.ended).toMatchObject({ code: 0 });

  await damageDocuments(cwd, damage);
  const server = await startServer({ cwd, env });
  const ask = asker(server.url);
  await server.process.line(/schedule nightly is damaged and starts nothing/);
  await server.process.line(/a token is damaged.*rondo token revoke/);

  // The schedule: the others are listed, and it can be put again or deleted.
  expect(await ask("/v1/schedules")).toMatchObject({
    status: 200,
    body: { data: [{ id: "keeps" }], damaged: [{ id: "nightly" }] },
  });
  expect(await ask("/v1/schedules/nightly")).toMatchObject({ status: 409 });
  expect(await rondo("schedules")).toMatchObject({
    code: 0,
    stdout: expect.stringContaining("keeps"),
    stderr: expect.stringContaining("schedule nightly is damaged"),
  });

  // The token: its project stays guarded.
  expect((await ask("/v1/executions", foreign)).status).toBe(403);
  const { body: tokens } = await ask("/v1/tokens");
  const [{ id: token }] = tokens.damaged as [{ id: string }];

  // The topic: what uses it is refused, with the remedy.
  const mine = { workflow: "mine", input: {}, project: "MINE" };
  expect(await ask("/v1/executions", mine)).toMatchObject({
    status: 409,
    body: { hint: expect.stringContaining("rondo audit --repair") },
  });

  const found = await rondo("audit", "--repair", "--json");
  for (const document of ["schedule/nightly", `token/${token}`, "topic/MINE_CMD", "topic/MINE_RECEIPT"])
    expect(found.stdout).toContain(document);
  expect((await ask("/v1/executions", mine)).status).toBe(201);
  expect(await rondo("schedules", "rm", "nightly")).toMatchObject({ code: 0 });
  expect(await rondo("token", "revoke", token)).toMatchObject({ code: 0 });
  const whole = await rondo("audit");
  expect([whole.code, whole.stdout]).toEqual([0, ""]);
  // Nobody guards the project any more: the operator has revoked its only token.
  expect((await ask("/v1/executions", foreign)).status).toBe(201);
});
