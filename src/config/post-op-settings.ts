/** Decoders of the settings of post-operations. In an environment variable, a value is JSON or a comma-separated list. */
import { WebhookSecrets, type WebhookSecretsGiven } from "../commands/post-ops/webhook-secrets.ts";
import { type StateStoreGiven, stateStores } from "../commands/state/state-settings.ts";
import { AllowList } from "../net/guard/allow-list.ts";
import { anything, checked, type Decode, mapOf, Undecodable } from "../std/decode.ts";
import { isRejection } from "../std/rejection.ts";
import { settingName, texts } from "./setting.ts";

const named = mapOf(anything, { key: settingName });

/** Decodes the setting `stateStores`: state stores by name. */
export const givenStores: Decode<Readonly<Record<string, StateStoreGiven>>> = (value) => {
  const given = typeof value === "string" ? fromJson(value) : value;
  stateStores(given);
  return named(given) as Readonly<Record<string, StateStoreGiven>>;
};

const targets = checked(texts, (given) => {
  const list = AllowList.parse(given, "");
  return isRejection(list) ? list : null;
});

/** Decodes the setting `allowTargets`: targets outside the public internet that broadcasts may reach. */
export const allowTargets: Decode<readonly string[]> = (value) => targets(splitList(value));

/** Decodes the secrets that sign broadcasts. No error contains them. */
export const webhookSecrets: Decode<WebhookSecretsGiven> = (value) => {
  const isJson = typeof value === "string" && value.startsWith("{");
  const given = isJson ? fromJson(value) : splitList(value);
  WebhookSecrets.decode(given);
  return given as WebhookSecretsGiven;
};

function splitList(value: unknown): unknown {
  if (typeof value !== "string") return value;
  return value
    .split(",")
    .map((text) => text.trim())
    .filter((text) => text !== "");
}

/** Parses JSON. The parser's own message is left out of the error: it repeats the text, which may be a secret. */
function fromJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch (thrown) {
    if (!(thrown instanceof SyntaxError)) throw thrown;
    throw new Undecodable("is not JSON", { code: "invalid_json" });
  }
}
