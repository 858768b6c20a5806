/** Checks of the settings of post-operations. In the environment, where all is text: JSON, or a list with commas. */

import { WebhookSecrets, type WebhookSecretsGiven } from "../commands/post-ops/webhook-secrets.ts";
import { parseStateStores, type StateStoreGiven } from "../commands/state/state-settings.ts";
import { AllowList } from "../net/guard/allow-list.ts";
import { isRejection, reject } from "../std/rejection.ts";
import { type Checked, checkMap, checkTexts } from "./setting.ts";

/** State stores by name. */
export function checkStateStores(
  value: unknown,
  what: string,
  name: { readonly pattern: RegExp; readonly what: string },
): Checked<Readonly<Record<string, StateStoreGiven>>> {
  const given = typeof value === "string" ? fromJson(value, what) : value;
  if (isRejection(given)) return given;
  const named = checkMap<StateStoreGiven>((store) => store as StateStoreGiven, name)(given, what);
  if (isRejection(named)) return named;
  const parsed = parseStateStores(named, what);
  return isRejection(parsed) ? parsed : named;
}

/** Targets that broadcasts may reach beyond public ones. */
export function checkAllowTargets(value: unknown, what: string): Checked<readonly string[]> {
  const texts = checkTexts(splitList(value), what);
  if (isRejection(texts)) return texts;
  const parsed = AllowList.parse(texts, what);
  return isRejection(parsed) ? parsed : texts;
}

/** Secrets of broadcasts, of which nothing is said. */
export function checkWebhookSecrets(value: unknown, what: string): Checked<WebhookSecretsGiven> {
  const isJson = typeof value === "string" && value.startsWith("{");
  const given = isJson ? fromJson(value, what) : splitList(value);
  if (isRejection(given)) return given;
  const parsed = WebhookSecrets.parse(given, what);
  return isRejection(parsed) ? parsed : (given as WebhookSecretsGiven);
}

function splitList(value: unknown): unknown {
  if (typeof value !== "string") return value;
  return value
    .split(",")
    .map((text) => text.trim())
    .filter((text) => text !== "");
}

/** Without the parser's words: they repeat what may be a secret. */
function fromJson(text: string, what: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch (thrown) {
    if (!(thrown instanceof SyntaxError)) throw thrown;
    return reject("invalid_json", `${what}: is not JSON`, { path: what });
  }
}
