/** The inputs and outputs of the membership machine. */
import type { Random } from "../../std/random.ts";

/** The requests of a worker that is registered at a node. */
export type Route = "claim" | "events" | "heartbeat" | "read";

/** `session` is the number of a session, `request` the number of a registration request. */
export type MembershipInput =
  | { readonly kind: "start" }
  | {
      readonly kind: "registered";
      readonly session: number;
      readonly request: number;
      /** The nodes of the cluster; null if the server is not in a cluster. */
      readonly nodes: readonly string[] | null;
    }
  | {
      readonly kind: "not-registered";
      readonly session: number;
      readonly request: number;
      readonly what: string;
      /**
       * Whether the server refuses the worker itself: because of its token or its name, or because the server has no such
       * route.
       */
      readonly isRefusal: boolean;
    }
  | {
      readonly kind: "answered";
      readonly session: number;
      readonly route: Route;
      readonly nodes?: readonly string[];
    }
  | { readonly kind: "failed"; readonly session: number; readonly route: Route; readonly what: string }
  /** The node does not know the worker, or the worker's registration has changed. */
  | { readonly kind: "forgotten"; readonly session: number }
  /** The nodes of the cluster, for a worker inside a node, which has no configured addresses. */
  | { readonly kind: "members"; readonly urls: readonly string[] }
  /** Whether the worker needs a session at the node of its own process. */
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
  /** The session is registered: its requests go to this address. */
  | { readonly kind: "ready"; readonly session: number; readonly address: string }
  /** Requests of the session wait until it is registered again. */
  | { readonly kind: "not-ready"; readonly session: number }
  /** The node is unreachable, or the worker has left it. The worker's attempts may have moved to other nodes. */
  | { readonly kind: "gone"; readonly name: string }
  /** No node is in touch, for the reason `what`; null if a node is in touch again. */
  | { readonly kind: "trouble"; readonly what: string | null }
  /** Every configured address refuses this worker, which was never registered. */
  | { readonly kind: "refused"; readonly what: string }
  /** Asks every node about the attempts whose node is not known. */
  | { readonly kind: "show" };

export interface MembershipOptions {
  /** Configured addresses. If there are none, `members` names the nodes. */
  readonly addresses: readonly string[];
  /** The URL of the node of this process; null if this process is not a node. */
  readonly own: string | null;
  readonly random: Random;
}
