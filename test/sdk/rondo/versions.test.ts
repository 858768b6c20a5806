// Several versions of a handler's code in one worker (B9): the highest that fits gets the work.
import { handler, workflow } from "rondo";
import { expect, test } from "vitest";
import { all, open } from "../../fixtures/sdk/open-rondo-fixture.ts";

function flow(name: string, version?: string) {
  const code = handler({
    name: "indexer",
    ...(version === undefined ? {} : { version }),
    process: () => version ?? "none",
  });
  return workflow({ name })
    .phase("p", { code })
    .returns(async ({ phases }) => (await all(phases.p.code.results()))[0]);
}

test("each execution gets the highest version that is compatible with its definition", async () => {
  const [old, newer, other] = [flow("old", "1.0.0"), flow("newer", "1.2.0"), flow("other", "2.0.0")];
  const rondo = await open([old, newer, other, flow("pre", "0.9.0")]);
  expect(await rondo.run(old, null)).toBe("1.2.0");
  expect(await rondo.run(newer, null)).toBe("1.2.0");
  expect(await rondo.run(other, null)).toBe("2.0.0");
});

test("code without a version serves whoever asks for none", async () => {
  const plain = flow("plain");
  const rondo = await open([plain]);
  expect(await rondo.run(plain, null)).toBe("none");
});

test("a workflow that is served again in another form keeps the code of the first, for what is open", async () => {
  let finish: () => void = () => {};
  const first = workflow({ name: "changing" })
    .phase("before", {
      process: () =>
        new Promise<void>((resolve) => {
          finish = resolve;
        }),
    })
    .phase("gone", { process: () => "old code" })
    .returns(({ phases }) => all(phases.gone.results()));
  const second = workflow({ name: "changing" }).phase("other", { process: () => "new code" });
  const rondo = await open([first]);
  const execution = await rondo.start(first, null);
  rondo.serve(second);
  expect(await rondo.run(second, null)).toBe("new code");
  finish();
  expect(await execution.result()).toEqual(["old code"]);
});
