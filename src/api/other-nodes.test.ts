import { expect, test } from "vitest";
import type { Holdings } from "../engine/io.ts";
import { mergeOverviews } from "./other-nodes.ts";

const worker = (id: string, held: number, local = false) => ({ id, local, capacity: 10, held, serves: [] });

test("what several nodes hold is added up; a worker of many nodes counts once, limits are the same everywhere", () => {
  const nodes: Holdings[] = [
    {
      workers: [worker("w", 2), worker("local", 1, true)],
      limits: [{ name: "p/u", max: 5, held: 2, waiting: 1 }],
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
