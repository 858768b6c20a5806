/** What a worker process of the demo loads: its workflows and topics. It ends with the demo, however that ends. */
import { DeliveryLog } from "./deliveries.ts";
import { fanOut } from "./fan-out.ts";
import { newsTopics } from "./news.ts";
import { primesWorkflow } from "./primes.ts";

// Killed with -9, the demo says nothing more; its end of this pipe is closed all the same.
process.once("disconnect", () => process.exit(0));

const deliveries = new DeliveryLog(process.env["DEMO_DELIVERIES"] ?? null);

/** The fan-out. */
export const demo = fanOut((task, attempt) => deliveries.note(task, attempt));
/** The script. */
export const primes = primesWorkflow();
/** The commands. */
export const [count, write, announce] = newsTopics;
