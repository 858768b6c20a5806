/** The inputs and outputs of the membership machine. */
import type { Random } from "../../std/random.ts";

/** The kinds of requests that a registered worker sends to a node. */
export type Route = "claim" | "events" | "heartbeat" | "read";

/** An input of the membership machine. `session` is the number of a session, `request` the number of a registration request. */
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
  /** Says that the node does not know the worker, or that the worker's registration has changed. */
  | { readonly kind: "forgotten"; readonly session: number }
  /** Gives the nodes of the cluster to a worker inside a node, which has no configured addresses. */
  | { readonly kind: "members"; readonly urls: readonly string[] }
  /** Says whether the worker needs a session at the node of its own process. */
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
  /** Says that the session is registered, and its requests go to this address. */
  | { readonly kind: "ready"; readonly session: number; readonly address: string }
  /** Says that requests of the session must wait until it is registered again. */
  | { readonly kind: "not-ready"; readonly session: number }
  /** Says that the node is unreachable, or that the worker has left it. The worker's attempts may have moved to other nodes. */
  | { readonly kind: "gone"; readonly name: string }
  /** Says that no node can be reached, for the reason `what`; null if one can be reached again. */
  | { readonly kind: "trouble"; readonly what: string | null }
  /** Says that every configured address refuses this worker, which was never registered. */
  | { readonly kind: "refused"; readonly what: string }
  /** Asks the driver to ask every node about the attempts whose node is not known. */
  | { readonly kind: "show" };

export interface MembershipOptions {
  /** The configured addresses. If there are none, the input `members` names the nodes. */
  readonly addresses: readonly string[];
  /** The URL of the node of this process; null if this process is not a node. */
  readonly own: string | null;
  readonly random: Random;
}
