/**
 * A process for kill-steps.test.ts: opens a store, goes on with one execution whose task has steps, a sleep and a wait,
 * and says what it does, one line each. It stops for good where it is told to: `in:<step>` or `after:<step>`.
 */
import { writeSync } from "node:fs";
import { openRondo, workflow } from "../../../dist/src/index.js";

const [directory, stopAt] = process.argv.slice(2);
const say = (line) => writeSync(1, `${line}\n`);
const never = () => new Promise(() => {});

const order = workflow({ name: "order" })
  .phase("ship", {
    process: async ({ step, sleep, waitFor, log }) => {
      const done = [];
      const once = async (name) => {
        done.push(
          await step(name, async () => {
            say(`in ${name}`);
            if (stopAt === `in:${name}`) await never();
            return `${name} by ${process.pid}`;
          }),
        );
        say(`after ${name}`);
        log(`after ${name}`);
        if (stopAt === `after:${name}`) await never();
      };
      await once("pack");
      await once("charge");
      await sleep("cool", 20);
      await once("label");
      const approval = await waitFor("approved");
      await once("send");
      return { done, approval };
    },
    retry: { crashes: 50, min: "1ms", max: "1ms" },
  })
  .returns(async ({ phases }) => {
    for await (const result of phases.ship.results()) return result;
    return null;
  });

const rondo = await openRondo({ store: `file:${directory}` });
rondo.serve(order);
const execution = await rondo.start(order, null, { id: "o1" });
if (stopAt === "") await execution.signal("approved", "by ann", { id: "s1" });
say(`result ${JSON.stringify(await execution.result())}`);
await rondo.close();
