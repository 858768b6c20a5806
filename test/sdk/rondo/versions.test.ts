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

test("a workflow with a version is pinned: its handlers, next and returns are done by compatible code only", async () => {
  const versioned = (version: string) =>
    workflow({ name: "pinned", version })
      .phase(
        "work",
        { process: () => version },
        { next: { decide: () => (version.startsWith("1") ? "one" : "two"), among: ["one", "two"] } },
      )
      .phase("one", { process: () => "one" }, { final: true })
      .phase("two", { process: () => "two" }, { final: true })
      .returns(async ({ phases }) => [version, await phases.work.only(), phases.one.count, phases.two.count]);
  const [first, compatible, second] = [versioned("1.0.0"), versioned("1.1.0"), versioned("2.0.0")];
  const rondo = await open([second]);
  const execution = await rondo.start(first, null);
  expect(await rondo.run(second, null)).toEqual(["2.0.0", "2.0.0", 0, 1]);
  expect(await execution.why()).toBe(
    '"work" waits for a worker: none serves "pinned.work" in a version that fits "^1.0.0" (there are 2.0.0) now.',
  );
  rondo.serve(compatible);
  expect(await execution.result()).toEqual(["1.1.0", "1.1.0", 1, 0]);
  expect(await rondo.run(second, null)).toEqual(["2.0.0", "2.0.0", 0, 1]);
});

test("a version that is none is refused", () => {
  expect(() => workflow({ name: "odd", version: "1.2" })).toThrow(
    'version: is not a version (write it as "1.2.0")',
  );
});
