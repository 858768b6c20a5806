/** Tokens, sessions, the configuration and the audit log. */
import { z } from "@hono/zod-openapi";
import { assert } from "../../std/assert.ts";
import { defined } from "../../std/defined.ts";
import { HIDDEN, hidePasswords, isSecretName } from "../../std/hide-passwords.ts";
import { isRejection, type Rejection, reject } from "../../std/rejection.ts";
import { type Caller } from "../auth/caller.ts";
import { endedCookie, readSession, SESSION_MS, sessionCookie } from "../auth/session-cookie.ts";
import type { Tokens } from "../auth/tokens.ts";
import type { ShownSetting } from "../parts.ts";
import { json, NO_CONTENT } from "../route.ts";
import {
  callerSchema,
  createdTokenSchema,
  entrySchema,
  newTokenSchema,
  settingSchema,
  type Token,
  tokenListSchema,
} from "../schemas/admin.ts";
import { cursor, limit, pageOf } from "../schemas/paging.ts";
import { timeOf } from "../services/start-executions.ts";
import { routesOf, type Services } from "./services.ts";

const route = routesOf("admin");

const FIRST_TOKEN =
  "this is the first token: every request over TCP needs a token from now on (Authorization: Bearer <token>)";

const tokenRoutes = [
  route({
    id: "createToken",
    request: "POST /v1/tokens",
    summary: "Create a token",
    description:
      "The answer has the token's text, which is not shown again: only its hash is stored. Once there is a token, every request over TCP needs one. So the first token of a server without a data directory must have the role admin.",
    access: "admin",
    body: newTokenSchema,
    answers: {
      201: {
        description: "the new token, with its secret text",
        schema: createdTokenSchema,
      },
    },
    refusals: ["conflict"],
    audit: "token.create",
    async handle(ask, services) {
      const { tokens } = services;
      const wanted = await readToken(services, ask.body, ask.caller);
      if (isRejection(wanted)) return wanted;
      if (!tokens.any) await tokens.renew();
      const notice = tokens.any ? undefined : FIRST_TOKEN;
      const { token, text } = await tokens.create(wanted);
      ask.target(`${token.name} ${token.id} ${token.role}`, wanted.project ?? undefined);
      return json({ ...token, token: text, ...defined({ notice }) }, { status: 201 });
    },
  }),
  route({
    id: "listTokens",
    request: "GET /v1/tokens",
    summary: "List tokens, without their secrets",
    access: "admin",
    answers: { 200: { description: "the oldest first", schema: tokenListSchema } },
    async handle({ caller }, { tokens }) {
      await tokens.renew();
      const isSeen = ({ project }: Token) => caller.project === null || project === caller.project;
      const { damaged } = tokens;
      const isTold = damaged.length > 0 && caller.project === null;
      return json({ data: tokens.list().filter(isSeen), next: null, ...(isTold ? { damaged } : {}) });
    },
  }),
  route({
    id: "deleteToken",
    request: "DELETE /v1/tokens/{id}",
    summary: "Revoke a token, its sessions and its open streams",
    access: "admin",
    params: z.strictObject({ id: z.string().max(60) }),
    answers: { 204: { description: "the token is revoked" } },
    audit: "token.delete",
    async handle(ask, { tokens }) {
      const { id } = ask.params;
      await tokens.renew();
      const token = tokens.list().find((one) => one.id === id);
      // Only callers that are bound to no project see damaged tokens.
      const isOwn = ask.caller.project === null || token?.project === ask.caller.project;
      if (!isOwn || !(await tokens.remove(id)))
        return reject("not_found", `there is no token ${id}`, {
          hint: "the token of RONDO_ADMIN_TOKEN is not stored, so it cannot be revoked",
        });
      ask.target(`${token?.name ?? "damaged token"} ${id}`);
      return NO_CONTENT;
    },
  }),
];

/** Checks the requested role, project and expiry of a new token. */
async function readToken(
  { tokens, clock, config }: Services,
  { name: wanted, role: given, project, expiresAt }: z.infer<typeof newTokenSchema>,
  caller: Caller,
): Promise<Omit<Token, "id" | "createdAt"> | Rejection> {
  const scope = scopeOf(caller, project);
  if (isRejection(scope)) return scope;
  const ends = expiresAt === undefined ? null : timeOf(expiresAt, "expiresAt");
  if (isRejection(ends)) return ends;
  if (ends !== null && ends <= clock.now())
    return reject("invalid_input", "expiresAt: has passed already", { path: "expiresAt" });
  const opensAll = given === "admin" && scope === null && ends === null;
  // The check is only needed without a directory: the owner of a directory always has full access through its unix socket.
  if (!opensAll && config.directory === null && !(await hasAdmin(tokens)))
    return reject("conflict", "with only this token, no caller could administer the server any more", {
      path: "role",
      hint: "first make an admin token without a project and without an expiry, or set RONDO_ADMIN_TOKEN",
    });
  return { name: wanted, role: given, project: scope, createdBy: caller.name, expiresAt: ends };
}

