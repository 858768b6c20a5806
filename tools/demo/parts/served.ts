/** The workflows and topics of a worker process of the demo. The process ends with the demo. */
import { DeliveryLog } from "./deliveries.ts";
import { fanOut } from "./fan-out.ts";
import { newsTopics } from "./news.ts";
import { primesWorkflow } from "./primes.ts";

// When the demo is killed with -9, its end of this pipe closes too.
process.once("disconnect", () => process.exit(0));

const deliveries = new DeliveryLog(process.env["DEMO_DELIVERIES"] ?? null);

/** The fan-out. */
export const demo = fanOut((task, attempt) => deliveries.note(task, attempt));
/** The script. */
export const primes = primesWorkflow();
/** The commands. */
export const [count, write, announce] = newsTopics;
