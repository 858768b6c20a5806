/**
 * Parses the `cmd` of a definition or a submission, and checks its post-operations strictly. The command is kept as it was written,
 * because its hash covers that form. Only fields that Rondo fills in are left out.
 */
import {
  anything,
  at,
  checked,
  type Decode,
  flag,
  integer,
  invalid,
  isObject,
  listOf,
  oneOf,
  optional,
  orNull,
  text,
  where,
} from "../../std/decode.ts";
import { durationMs } from "../../std/duration.ts";
import { type Json, toStoredText } from "../../std/json.ts";
import { isRejection } from "../../std/rejection.ts";
import { type CommandDefinition, LIMITS } from "../definition/definition.ts";
import { known, shortText, strict, wrong } from "../definition/parse-primitive.ts";
import { parseReferences } from "./reference.ts";

const TOPIC_PATTERN = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,199}$/;
const PROPS_MAX = 100;
const BROADCASTS_MAX = 100;
const URL_CHARS_MAX = 2_000;

/** Decoders of the retry fields that handlers and post-operations share. */
export const retryFields = {
  attempts: optional(integer(1, 250)),
  backoff: optional(oneOf(["exponential", "constant"])),
  min: optional(durationMs()),
  max: optional(durationMs()),
};

const policy = { retry: optional(strict(retryFields)), timeout: optional(durationMs(1)) };
const stateKey = text({ min: 1, max: 500 });

const broadcastUrl: Decode<string> = checked(
  where<string>("an http or https address", (url) => {
    const isUrl = typeof url === "string" && url.length <= URL_CHARS_MAX && URL.canParse(url);
    return isUrl && /^https?:$/.test(new URL(url).protocol);
  }),
  (url) => {
    const { username, password } = new URL(url);
    if (username === "" && password === "") return null;
    const hint = "leave them out of the URL: other users can read definitions";
    return { ...invalid("", "contains a user name or a password"), hint };
  },
);

const enrichment = strict({
  prop_map: listOf(
    strict({
      key: shortText,
      val: where("a value", (val) => val !== undefined, "give a value; it may be null"),
    }),
    { max: PROPS_MAX },
  ),
});

const persistence = strict({
  target_statestore_name: shortText,
  target_statestore_key: stateKey,
  target_statestore_partition_key: optional(orNull(stateKey)),
  ...policy,
});

const broadcast = strict({ url: broadcastUrl, static_payload: anything, await: optional(flag), ...policy });

const postOps = strict({
  cmd_result_enrichment: optional(enrichment),
  cmd_result_persistence: optional(persistence),
  cmd_result_broadcasts: optional(listOf(broadcast, { max: BROADCASTS_MAX })),
});

const metadataOf = where<Readonly<Record<string, Json>>>("an object", isObject);
const commandFields = known(["cmd_type", "cmd_data", "cmd_metadata", "cmd_result"]);

/** Decodes `data` as a command in canonical form. A `cmd_result` is ignored. */
export const parseCommand: Decode<CommandDefinition> = (data) => {
  const fields = commandFields(data);
  const limits = { bytesMax: LIMITS.taskBytes, what: "cmd" };
  const stored = toStoredText({ ...fields, cmd_result: null }, limits);
  if (isRejection(stored)) throw wrong("", stored.message, stored.hint);
  const kept = JSON.parse(stored) as { cmd_data?: Json; cmd_metadata?: Json };
  const given = at("cmd_metadata", metadataOf, kept.cmd_metadata ?? {});
  const { cmd_hash: _, workflow_hash: __, rondo: ___, ...metadata } = given;
  at("cmd_metadata", () => at("cmd_post_op", optional(postOps), metadata["cmd_post_op"]), metadata);
  parseReferences(kept.cmd_data ?? {}, "cmd_data");
  return {
    cmd_type: at("cmd_type", shortText, fields["cmd_type"]),
    ...(kept.cmd_data === undefined || isEmpty(kept.cmd_data) ? {} : { cmd_data: kept.cmd_data }),
    ...(isEmpty(metadata) ? {} : { cmd_metadata: metadata }),
  };
};

/** Decodes the name of a topic. */
export const parseTopic: Decode<string> = where(
  "a topic",
  (data) => typeof data === "string" && TOPIC_PATTERN.test(data) && !data.startsWith("amq."),
  'letters, digits, _, . and -, at most 200, and not beginning with "amq."',
);

function isEmpty(value: Json): boolean {
  return isObject(value) && Object.keys(value).length === 0;
}
