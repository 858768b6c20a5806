/**
 * The target of a request (RFC 9112, section 3.2). A client may send an absolute URL instead of a path, as to a proxy. Then its
 * host replaces the Host header, and the rest is the path.
 */
import type { IncomingMessage } from "node:http";

const ABSOLUTE = /^https?:\/\/([^/?#]+)([^#]*)/i;

/** Converts a target in absolute form into origin form, so that all later code finds path and host in their usual places. */
export function toOriginForm(incoming: Pick<IncomingMessage, "url" | "headers">): void {
  const [, host, rest = ""] = ABSOLUTE.exec(incoming.url ?? "") ?? [];
  if (host === undefined) return;
  incoming.url = rest.startsWith("/") ? rest : `/${rest}`;
  incoming.headers.host = host;
}
