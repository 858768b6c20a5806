/** The dashboard's session: a signed cookie with the id of the token and the time of expiry, which scripts cannot read. */
import { isSameSecret, sign } from "./secrets.ts";

const COOKIE = "rondo_session";
/** How long a dashboard session lasts. */
export const SESSION_MS = 12 * 3_600_000;

/** A dashboard session, as read from its cookie. */
export interface Session {
  /** The id of the token with which the session was created. */
  readonly token: string;
  readonly until: number;
  readonly signature: string;
}

/** The Set-Cookie header of a new session. */
export function sessionCookie(options: {
  readonly key: string;
  readonly token: string;
  readonly now: number;
  readonly isSecure: boolean;
}): string {
  const content = `${options.token}.${(options.now + SESSION_MS).toString(36)}`;
  const value = `${content}.${sign(options.key, "session", content)}`;
  return `${COOKIE}=${value}; ${attributes(SESSION_MS / 1_000, options.isSecure)}`;
}

/** The Set-Cookie header that ends a session. */
export function endedCookie(isSecure: boolean): string {
  return `${COOKIE}=; ${attributes(0, isSecure)}`;
}

/** The valid session in the cookies of a request; null if there is none. */
export function readSession(cookies: string | undefined, key: string, now: number): Session | null {
  if (cookies === undefined) return null;
  for (const part of cookies.split(";")) {
    const [name, value = ""] = part.trim().split("=");
    if (name !== COOKIE) continue;
    const [token = "", end = "", signature = ""] = value.split(".");
    const until = Number.parseInt(end, 36);
    if (isSameSecret(signature, sign(key, "session", `${token}.${end}`)) && until > now)
      return { token, until, signature };
  }
  return null;
}

function attributes(maxAge: number, isSecure: boolean): string {
  return `Path=/; HttpOnly; SameSite=Strict; Max-Age=${maxAge}${isSecure ? "; Secure" : ""}`;
}
