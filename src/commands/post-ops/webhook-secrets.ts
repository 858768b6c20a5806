/**
 * Signs broadcasts by the Standard Webhooks scheme: an HMAC over id, time and body with each secret of the host. A receiver can change
 * its secret while the old and the new one are configured.
 */
import { createHmac, timingSafeEqual } from "node:crypto";
import { plainHost } from "../../net/guard/allow-list.ts";
import { at, type Decode, decode, mapped, secret, Undecodable } from "../../std/decode.ts";
import type { Rejection } from "../../std/rejection.ts";

/** Webhook secrets: one list for all hosts, or a list for each host. `*` is for hosts without their own list. */
export type WebhookSecretsGiven = readonly string[] | Readonly<Record<string, readonly string[]>>;

const EVERY_HOST = "*";
const PREFIX = "whsec_";
const KEY_BYTES_MIN = 16;

const HINT = `each secret is ${PREFIX} and base64, or any other text, of at least ${KEY_BYTES_MIN} bytes; by host: { "example.com": [...], "${EVERY_HOST}": [...] }`;
const objectOfLists = secret<object>(
  "a list of secrets",
  (value) => typeof value === "object" && value !== null,
  HINT,
);
const secretList: Decode<readonly Buffer[]> = mapped(
  secret<readonly string[]>(
    "a list of secrets",
    (value) => Array.isArray(value) && value.every((one) => webhookKey(one) !== null),
    HINT,
  ),
  (secrets) => secrets.flatMap((one) => webhookKey(one) ?? []),
);

export class WebhookSecrets {
  readonly #keys: ReadonlyMap<string, readonly Buffer[]>;

  private constructor(keys: ReadonlyMap<string, readonly Buffer[]>) {
    this.#keys = keys;
  }

  /** Decodes the secrets. Error messages never contain a secret. */
  static decode(given: unknown): WebhookSecrets {
    const byHost = Array.isArray(given) ? { [EVERY_HOST]: given as unknown } : objectOfLists(given);
    const keys = new Map<string, readonly Buffer[]>();
    for (const [host, secrets] of Object.entries(byHost))
      if (host === EVERY_HOST) keys.set(host, secretList(secrets));
      else
        at(
          host,
          (given) => {
            const list = secretList(given);
            keys.set(hostOf(host), list);
          },
          secrets,
        );
    return new WebhookSecrets(keys);
  }

  static parse(given: unknown): WebhookSecrets | Rejection {
    return decode((value) => WebhookSecrets.decode(value), given, { path: "webhookSecrets" });
  }

  /** Returns the signature headers of a message to a host. If the host has no secret, the message is not signed. */
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

/** How far the timestamp of a webhook may be from the present time. */
const TOLERANCE_MS = 300_000;

/** The signed parts of a webhook that was received. */
export interface SignedWebhook {
  readonly id: string | undefined;
  readonly timestamp: string | undefined;
  readonly signature: string | undefined;
  readonly body: Uint8Array;
}

/**
 * Returns why a webhook is not accepted: a header is missing, its timestamp is too far from the present, or no secret gives its
 * signature. Returns null if it is accepted.
 */
export function whyNotSigned(webhook: SignedWebhook, secrets: readonly string[], now: number): string | null {
  const { id, timestamp, signature, body } = webhook;
  if (id === undefined || timestamp === undefined || signature === undefined)
    return "the webhook needs the headers webhook-id, webhook-timestamp and webhook-signature";
  if (!/^\d{1,15}$/.test(timestamp) || Math.abs(Number(timestamp) * 1_000 - now) > TOLERANCE_MS)
    return "the timestamp of the webhook is more than 5 minutes from now";
  const given = signature.split(" ").flatMap((one) => (one.startsWith("v1,") ? [one.slice(3)] : []));
  for (const key of secrets.flatMap((one) => webhookKey(one) ?? [])) {
    const wanted = createHmac("sha256", key).update(`${id}.${timestamp}.`).update(body).digest();
    for (const one of given) {
      const bytes = Buffer.from(one, "base64");
      if (bytes.length === wanted.length && timingSafeEqual(bytes, wanted)) return null;
    }
  }
  return "the signature of the webhook matches none of the secrets";
}

/** Returns a host in the form that URLs use, in which characters outside of ASCII are encoded. */
function hostOf(text: string): string {
  const url = URL.canParse(`http://${text}/`) ? new URL(`http://${text}/`) : null;
  const isHost = url !== null && !/[/?#@\\]/.test(text) && !/:\d*$/.test(text.replace(/^\[.*\]/, ""));
  if (isHost) return plainHost(url.hostname);
  throw new Undecodable("is not a host", {
    hint: 'write it without a port, such as "ui.example.com"; its secrets count for all ports',
  });
}

/** Returns the bytes of a secret: base64 after `whsec_`, otherwise the text itself. Returns null if the secret is invalid or too short. */
export function webhookKey(secret: unknown): Buffer | null {
  if (typeof secret !== "string") return null;
  const isEncoded = secret.startsWith(PREFIX);
  const text = isEncoded ? secret.slice(PREFIX.length) : secret;
  if (isEncoded && !/^[A-Za-z0-9+/]+={0,2}$/.test(text)) return null;
  const key = Buffer.from(text, isEncoded ? "base64" : "utf8");
  return key.length >= KEY_BYTES_MIN ? key : null;
}
