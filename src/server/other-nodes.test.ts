import { expect, test } from "vitest";
import type { Holdings } from "../engine/io.ts";
import { attemptsOf, mergeOverviews, type NodeFacts } from "./other-nodes.ts";
import type { ApiParts } from "./parts.ts";

const worker = (id: string, held: number, local = false) => ({ id, local, capacity: 10, held, serves: [] });

test("what several nodes hold is added up; a worker of many nodes counts once, limits are the same everywhere", () => {
  const nodes: Holdings[] = [
    {
      workers: [worker("w", 2), worker("local", 1, true)],
      limits: [
        { name: "p/u", max: 5, held: 2, waiting: 1 },
        { name: "rate p/u", max: 9, held: 4, waiting: 0, perMs: 1_000 },
      ],
      resident: 3,
      working: 2,
      leases: 3,
      ready: [{ use: "u", tasks: 4 }],
    },
    {
      workers: [worker("w", 3), worker("v", 0), worker("local", 1, true)],
      limits: [
        { name: "p/u", max: 5, held: 3, waiting: 2 },
        { name: "p/x", max: 1, held: 0, waiting: 0 },
        { name: "rate p/u", max: 9, held: 3, waiting: 2, perMs: 1_000 },
      ],
      resident: 1,
      working: 1,
      leases: 4,
      ready: [
        { use: "x", tasks: 1 },
        { use: "u", tasks: 2 },
      ],
    },
  ];
  expect(mergeOverviews(nodes)).toEqual({
    workers: [worker("w", 5), worker("local", 1, true), worker("v", 0), worker("local", 1, true)],
    limits: [
      { name: "p/u", max: 5, held: 5, waiting: 3 },
      { name: "rate p/u", max: 9, held: 7, waiting: 2, perMs: 1_000 },
      { name: "p/x", max: 1, held: 0, waiting: 0 },
    ],
    resident: 4,
    working: 3,
    leases: 7,
    ready: [
      { use: "u", tasks: 6 },
      { use: "x", tasks: 1 },
    ],
  });
});

test("open attempts are asked of the node that has the execution; one that is silent could have some", async () => {
  const asked: unknown[] = [];
  const engine = {
    isOwn: (id: string) => id === "own",
    openAttempts: (filter: unknown) => [{ attempt: "here", ...(filter as object) }],
  } as unknown as ApiParts["engine"];
  const facts = (...attempts: string[]) => ({ attempts: attempts.map((attempt) => ({ attempt })) });
  let others: unknown[] = [
    { url: "b", facts: facts("there") },
    { url: "c", facts: facts() },
  ];
  const otherNodes = {
    ask: async (question: unknown) => {
      asked.push(question);
      return others as { url: string; facts: NodeFacts | null }[];
    },
    serve: () => {},
  };
  expect(await attemptsOf({ engine }, "any")).toMatchObject([{ attempt: "here", execution: "any" }]);
  expect(await attemptsOf({ engine, otherNodes }, "own")).toMatchObject([{ attempt: "here" }]);
  expect(asked).toEqual([]);
  expect(await attemptsOf({ engine, otherNodes }, "theirs")).toEqual([{ attempt: "there" }]);
  expect(asked).toEqual([{ v: 1, attempts: { worker: null, execution: "theirs", max: 1_000 } }]);
  others = [{ url: "b", facts: null }];
  await expect(attemptsOf({ engine, otherNodes }, "theirs")).rejects.toThrow("b did not answer");
});
