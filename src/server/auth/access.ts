/**
 * Authentication. The directory's socket is admin. Without any token, every TCP client of this machine is admin if the server
 * listens on loopback. Once there is a token, every request over TCP needs one, as a bearer or by a session cookie. A token for
 * one execution opens the routes that name a scope, for that execution only. A page of another origin always needs a bearer.
 */
import { timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { isForeign, isLoopback } from "../../net/hosts.ts";
import { ATTEMPT_HINT, checkToken } from "../../protocol/attempt-id.ts";
import type { Clock } from "../../std/clock.ts";
import { type Rejection, reject } from "../../std/rejection.ts";
import { within } from "../../std/within.ts";
import type { Route } from "../route.ts";
import type { Token } from "../schemas/admin.ts";
import { type Caller, includes, type Role } from "./caller.ts";
import type { EndedSessions } from "./ended-sessions.ts";
import { isExecutionToken, isFor, readExecutionToken } from "./execution-token.ts";
import { readSession, type Session } from "./session-cookie.ts";
import { mayBeToken, type Tokens } from "./tokens.ts";

/** Where a connection comes from: the unix socket in the store's directory, or TCP. */
export type Via = "socket" | "tcp";

export interface AccessOptions {
  readonly tokens: Tokens;
  readonly endedSessions: EndedSessions;
  readonly clock: Clock;
  /** The store's secret key, which signs session cookies and the tokens of attempts. */
  readonly key: string;
  /** In a cluster: the token with which workers inside other nodes authenticate. */
  readonly nodeToken?: string | undefined;
  /** Whether the server listens on a loopback address. */
  readonly isLocal: boolean;
}

/** How long the server waits for the store before it refuses an unknown token. */
const TIMEOUT_MS = 5_000;
/** The caller for the worker inside another node. */
const NODE: Caller = { name: "node", role: "worker", project: null, token: null, countedBy: null };
const SOCKET: Caller = { name: "socket", role: "admin", project: null, token: null, countedBy: null };
/** The caller of routes that need no authentication. */
const ANYBODY: Caller = { name: "anybody", role: "viewer", project: null, token: null, countedBy: null };

export class Access {
  readonly #options: AccessOptions;

  constructor(options: AccessOptions) {
    this.#options = options;
  }

  /** The caller of a request, or a rejection. */
  identify(incoming: IncomingMessage, via: Via): Caller | Rejection {
    if (via === "socket") return SOCKET;
    if (this.#isNode(incoming)) return NODE;
    const { tokens, isLocal } = this.#options;
    const peer = peerOf(incoming);
    const bearer = bearerOf(incoming);
    if (isExecutionToken(bearer)) return this.#holderOf(bearer);
    // If the server has no tokens, a page of another origin could send any bearer and would count as a local client. So it is refused.
    if (isForeign(incoming.headers) && (bearer === null || !tokens.any))
      return reject("unauthorised", "a page of another origin needs a token", {
        hint: "send it as `Authorization: Bearer <token>`; cookies do not count for such pages",
      });
    if (!tokens.any) {
      if (isLocal && isLoopback(peer))
        return { name: "local", role: "admin", project: null, token: null, countedBy: peer };
      return reject("unauthorised", "this server has no tokens, so it answers on its own machine only", {
        hint: "make a token with `rondo token create` on that machine",
      });
    }
    const token = this.#tokenOf(incoming);
    if (token !== null) return callerOf(token);
    return bearer === null
      ? reject("unauthorised", "this needs a token")
      : reject("unauthorised", "this server does not know the token, or the token has expired");
  }

  /**
   * Identifies a refused caller again after this node has read the tokens that other nodes changed; null if there are no other
   * nodes.
   */
  identifyAnew(incoming: IncomingMessage, via: Via): Promise<Caller | Rejection> | null {
    const bearer = bearerOf(incoming);
    const mayBeKnown = mayBeToken(bearer) || isExecutionToken(bearer) || this.#sessionOf(incoming) !== null;
    if (!mayBeKnown) return null;
    const renewed = this.#options.tokens.renew();
    return renewed === null ? null : this.#inTime(renewed.then(() => this.identify(incoming, via)));
  }

  /** Limits how long a request waits for a store that hangs. */
  #inTime<T>(work: Promise<T>): Promise<T | Rejection> {
    return within<T | Rejection>(this.#options.clock, TIMEOUT_MS, work, () =>
      reject("store_unavailable", "the store did not answer in time, so this token could not be checked"),
    );
  }

  #isNode(incoming: IncomingMessage): boolean {
    const { nodeToken } = this.#options;
    const bearer = bearerOf(incoming);
    return nodeToken !== undefined && bearer !== null && isSame(nodeToken, bearer);
  }

  /** The holder of a token for one execution. The token ends with the token that it was made with. */
  #holderOf(bearer: string): Caller | Rejection {
    const { key, clock, tokens } = this.#options;
    const grant = readExecutionToken(key, bearer, clock.now());
    if (grant === null)
      return reject("unauthorised", "this token for one execution is not valid, or has expired");
    const { execution, project, by } = grant;
    if (by !== null && tokens.get(by) === null)
      return reject(
        "unauthorised",
        "this token is invalid, because the token that made it is revoked or has expired",
      );
    return {
      ...{ name: `token for ${execution}`, role: "execution", project, token: by, grant },
      countedBy: `${by ?? ""} ${execution}`,
    };
  }

  #tokenOf(incoming: IncomingMessage): Token | null {
    const { tokens, endedSessions } = this.#options;
    const bearer = bearerOf(incoming);
    if (bearer !== null) return tokens.find(bearer);
    const session = this.#sessionOf(incoming);
    return session === null || endedSessions.has(session) ? null : tokens.get(session.token);
  }

  #sessionOf({ headers }: IncomingMessage): Session | null {
    const { key, clock } = this.#options;
    return readSession(headers.cookie, key, clock.now());
  }

  /**
   * The caller of an attempt's own routes: the bearer of the attempt's token. The route decides what that caller may still do.
   */
  identifyAttempt(incoming: IncomingMessage, attempt: string): Caller | Rejection {
    const bearer = bearerOf(incoming);
    if (bearer === null) return reject("unauthorised", "the attempt's token is needed as the bearer");
    return checkToken(this.#options.key, attempt, bearer)
      ? { ...ANYBODY, name: "attempt", role: "worker", countedBy: peerOf(incoming) }
      : reject("forbidden", "this token does not belong to this attempt", { hint: ATTEMPT_HINT });
  }

  /** Returns why the caller may not use a route; null if it may. `execution`: the id in the path. */
  allow(
    caller: Caller,
    route: Pick<Route, "access" | "isGlobal" | "scope">,
    execution?: string,
  ): Rejection | null {
    const { access } = route;
    if (access === "everyone") return null;
    if (caller.role === "execution") return refusalOfHolder(caller, route, execution);
    if (access === "known" || access === "attempt") return null;
    const roles: readonly Role[] = typeof access === "string" ? [access] : access;
    if (!roles.some((role) => includes(caller.role, role)))
      return reject(
        "forbidden",
        `this request needs the role ${roles.join(" or ")}; ${caller.name} is ${caller.role}`,
      );
    if (route.isGlobal === true && caller.project !== null)
      return reject(
        "forbidden",
        `${caller.name} is bound to the project "${caller.project}", and this request is about all projects`,
      );
    return null;
  }
}

