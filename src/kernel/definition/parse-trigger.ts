/** Parses the triggers of a definition: the events that start, signal or cancel executions of the workflow. */
import {
  at,
  type Decode,
  integer,
  isObject,
  listOf,
  mapped,
  oneOf,
  optional,
  where,
} from "../../std/decode.ts";
import { defined } from "../../std/defined.ts";
import { durationMs } from "../../std/duration.ts";
import { type Json, toStoredText } from "../../std/json.ts";
import { isRejection } from "../../std/rejection.ts";
import { isRelayName } from "../relay/relay.ts";
import type { CancelDefinition, TriggerDefinition } from "./definition.ts";
import { composedName } from "./names.ts";
import { parseName, pointer, strict, wrong } from "./parse-primitive.ts";

const TRIGGERS_MAX = 100;
const MATCH_BYTES_MAX = 8_192;

const matchObject = where<Json>("an object of values", isObject, 'write it as { "currency": "EUR" }');

const match: Decode<Json> = (value) => {
  const stored = toStoredText(matchObject(value), { bytesMax: MATCH_BYTES_MAX, what: "match" });
  if (isRejection(stored)) throw wrong("", stored.message, stored.hint);
  return value as Json;
};

const eventName = composedName("the name of an event");

const cancel = mapped(
  strict(
    { event: eventName, match: optional(match), key: optional(pointer) },
    '{ "event": "order/cancelled" }',
  ),
  (given): CancelDefinition => defined(given) as CancelDefinition,
);

const trigger = mapped(
  strict(
    {
      event: eventName,
      match: optional(match),
      key: optional(pointer),
      debounce: optional(strict({ quiet: durationMs(1), max: optional(durationMs(1)) }, '{ "quiet": "5s" }')),
      throttle: optional(
        strict({ limit: integer(1, 1_000), per: durationMs(1) }, '{ "limit": 10, "per": "1m" }'),
      ),
      batch: optional(
        strict({ max: integer(1, 1_000), wait: durationMs(1) }, '{ "max": 100, "wait": "5s" }'),
      ),
      singleton: optional(oneOf(["skip", "cancel", "signal"])),
      signal: optional(parseName),
      execution: optional(pointer),
      cancelOn: optional(listOf(cancel, { max: TRIGGERS_MAX })),
    },
    '{ "event": "order/paid" }',
  ),
  (given): TriggerDefinition => defined(given) as TriggerDefinition,
);

/** Decodes the triggers of a workflow; undefined if there are none. */
export const parseTriggers: Decode<readonly TriggerDefinition[] | undefined> = (data) => {
  if (data === undefined) return undefined;
  const triggers = listOf(trigger, { max: TRIGGERS_MAX })(data);
  triggers.forEach((one, i) => at(i, checkTrigger, one));
  const names = triggers.map(({ event }) => event);
  const twice = names.find((name, i) => names.indexOf(name) !== i);
  if (twice !== undefined) throw wrong("", `has two triggers for the event "${twice}"`, "write one trigger");
  return triggers.length === 0 ? undefined : triggers;
};

/** Refuses the name of a workflow that is reserved for the engine's own workflows. */
export function checkOwnName(name: string): void {
  if (isRelayName(name))
    throw wrong("name", `"${name}" is the name of one of the engine's own workflows`, "choose another");
}

/** Refuses options of a trigger that cannot be used together. */
function checkTrigger(value: unknown): void {
  const { debounce, batch, throttle, singleton, signal, execution, cancelOn } = value as TriggerDefinition;
  const held = [debounce, batch, throttle, singleton, cancelOn].some((option) => option !== undefined);
  if (debounce !== undefined && batch !== undefined)
    throw wrong(
      "batch",
      "cannot be used together with debounce",
      "debounce keeps the last event, batch all of them",
    );
  if (execution !== undefined && held)
    throw wrong("execution", "cannot be used together with options about starts", "the event only signals");
  if (execution !== undefined && signal === undefined)
    throw wrong("signal", "is missing", "name the signal that the execution gets");
  if (singleton === "signal" && signal === undefined)
    throw wrong("signal", "is missing", "name the signal that the open execution gets");
  if (signal !== undefined && singleton !== "signal" && execution === undefined)
    throw wrong(
      "signal",
      "does not say which execution gets the signal",
      'add execution: "/id", or singleton: "signal"',
    );
}
