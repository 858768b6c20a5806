/**
 * The target of a request, as RFC 9112 section 3.2 has it. A client may send the whole address instead of the path
 * (absolute form, as to a proxy). Then its host counts instead of the Host header, and the rest is the path.
 */
import type { IncomingMessage } from "node:http";

const ABSOLUTE = /^https?:\/\/([^/?#]+)([^#]*)/i;

/** Puts a target in absolute form into origin form: from here on, path and host are where everybody looks for them. */
export function toOriginForm(incoming: Pick<IncomingMessage, "url" | "headers">): void {
  const [, host, rest = ""] = ABSOLUTE.exec(incoming.url ?? "") ?? [];
  if (host === undefined) return;
  incoming.url = rest.startsWith("/") ? rest : `/${rest}`;
  incoming.headers.host = host;
}