/** Returns why the holder of a token for one execution may not use a route; null if it may. */
function refusalOfHolder(
  { grant }: Caller,
  { scope }: Pick<Route, "scope">,
  execution: string | undefined,
): Rejection | null {
  if (grant === undefined || scope === undefined || execution === undefined)
    return reject("forbidden", "a token for one execution gives no access to this route", {
      hint: "make this request from your own server, with a token that has a role (`rondo token create`)",
    });
  if (!isFor(grant, execution))
    return reject("forbidden", `this token is for the execution ${grant.execution} only`);
  if (!grant.scopes.includes(scope))
    return reject(
      "forbidden",
      `this request needs the scope ${scope}; the token has ${grant.scopes.join(", ")}`,
      {
        hint: `make a token with \`rondo token create --execution ${execution} --scopes ${[...grant.scopes, scope].join(",")}\``,
      },
    );
  return null;
}

/** The caller of a public route. */
export function anybody(incoming: IncomingMessage): Caller {
  return { ...ANYBODY, countedBy: peerOf(incoming) };
}

/** The client's address. */
export function peerOf(incoming: IncomingMessage): string {
  return incoming.socket.remoteAddress ?? "";
}

/** The bearer token of a request. */
export function bearerOf(incoming: IncomingMessage): string | null {
  return /^Bearer +([\x21-\x7e]{1,500})$/i.exec(incoming.headers.authorization ?? "")?.[1] ?? null;
}

/** Compares two tokens in constant time. */
function isSame(right: string, given: string): boolean {
  const [one, other] = [Buffer.from(right), Buffer.from(given)];
  return one.length === other.length && timingSafeEqual(one, other);
}

/** Returns the caller that a token identifies. */
export function callerOf({ id, name, role, project }: Token): Caller {
  return { name, role, project, token: id, countedBy: id };
}
