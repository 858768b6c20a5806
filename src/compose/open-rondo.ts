/** `openRondo`: checks the options of a program and opens Rondo in its process. */
import { cors, EVENTS_KEPT_MIN_MS, webhooks } from "../config/setting.ts";
import { isBrokerUrl } from "../protocol/broker-address.ts";
import { anyFunction, type Called, checkOptions } from "../protocol/check-options.ts";
import type { Rondo } from "../rondo/rondo.ts";
import {
  anything,
  type Decode,
  flag,
  integer,
  isObject,
  listOf,
  mapOf,
  object,
  optional,
  orNull,
  secret,
  text,
  where,
} from "../std/decode.ts";
import { parseDuration } from "../std/duration.ts";
import { isRejection, RondoError } from "../std/rejection.ts";
import { openInProcess } from "./compose.ts";
import type { OpenOptions, OpenServerOptions } from "./open-options.ts";

const OPEN = {
  name: "openRondo",
  example: 'openRondo({ store: "file:.rondo" })',
  options: object(
    {
      store: optional(text()),
      capacity: optional(integer(1)),
      server: optional(
        object(
          {
            port: optional(orNull(integer(0, 65_535))),
            host: optional(text()),
            advertise: optional(text()),
            hosts: optional(listOf(text())),
            cors: optional(cors),
            webhooks: optional(webhooks),
            adminToken: optional(secret("a text", (value) => typeof value === "string")),
            retention: optional(
              where('a duration such as "30d"', (value) => !isRejection(parseDuration(value, "retention"))),
            ),
          } satisfies Readonly<Record<keyof OpenServerOptions, Decode<unknown>>>,
          { what: "server" },
        ),
      ),
      eventsKept: optional(
        where('a duration of at least "15m"', (value) => {
          const ms = parseDuration(value, "eventsKept");
          return !isRejection(ms) && ms >= EVENTS_KEPT_MIN_MS;
        }),
      ),
      nodes: optional(integer(1)),
      projects: optional(
        mapOf(object({ concurrency: optional(integer(1)), topics: optional(listOf(text())) })),
      ),
      secrets: optional(secret("a list", Array.isArray)),
      unsafeNoJail: optional(flag),
      onLog: anyFunction,
      onFault: anyFunction,
      onFaultLine: anyFunction,
      onStop: anyFunction,
      stateStores: optional(secret("an object", isObject)),
      allowTargets: optional(listOf(anything)),
      webhookSecrets: optional(secret("a list, or an object of lists", (value) => Object(value) === value)),
      broker: optional(
        secret(
          "the address of a broker",
          (value) => value === null || isBrokerUrl(value),
          'openRondo({ broker: "amqp://user:password@127.0.0.1:5672" })',
        ),
      ),
      prefix: optional(text()),
      receiptTopics: optional(listOf(anything)),
    } satisfies Readonly<Record<keyof OpenOptions, Decode<unknown>>>,
    { what: "openRondo" },
  ),
} satisfies Called;

/**
 * Opens Rondo in this process: an engine over a store, and a worker for the workflows that are given to `serve`.
 *
 * @throws DirectoryInUse (a `RondoError` with the code `conflict`) if a process has the directory open
 * @throws RondoError with the code `invalid_input` if an option is wrong
 * @example
 * await using rondo = await openRondo({ store: "file:.rondo" });
 * rondo.serve(nightly);
 * console.log(await rondo.run(nightly, { bucket: "b" }));
 */
export async function openRondo(options: OpenOptions = {}): Promise<Rondo> {
  const refused = checkOptions(options, OPEN);
  if (refused !== null) throw new RondoError(refused);
  return openInProcess(options);
}
