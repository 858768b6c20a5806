/**
 * Signatures of broadcasts, by the scheme of Standard Webhooks: an HMAC over id, time and body with every secret that
 * counts for the host, so that a receiver can change its secret while both are configured.
 */
import { createHmac } from "node:crypto";
import { plainHost } from "../../net/guard/allow-list.ts";
import { type Rejection, reject } from "../../std/rejection.ts";

/** A list for every host, or lists by host; `*` is for hosts that have none of their own. */
export type WebhookSecretsGiven = readonly string[] | Readonly<Record<string, readonly string[]>>;

const EVERY_HOST = "*";
const PREFIX = "whsec_";
const KEY_BYTES_MIN = 16;

export class WebhookSecrets {
  readonly #keys: ReadonlyMap<string, readonly Buffer[]>;

  private constructor(keys: ReadonlyMap<string, readonly Buffer[]>) {
    this.#keys = keys;
  }

  /** The secrets, or what is wrong with them; the refusal holds none. */
  static parse(given: unknown, what = "webhookSecrets"): WebhookSecrets | Rejection {
    const byHost = Array.isArray(given) ? { [EVERY_HOST]: given as unknown } : given;
    if (typeof byHost !== "object" || byHost === null) return wrong(what);
    const keys = new Map<string, readonly Buffer[]>();
    for (const [host, secrets] of Object.entries(byHost)) {
      const list = Array.isArray(secrets) ? secrets.map(keyOf) : [null];
      if (list.includes(null)) return wrong(host === EVERY_HOST ? what : `${what}.${host}`);
      const plain = host === EVERY_HOST ? host : hostOf(host);
      if (plain === null) return notHost(`${what}.${host}`);
      keys.set(plain, list as Buffer[]);
    }
    return new WebhookSecrets(keys);
  }

  /** The headers of a message to a host; without a secret for it there is no signature. */
  headersFor(host: string, message: { readonly id: string; readonly at: number; readonly body: string }) {
    const { id, at, body } = message;
    const time = String(Math.floor(at / 1_000));
    const keys = this.#keys.get(plainHost(host)) ?? this.#keys.get(EVERY_HOST) ?? [];
    const signatures = keys.map(
      (key) => `v1,${createHmac("sha256", key).update(`${id}.${time}.${body}`).digest("base64")}`,
    );
    return {
      "webhook-id": id,
      "webhook-timestamp": time,
      ...(signatures.length === 0 ? {} : { "webhook-signature": signatures.join(" ") }),
    };
  }
}

/** A host as it stands in URLs, where names that are not ASCII are spelled otherwise; null: it is none, or more than one. */
function hostOf(text: string): string | null {
  const url = URL.canParse(`http://${text}/`) ? new URL(`http://${text}/`) : null;
  const isHost = url !== null && !/[/?#@\\]/.test(text) && !/:\d*$/.test(text.replace(/^\[.*\]/, ""));
  return isHost ? plainHost(url.hostname) : null;
}

/** The bytes of a secret: in base64 after `whsec_`, else the text itself. Null: it is none, or too short. */
function keyOf(secret: unknown): Buffer | null {
  if (typeof secret !== "string") return null;
  const isEncoded = secret.startsWith(PREFIX);
  const text = isEncoded ? secret.slice(PREFIX.length) : secret;
  if (isEncoded && !/^[A-Za-z0-9+/]+={0,2}$/.test(text)) return null;
  const key = Buffer.from(text, isEncoded ? "base64" : "utf8");
  return key.length >= KEY_BYTES_MIN ? key : null;
}

function notHost(what: string): Rejection {
  return reject("invalid_input", `${what}: is not a host`, {
    path: what,
    hint: 'write it without a port, such as "ui.example.com"; its secrets count for all ports',
  });
}

function wrong(what: string): Rejection {
  return reject("invalid_input", `${what}: is not a list of secrets`, {
    path: what,
    hint: `each is ${PREFIX} and base64, or another text, of at least ${KEY_BYTES_MIN} bytes; by host: { "example.com": [...], "${EVERY_HOST}": [...] }`,
  });
}
