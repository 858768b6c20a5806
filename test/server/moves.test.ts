// Moves over HTTP answer with the execution that was moved.
import { workflow } from "rondo";
import { expect, test } from "vitest";
import { serve, until } from "../fixtures/server/api-fixture.ts";

const one = workflow({ name: "order", version: "1.0.0" }).waitFor("paid");
const two = workflow({ name: "order", version: "2.0.0" }).waitFor("paid").phase("ship", {});

test("the answer to a move is the newest execution of the id, or the one that the number names", async () => {
  const api = await serve();
  api.rondo.serve(one, two);
  await until(
    async () => (await api.get("/v1/workflows/order/versions")).body["data"]?.["length"] === (2 as never),
  );
  const start = { workflow: "order@1.0.0", id: "a", ifExists: "startNewWhenDone" };
  await api.post("/v1/executions", start);
  const move = async (id: string) => (await api.post(`/v1/executions/${id}/move`, { version: "2.0.0" })).body;
  expect(await move("a~1")).toMatchObject({ id: "a", workflowVersion: "2.0.0" });
  await api.post("/v1/executions/a/cancel", {});
  await until(async () => (await api.get("/v1/executions/a")).body["finishedAt"] !== null);
  expect((await api.post("/v1/executions", start)).body).toMatchObject({ id: "a~2" });
  expect(await move("a")).toMatchObject({ id: "a~2", workflowVersion: "2.0.0", status: "running" });
});