/** Whether there is an admin token that never expires; another node may have created it. */
async function hasAdmin(tokens: Tokens): Promise<boolean> {
  if (!tokens.hasAdmin) await tokens.renew();
  return tokens.hasAdmin;
}

/** The project of a new token. A caller that is bound to a project creates tokens for this project only. */
function scopeOf(caller: Caller, wanted: string | undefined): string | null | Rejection {
  if (caller.project === null) return wanted ?? null;
  return wanted === undefined || wanted === caller.project
    ? caller.project
    : reject("forbidden", `${caller.name} is bound to the project "${caller.project}"`, { path: "project" });
}

function isSecure({ config, url }: Services): boolean {
  return (config.advertise ?? url()).startsWith("https:");
}

function showCaller({ name: who, role: given, project }: Caller, expiresAt: number | null) {
  assert(given !== "execution", "the holder of a token for one execution has no session");
  return { name: who, role: given, project, expiresAt };
}

const sessionRoutes = [
  route({
    id: "createSession",
    request: "POST /v1/session",
    summary: "Create a session: the answer sets a cookie for the token",
    description: "The cookie is HttpOnly and SameSite=Strict. Where no token is needed, there is no cookie.",
    access: "known",
    answers: { 200: { description: "who is asking", schema: callerSchema } },
    handle({ caller }, services) {
      const { token } = caller;
      if (token === null) return json(showCaller(caller, null));
      const now = services.clock.now();
      const { key } = services.engine.info;
      const cookie = sessionCookie({ key, token, now, isSecure: isSecure(services) });
      return json(showCaller(caller, now + SESSION_MS), { headers: { "set-cookie": cookie } });
    },
  }),
  route({
    id: "getSession",
    request: "GET /v1/session",
    summary: "Get the name, role and project of the caller",
    access: "known",
    answers: { 200: { description: "name, role and project", schema: callerSchema } },
    handle: ({ caller }) => json(showCaller(caller, null)),
  }),
  route({
    id: "deleteSession",
    request: "DELETE /v1/session",
    summary: "End the session",
    access: "everyone",
    answers: { 204: { description: "the session is ended, and the cookie deleted" } },
    async handle({ incoming }, services) {
      const { engine, clock, endedSessions } = services;
      const session = readSession(incoming.headers.cookie, engine.info.key, clock.now());
      const refusal = session === null ? null : await endedSessions.end(session);
      const headers = { "set-cookie": endedCookie(isSecure(services)) };
      return refusal ?? json(null, { status: 204, headers });
    },
  }),
];

const configRoute = route({
  id: "getConfig",
  request: "GET /v1/config",
  summary: "Get the effective configuration, with the origin of each value",
  access: "admin",
  isGlobal: true,
  answers: { 200: { description: "all settings", schema: z.object({ data: z.array(settingSchema) }) } },
  handle: (_ask, { config }) => json({ data: config.settings.map(mask) }),
});

/** A setting as it is shown, without secrets and without passwords in URLs. */
export function mask({
  name: setting,
  value,
  origin,
  isSecret,
}: ShownSetting): Omit<ShownSetting, "isSecret"> {
  const hides = (isSecret === true || isSecretName(setting)) && !isHollow(value);
  return { name: setting, value: hides ? HIDDEN : hidePasswords(value), origin };
}

/** Whether a value says nothing: null, an empty list, or an object of such values. */
function isHollow(value: unknown): boolean {
  if (typeof value !== "object") return value === undefined;
  return value === null || Object.values(value).every(isHollow);
}

const auditRoute = route({
  id: "readAuditLog",
  request: "GET /v1/audit-log",
  summary: "Read the audit log, the newest entries first",
  access: "admin",
  query: z.strictObject({ limit: limit(100), cursor }),
  answers: { 200: { description: "a page", schema: pageOf(entrySchema, "entries") } },
  async handle({ query: { cursor: page = null, limit: max }, caller }, { audit }) {
    if (page !== null && !/^\d{15}-\d{6}(?:-[\da-f]{8})?\.\d{1,6}$/.test(page))
      return reject("invalid_input", "cursor: must be the `next` value of a page", { path: "cursor" });
    return json(await audit.list({ cursor: page, max, project: caller.project }));
  },
});

export const adminRoutes = [...tokenRoutes, ...sessionRoutes, configRoute, auditRoute];
