/** What goes into the membership machine of a worker, and what comes out of it. */
import type { Random } from "../../std/random.ts";

/** What a worker asks of a node once it is registered there. */
export type Route = "claim" | "events" | "heartbeat" | "read";

/** `session` is the number of a session, `request` that of a registration request. */
export type MembershipInput =
  | { readonly kind: "start" }
  | {
      readonly kind: "registered";
      readonly session: number;
      readonly request: number;
      /** Null: the node knows of no cluster. */
      readonly nodes: readonly string[] | null;
    }
  | {
      readonly kind: "not-registered";
      readonly session: number;
      readonly request: number;
      readonly what: string;
      /** The server refuses this worker as such: its token, its name, or there is no such route. */
      readonly isRefusal: boolean;
    }
  | {
      readonly kind: "answered";
      readonly session: number;
      readonly route: Route;
      readonly nodes?: readonly string[];
    }
  | { readonly kind: "failed"; readonly session: number; readonly route: Route; readonly what: string }
  /** The node does not know this worker, or the worker has something new to register. */
  | { readonly kind: "forgotten"; readonly session: number }
  /** The nodes of the cluster, for a worker inside a node, which has no addresses. */
  | { readonly kind: "members"; readonly urls: readonly string[] }
  /** Whether a session is needed at the node that this process is itself. */
  | { readonly kind: "own"; readonly isNeeded: boolean }
  | { readonly kind: "homeless" }
  | { readonly kind: "eased" }
  | { readonly kind: "tick" }
  | { readonly kind: "close" };

export type MembershipOutput =
  | {
      readonly kind: "open";
      readonly session: number;
      readonly name: string;
      readonly addresses: readonly string[];
    }
  | { readonly kind: "end"; readonly session: number; readonly name: string }
  | {
      readonly kind: "register";
      readonly session: number;
      readonly request: number;
      readonly address: string;
    }
  /** The session is registered: requests go to this address. */
  | { readonly kind: "ready"; readonly session: number; readonly address: string }
  /** Requests have to wait. */
  | { readonly kind: "not-ready"; readonly session: number }
  /** The node cannot be reached, or is left: its attempts may be elsewhere. */
  | { readonly kind: "gone"; readonly name: string }
  /** No node is in touch; null: one is again. */
  | { readonly kind: "trouble"; readonly what: string | null }
  /** Every configured address refuses this worker, which has never been registered. */
  | { readonly kind: "refused"; readonly what: string }
  /** Shows every node the attempts whose node is not known. */
  | { readonly kind: "show" };

export interface MembershipOptions {
  /** Configured addresses; none: `members` says which nodes there are. */
  readonly addresses: readonly string[];
  /** The node that this process is itself; null: it is none. */
  readonly own: string | null;
  readonly random: Random;
}
