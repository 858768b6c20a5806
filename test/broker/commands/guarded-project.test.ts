// A project that a token is bound to uses its own topics only, however its commands come to be sent.
import { expect, test } from "vitest";
import { topic } from "../../../src/sdk/topic.ts";
import { type Api, serve, until } from "../../fixtures/server/api-fixture.ts";

const PERSISTED = {
  cmd_post_op: {
    cmd_result_persistence: { target_statestore_name: "kept", target_statestore_key: "one" },
  },
};
const command = (name: string, to: string, cmd_metadata: object = {}) => ({
  name,
  handlers: {
    [name]: { command: { cmd_type: "PAY", cmd_data: {}, cmd_metadata }, topic: to, retry: { attempts: 1 } },
  },
});

async function define(api: Api, name: string, phases: readonly object[]): Promise<void> {
  const put = await api.post("/v1/workflows", { rondo: 2, name, phases });
  expect(put.status, put.text).toBeLessThan(300);
}

/** Waits for the end of an execution, which must have failed for its topic. */
async function failsForItsTopic(api: Api, id: string): Promise<void> {
  await until(async () => (await api.get(`/v1/executions/${id}`)).body["status"] === ("failed" as never));
  expect((await api.get(`/v1/executions/${id}`)).text).toContain('may not use the topic \\"PAYMENTS_CMD\\"');
}

test("a schedule, a child and the step after a post-operation send no command to a topic of others", async () => {
  const api = await serve();
  await api.makeToken("admin");
  const done: string[] = [];
  let release = (): void => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  api.rondo.serve(
    topic("PAYMENTS_CMD", () => void done.push("paid")),
    topic("lexi_CMD", async () => {
      await released;
      return { fine: true };
    }),
  );
  await define(api, "pay", [command("pay", "PAYMENTS_CMD")]);
  await define(api, "parent", [
    { name: "child", handlers: { child: { workflow: "pay", retry: { attempts: 1 } } } },
  ]);
  await define(api, "steps", [command("one", "lexi_CMD", PERSISTED), command("two", "PAYMENTS_CMD")]);
  // These are there before the project is guarded.
  const steps = await api.post("/v1/executions", { workflow: "steps", id: "steps", project: "lexi" });
  expect(steps.status, steps.text).toBe(201);
  const schedule = { id: "nightly", workflow: "pay", cron: "0 6 * * *", project: "lexi" };
  const put = await api.post("/v1/schedules", schedule);
  expect(put.status, put.text).toBeLessThan(300);

  const token = await api.makeToken("operator", "lexi");
  const direct = await api.post("/v1/executions", { workflow: "pay", id: "direct" }, { token });
  expect(direct.body).toMatchObject({ code: "forbidden" });

  const parent = await api.post("/v1/executions", { workflow: "parent", id: "parent" }, { token });
  expect(parent.status, parent.text).toBe(201);
  await failsForItsTopic(api, "parent");

  release();
  await failsForItsTopic(api, "steps");
  const kept = await api.get("/v1/state/kept/one", { token });
  expect(kept.body["value"]).toEqual({ fine: true });

  const run = await api.post("/v1/schedules/nightly/run", undefined, { token });
  expect(run.status, run.text).toBeLessThan(300);
  const path = "/v1/executions?workflow=pay&project=lexi&status=failed";
  await until(async () => JSON.stringify((await api.get(path)).body["data"]).includes("nightly"));
  expect(done).toEqual([]);
});
