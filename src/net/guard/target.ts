/**
 * Checks a target before its name is resolved: the URL and its literal address. The URL is parsed once, by the rules of
 * browsers, which know every spelling of an address. The connection uses the parsed parts, never the text.
 */
import { type Rejection, reject } from "../../std/rejection.ts";
import { type Address, parseAddress } from "./address.ts";
import { type AllowList, plainHost, USUAL_PORTS } from "./allow-list.ts";
import { whyForbidden } from "./forbidden-address.ts";

export interface Target {
  readonly isSecure: boolean;
  /** The host name or address of the URL, without brackets. */
  readonly host: string;
  readonly port: number;
  readonly path: string;
  /** The value of the `Host` header. */
  readonly authority: string;
  /** The address, if the URL has an address instead of a name. */
  readonly literal: Address | null;
  /** Whether the operator has listed this host and port. */
  readonly isListed: boolean;
}

const URL_CHARS_MAX = 2_048;
/** A pattern of host names that never belong to the public network. */
const INSIDE_NAMES =
  /(?:^|\.)(?:localhost|local|localdomain|internal|intranet|private|corp|home|lan|arpa|test|invalid|onion)$/;

/** Parses the URL of a target, or returns the reason why it is forbidden. */
export function parseTarget(text: string, allow: AllowList): Target | Rejection {
  if (text.length > URL_CHARS_MAX)
    return refuse(`the URL is longer than ${URL_CHARS_MAX} characters`, "use a shorter one");
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null) return refuse(`${show(text)} is not a URL`, 'write it as "https://host/path"');
  if (url.protocol !== "http:" && url.protocol !== "https:")
    return refuse(`${show(text)} is not http or https`, "only http and https targets are allowed");
  if (url.username !== "" || url.password !== "")
    return refuse(
      `the URL for ${url.hostname} has a user or password in it`,
      "remove user and password from the URL; requests can be signed with webhookSecrets instead",
    );
  const isSecure = url.protocol === "https:";
  const host = plainHost(url.hostname.replace(/^\[(.*)\]$/, "$1"));
  const port = url.port === "" ? (isSecure ? 443 : 80) : Number(url.port);
  const literal = parseAddress(host);
  const target: Target = {
    isSecure,
    host,
    port,
    path: `${url.pathname}${url.search}`,
    authority: url.host,
    literal,
    isListed: allow.hasHost(host, port),
  };
  return whyNot(target, allow) ?? target;
}

/** Returns why no connection to a target may be made at this address; null if it may. */
export function whyNotAt(target: Target, address: Address, allow: AllowList): Rejection | null {
  const { host, port, isListed } = target;
  if (allow.hasAddress(address, port)) return null;
  if (!isListed && !USUAL_PORTS.includes(port)) return refusePort(target);
  const forbidden = whyForbidden(address);
  if (forbidden === null || (forbidden.isInside && isListed)) return null;
  const { text: plain } = address;
  const at = host === plain ? plain : `${host} is ${plain}, which`;
  const entry = forbidden.isInside ? `${bracketed(host)}:${port}` : `${bracketed(plain)}:${port}`;
  return refuse(
    `${at} is ${forbidden.what}`,
    `to allow this target, the operator adds "${entry}" to allowTargets`,
  );
}

function whyNot(target: Target, allow: AllowList): Rejection | null {
  const { host, port, literal, isListed } = target;
  if (literal !== null) return whyNotAt(target, literal, allow);
  if (isListed) return null;
  if (host === "" || !host.includes(".") || INSIDE_NAMES.test(host))
    return refuse(
      `"${host}" is a name of an internal network`,
      `to allow this target, the operator adds "${host}:${port}" to allowTargets`,
    );
  return USUAL_PORTS.includes(port) || allow.hasAddressesAt(port) ? null : refusePort(target);
}

function refusePort({ host, port }: Target): Rejection {
  return refuse(
    `port ${port} of ${host} is not one of ${USUAL_PORTS.join(", ")}`,
    `to allow this target, the operator adds "${bracketed(host)}:${port}" to allowTargets`,
  );
}

function refuse(message: string, hint: string): Rejection {
  return reject("forbidden", `not sent: ${message}`, { path: "url", hint });
}

function bracketed(host: string): string {
  return host.includes(":") ? `[${host}]` : host;
}

function show(text: string): string {
  return JSON.stringify(text.length <= 80 ? text : `${text.slice(0, 79)}…`);
}
