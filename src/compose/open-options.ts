/** The options of `openRondo`. This file has only types, because the package publishes them as declarations. */
import type { WebhookSecretsGiven } from "../commands/post-ops/webhook-secrets.ts";
import type { StateStoreGiven } from "../commands/state/state-settings.ts";
import type { LogLine } from "../sdk/log-line.ts";
import type { Duration } from "../std/duration.ts";

/** Options of post-operations, which store or broadcast the results of commands. */
export interface PostOpOptions {
  /**
   * State stores by name: `embedded`, the URL of a database, of Redis or of Dapr's state API, or an object with
   * more.
   *
   * @default every name is kept in Rondo's own store
   */
  readonly stateStores?: Readonly<Record<string, StateStoreGiven>>;
  /**
   * Hosts, addresses and ranges, each with an optional port, that broadcasts may reach in addition to public addresses.
   *
   * @default []
   */
  readonly allowTargets?: readonly string[];
  /**
   * Secrets that broadcasts are signed with: a list for every host, or lists by host.
   *
   * @default []: broadcasts are not signed
   */
  readonly webhookSecrets?: WebhookSecretsGiven;
}

/** Options for an engine that also uses RabbitMQ. */
export interface BrokerOptions {
  /**
   * The address of RabbitMQ (`amqp://...`). Tasks of handlers and topics that no other worker serves go to its queues.
   *
   * @default null: there is no broker
   */
  readonly broker?: string | null;
  /**
   * The prefix of the names of queues and exchanges at the broker.
   *
   * @default "rondo"
   */
  readonly prefix?: string;
  /**
   * Patterns of queues from which receipts may be consumed although the queues hold messages or have other consumers.
   *
   * @default []
   */
  readonly receiptTopics?: readonly string[];
}

/** Options of `openRondo`. */
export interface OpenOptions extends PostOpOptions, BrokerOptions {
  /**
   * Where executions are stored: `file:<directory>`; `memory:`; or `postgres://...`, which several nodes can share.
   *
   * @default "file:.rondo"
   */
  readonly store?: string;
  /**
   * The most tasks that the worker of this process holds at a time. Half of them run, the others wait for their turn.
   *
   * @default 2_000
   */
  readonly capacity?: number;
  /**
   * Serves the HTTP API and the dashboard from this process. With a store in a directory, the command line finds the process by the
   * directory: `rondo ps`, `rondo why`, `rondo dlq`. Ended executions are deleted after `retention`.
   *
   * @default none: the program does not listen
   */
  readonly server?: OpenServerOptions;
  /**
   * How long ids of events are remembered, at least 15 minutes. A later event with the same id counts as a new one.
   *
   * @default "7d"
   */
  readonly eventsKept?: Duration;
  /**
   * How many engine nodes run over the PostgreSQL of `store`: this process, and a further process for each of the others. Handlers
   * run in this process only. A node that dies is started again.
   *
   * @default 1
   */
  readonly nodes?: number;
  /**
   * Limits by project: `concurrency` is the number of attempts at a time, `topics` are the patterns of the topics that
   * commands of the project may use.
   *
   * @default {}
   */
  readonly projects?: ProjectLimits;
  /**
   * Values that logs and errors show as `[redacted]`. Each has at least 4 characters.
   *
   * @default []
   */
  readonly secrets?: readonly string[];
  /**
   * Runs scripts without the outer layer of their sandbox where the machine does not have it. For trusted scripts only.
   *
   * @default false
   */
  readonly unsafeNoJail?: boolean;
  /**
   * Called with each line that a handler logs.
   *
   * @default none: the lines are only stored
   */
  readonly onLog?: (line: LogLine) => void;
  /**
   * Called with each fault that the engine survives, such as a full disk, as often as the fault occurs.
   *
   * @default `onFaultLine` is called
   */
  readonly onFault?: (fault: Error) => void;
  /**
   * Called with a line of text when a fault begins, lasts, or is over. Not called if `onFault` is given.
   *
   * @default writes the line to stderr
   */
  readonly onFaultLine?: (line: string) => void;
  /**
   * Called when the engine cannot go on.
   *
   * @default ends the process, so that another one can open the store
   */
  readonly onStop?: (reason: Error) => void;
}

/** Options of the HTTP API of `openRondo`. */
export interface OpenServerOptions {
  /**
   * The port; 0 is any free one, null listens only on the socket in the directory of the store.
   *
   * @default 7777
   */
  readonly port?: number | null;
  /**
   * The address to listen on. Other addresses than that of this machine need a token.
   *
   * @default "127.0.0.1"
   */
  readonly host?: string;
  /**
   * The address at which other machines reach this server, such as `https://rondo.example.com`.
   *
   * @default none
   */
  readonly advertise?: string;
  /**
   * Host names that requests may use, beside those of this machine.
   *
   * @default []
   */
  readonly hosts?: readonly string[];
  /**
   * The origins of pages that may use the API with a token, such as `https://app.example`; `*` is any.
   *
   * @default { origins: [] }
   */
  readonly cors?: { readonly origins: readonly string[] };
  /**
   * Sources of signed webhooks (Standard Webhooks) that become events, by name. They are sent to `/v1/webhooks/<source>`. `secrets` are
   * those with which the source signs, `project` is that of the events.
   *
   * @default {}
   * @example { shop: { secrets: ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"] } }
   */
  readonly webhooks?: Readonly<
    Record<string, { readonly secrets: readonly string[]; readonly project?: string }>
  >;
  /**
   * A token with all rights, of at least 16 characters. `rondo token create` makes others.
   *
   * @default none
   */
  readonly adminToken?: string;
  /**
   * How long ended executions are kept.
   *
   * @default "30d"
   */
  readonly retention?: Duration;
}

/** Limits of projects, by the name of the project. */
export type ProjectLimits = Readonly<
  Record<string, { readonly concurrency?: number; readonly topics?: readonly string[] }>
>;
