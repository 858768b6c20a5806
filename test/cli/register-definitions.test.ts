// What a worker tells the server of its workflows, by the token that it has.
import { expect, test } from "vitest";
import { registerDefinitions } from "../../src/cli/worker/register-definitions.ts";
import { serve } from "../fixtures/server/api-fixture.ts";
import { doubles } from "../fixtures/server/api-workflows.ts";

test("definitions are stored for a worker of all projects, left for one of a project, and refused to others", async () => {
  const api = await serve();
  await api.makeToken("admin");
  const said: string[] = [];
  const register = (token: string) =>
    registerDefinitions({ addresses: [api.url], token }, [doubles], {
      isOver: new Promise(() => {}),
      note: (what) => said.push(what),
    });
  const stored = async () => (await api.get("/v1/workflows")).body["data"];
  await expect(register(await api.makeToken("viewer"))).rejects.toMatchObject({ code: "forbidden" });
  await expect(register(await api.makeToken("operator", "books"))).rejects.toMatchObject({
    code: "forbidden",
  });
  expect([await register(await api.makeToken("worker", "books")), await stored()]).toEqual([true, []]);
  expect(said).toEqual([
    'this token is bound to the project "books" and cannot register definitions: the server uses the definitions that it has',
  ]);
  expect([await register(await api.makeToken("worker")), await stored()]).toMatchObject([
    true,
    [{ name: "doubles" }],
  ]);
});
