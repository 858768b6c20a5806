// An order that reserves, charges and waits for its approval. When it is cancelled, it undoes what it has done.
import { appendFileSync } from "node:fs";
import { workflow } from "rondo";

/** Stands for other systems: one line for each thing that they are told. */
function tell(line: string): void {
  appendFileSync(process.env["LEDGER"] ?? "ledger.txt", `${line}\n`);
}

export const order = workflow<{ item: string; cards: string[] }>({
  name: "order",
  onCancel: "apologise",
  finally: "close",
})
  .phase("reserve", {
    process({ input }) {
      tell(`reserve ${input.item}`);
      return { shelf: 7 };
    },
    compensate({ input, result }) {
      tell(`release ${input.item} from shelf ${result?.shelf ?? "unknown"}`);
    },
  })
  .phase("charge", {
    enumerate: ({ input }) => input.cards,
    concurrency: 1,
    process({ task, idempotencyKey }) {
      tell(`charge ${task}`);
      return { receipt: idempotencyKey };
    },
    // Also called if it is not known whether the card was charged: then the service finds that out by the key.
    compensate({ task, outcome, idempotencyKey }) {
      tell(`refund ${task} (${outcome}, ${idempotencyKey})`);
    },
    compensation: { retry: { attempts: 10 }, concurrency: 1 },
  })
  .waitFor("approved")
  .phase("ship", { process: ({ input }) => tell(`ship ${input.item}`) })
  .phase("apologise", { process: () => tell("apologise") })
  .phase("close", { process: () => tell("close") });
