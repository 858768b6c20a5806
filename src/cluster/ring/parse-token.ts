/** Checks messages from other nodes of the ring. */
import { z } from "zod";
import type { Rejection } from "../../std/rejection.ts";
import { checkBody } from "../peers/peer-wire.ts";
import type { RingState } from "./ring-map.ts";
import type { Token } from "./token.ts";

const MEMBERS_MAX = 1_000;
const WORDS_MAX = 10_000;

const count = z.number().int().min(0);
const url = z.string().min(1).max(2_000);
const name = z.string().min(1).max(1_000);
const timerName = z.object({ execution: name, timer: name });

const message = z.object({
  from: url,
  incarnation: z.string().max(200),
  number: count,
  urgent: z.boolean(),
  hops: count,
  hints: z.array(z.object({ partition: count, count })).max(WORDS_MAX),
  timers: z.array(timerName.extend({ due: z.number() })).max(WORDS_MAX),
  ended: z.array(timerName).max(WORDS_MAX),
  scan: z.boolean(),
  watchers: z.array(url).max(MEMBERS_MAX),
  deaths: z.array(z.object({ url, incarnation: z.string().max(200), by: url })).max(MEMBERS_MAX),
});

const tokenSchema: z.ZodType<Token> = z.object({
  v: z.literal(1),
  epoch: count,
  maker: url,
  number: count,
  members: z.array(url).max(MEMBERS_MAX),
  hash: z.string().max(200),
  maps: z.array(z.object({ url, hash: z.string().max(200) })).max(MEMBERS_MAX),
  parcels: z.array(message).max(MEMBERS_MAX),
});

const stateSchema: z.ZodType<RingState> = z.object({
  v: z.literal(1),
  asOf: z.number().int(),
  members: z.array(z.object({ url, incarnation: z.string().max(200) })).max(MEMBERS_MAX),
  owners: z.array(z.number().int().min(-1)).max(WORDS_MAX),
});

export function parseToken(value: unknown): Token | Rejection {
  return checkBody(tokenSchema, value);
}

export function parseRingState(value: unknown): RingState | Rejection {
  return checkBody(stateSchema, value);
}
