// Rows of executions and pointers to definitions are gone while journals are there: an audit finds it, a repair derives them.
import { tmpdir } from "node:os";
import { join } from "node:path";
import { workflow } from "rondo";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { openServer } from "../../../src/compose/compose-server.ts";
import { loadDriver } from "../../../src/store/sqlite/driver.ts";
import { ask } from "../../fixtures/cli/cli-here-fixture.ts";
import { TestDatabase } from "../../fixtures/store/postgres-server-fixture.ts";
import { temporaryDirectory } from "../../fixtures/temporary-directory-fixture.ts";

const approval = workflow({ name: "approval" })
  .waitFor("go", { timeout: "1d" })
  .returns(({ phases }) => phases.go.value);
const quick = workflow({ name: "quick" })
  .phase("none", {})
  .returns(() => "at once");
const other = workflow({ name: "other" })
  .phase("none", {})
  .returns(() => "later");

let postgres: TestDatabase;
beforeAll(async () => {
  postgres = await TestDatabase.make();
}, 120_000);
afterAll(async () => {
  await postgres.remove();
});

interface Place {
  readonly store: string;
  change(sql: readonly string[]): Promise<void>;
}

const PLACES: Readonly<Record<string, () => Promise<Place>>> = {
  sqlite: async () => {
    const directory = join(temporaryDirectory(), "store");
    return {
      store: `file:${directory}`,
      change: async (sql) => {
        const connection = (await loadDriver()).open(join(directory, "rondo.db"));
        for (const statement of sql) connection.exec(statement);
        connection.close();
      },
    };
  },
  postgres: async () => {
    const store = await postgres.newDatabase();
    return {
      store,
      change: async (sql) => {
        const client = await postgres.client(store);
        try {
          for (const statement of ["SET search_path TO rondo", ...sql]) await client.query(statement);
        } finally {
          await client.end();
        }
      },
    };
  },
};

test.each(Object.keys(PLACES))(
  "heads and newest definitions that are gone are derived anew: %s",
  async (name) => {
    const { store, change } = await (PLACES[name] as () => Promise<Place>)();
    const first = await openServer({ store, port: 0 });
    for (const flow of [approval, quick]) first.rondo.serve(flow);
    expect(await first.rondo.run(quick, {}, { id: "ended" })).toBe("at once");
    await first.rondo.start(approval, {}, { id: "open", tags: { team: "ops" } });
    await first.close();
    await change(["DELETE FROM executions", "DELETE FROM newest_definitions"]);

    const server = await openServer({ store, port: 0 });
    onTestFinished(() => server.close({ graceMs: 0 }));
    // A new execution does not get the number of one that is lost.
    server.rondo.serve(other);
    expect(await server.rondo.run(other, {}, { id: "new" })).toBe("later");

    const audit = (...flags: string[]) => ask(["audit", "--url", server.url, ...flags], { cwd: tmpdir() });
    const found = await audit();
    const lost = (id: string) =>
      `executions: execution ${id} has a journal, but no row in the table of executions`;
    expect([found.code, found.stdout.split("\n")]).toEqual([
      1,
      expect.arrayContaining([lost("ended"), lost("open")]),
    ]);
    const repaired = await audit("--repair");
    expect([repaired.code, repaired.stdout.split("\n")]).toEqual([
      0,
      expect.arrayContaining([
        `${lost("ended")} (repaired)`,
        `${lost("open")} (repaired)`,
        expect.stringMatching(/^newest_definitions: workflow approval has .* \(repaired\)$/),
        expect.stringMatching(/^newest_definitions: workflow quick has .* \(repaired\)$/),
      ]),
    ]);
    expect(await audit()).toMatchObject({ code: 0, stdout: "" });

    const get = async (id: string) => (await fetch(`${server.url}/v1/executions/${id}`)).json();
    expect(await get("ended")).toMatchObject({ status: "done", output: "at once" });
    expect(await get("open")).toMatchObject({ status: "running", phase: "go", tags: { team: "ops" } });
    const started = await fetch(`${server.url}/v1/executions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ workflow: "quick", id: "again", input: {} }),
    });
    expect(started.status).toBe(201);
    for (const flow of [approval, quick]) server.rondo.serve(flow);
    await server.rondo.execution("open").signal("go", "went on");
    expect(await server.rondo.execution("open").result()).toBe("went on");
    expect(await server.rondo.execution("again").result()).toBe("at once");
  },
);
