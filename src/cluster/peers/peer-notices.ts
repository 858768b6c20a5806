/** Checks the notices about limits, timers and mail that nodes send each other. */
import { z } from "zod";
import type { PermitAsk, PermitGrant } from "../../protocol/permits.ts";
import type { Rejection } from "../../std/rejection.ts";
import type { StoredTimer } from "../../store/store.ts";
import { checkBody } from "./peer-wire.ts";

const ENTRIES_MAX = 100_000;

const count = z.number().int().min(0);
const name = z.string().min(1).max(2_000);
const partitions = z.array(count).max(ENTRIES_MAX);

const ask: z.ZodType<PermitAsk> = z.object({
  name,
  max: count,
  declaredAt: z.number(),
  n: count,
  quota: count,
  wants: count,
  silenceMs: z.number().min(0),
  moved: count.optional(),
  adopted: count.optional(),
  priority: z.number().optional(),
  isLasting: z.boolean().optional(),
});
const grant: z.ZodType<PermitGrant> = z.object({ name, n: count, quota: count, isContended: z.boolean() });
const timer: z.ZodType<StoredTimer> = z.object({ execution: name, timer: name, due: z.number() });

/** A notice about limits: a request for permits, a grant of permits, or facts that the node that serves a limit needs. */
const permits = z.union([
  z.object({
    kind: z.literal("asks"),
    node: name,
    asks: z.array(ask).max(ENTRIES_MAX),
    declares: partitions,
  }),
  z.object({ kind: z.literal("grants"), grants: z.array(grant).max(ENTRIES_MAX) }),
  z.object({ kind: z.literal("calls"), partitions }),
]);

export type PermitsBody = z.infer<typeof permits>;

export function checkPermits(body: unknown): PermitsBody | Rejection {
  return checkBody(permits, body);
}

export function checkTimers(body: unknown): { readonly timers: readonly StoredTimer[] } | Rejection {
  return checkBody(z.object({ timers: z.array(timer).max(ENTRIES_MAX) }), body);
}

export function checkMail(body: unknown): { readonly partitions: readonly number[] } | Rejection {
  return checkBody(z.object({ partitions }), body);
}
