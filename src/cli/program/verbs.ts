/** The table of verbs: their arguments, flags and help texts. The code of a verb is loaded when the verb is used. */
import type { Verb, VerbGroup } from "./verb.ts";

const STORE = "--store <url>";
const ANY_STORE = "file:<directory>, memory: or postgres://... (default: $RONDO_STORE, else file:.rondo)";
const KEPT_STORE = "file:<directory> or postgres://... (default: $RONDO_STORE, else file:.rondo)";
const INPUT = ["-i, --input <json>", "the input: JSON, @file, or - for stdin"] as const;
const WAIT_TIMEOUT = [
  "--timeout <duration>",
  "stop waiting after this time, such as 30s (exit code 124)",
] as const;
const OF_WORKFLOW = ["--workflow <name>", "of this workflow only"] as const;
const OF_PROJECT = ["--project <name>", "of this project only"] as const;

const SERVING: Verb["flags"] = [
  [STORE, ANY_STORE],
  ["--host <address>", "the address to listen at (default: $RONDO_HOST, else 127.0.0.1)"],
  ["--port <n>", "the port to listen at; 0 is any free port (default: $RONDO_PORT, else 7777)"],
  ["--broker <url>", "amqp://...: gives work to workers at this RabbitMQ (default: $RONDO_BROKER)"],
  ["--json", "print the addresses at which the server listens as JSON: { url, socket }"],
];

const run: Verb = {
  name: "run <target>",
  summary: "run a workflow from a file until it ends, or start one by name at a server",
  description:
    "The target is a file if it ends in .ts .mts .js .mjs .json .yaml or .yml, or contains a slash. " +
    "With a file, Rondo serves the file's workflows, starts one of them, and waits until it ends. " +
    "With --id, an existing execution of that id is continued. " +
    "If another process has the data directory open, this process becomes a worker of that process until the execution ends. " +
    "With a name, Rondo starts the workflow of that name at a server. " +
    "The output is JSON on stdout; everything else goes to stderr.",
  flags: [
    INPUT,
    ["--id <id>", "the id of the execution; if it exists, it is continued"],
    ["--workflow <name>", "the workflow to start, if the file exports several"],
    ["--project <name>", "the project that the execution belongs to"],
    ["--wait", "with a name: wait until the execution ends"],
    ["--timeout <duration>", "stop waiting after this time, such as 30s; the execution can be continued"],
    ["--retry", "if the execution of --id failed or was cancelled, run its open tasks again"],
    [
      "--unsafe-no-jail",
      "run scripts even where only the inner layer of the sandbox works; for trusted scripts only",
    ],
    [STORE, ANY_STORE],
    ["--url <url>", "the server; with a file, this process serves the file as a worker of that server"],
    ["--token <token>", "the token (default: $RONDO_TOKEN)"],
    ["--json", "print the execution on one line, instead of its output"],
  ],
  isLocal: true,
  load: async () => (await import("../run/run.ts")).run,
};

const submit: Verb = {
  name: "submit <file>",
  summary: "submit command workflows from a file",
  description:
    "Submits the command workflows of a file (.json, .yaml or .yml; - is JSON on stdin) to a server. " +
    "The file has { steps }, or a whole project document. " +
    "Prints the ids of the workflows. With --wait it waits until they end, and prints them with their results.",
  flags: [
    ["--project <name>", "the project (default: the project that the document names, else default)"],
    ["--id <id>", "the id of the workflow; if it was submitted before under this id, that workflow is used"],
    ["--wait", "wait until the workflows end"],
    WAIT_TIMEOUT,
  ],
  load: async () => (await import("../run/submit.ts")).submit,
};

const worker: Verb = {
  name: "worker [files...]",
  summary: "run the handlers of files as a worker of a server",
  description:
    "Registers the workflows of the files with a server, claims their tasks, and runs them and scripts in this process. " +
    "Without files it runs scripts only. " +
    "With --broker it takes tasks and commands from the queues of a RabbitMQ instead (docs/protocol.md). " +
    "SIGTERM ends it gracefully: it claims no new tasks, running tasks may finish, and the exit code is 0.",
  flags: [
    ["--socket <path>", "the unix socket of the server, instead of --url"],
    ["--broker <url>", "take work from the queues of this broker: amqp://... or amqps://..."],
    ["--prefix <prefix>", "the prefix of the names at the broker (default: rondo)"],
    ["--capacity <n>", "the maximum number of tasks at a time (default: 100)"],
    ["--name <name>", "the name of the worker in lists (default: host and process)"],
    ["--spool <directory>", "keep unacknowledged reports on disk, so that they survive this process"],
    ["--status-port <n>", "the port of the worker's own status API (default: any free port)"],
    ["--grace <duration>", "how long running tasks may take to finish (default: 25s)"],
    ["--min <n>", "keep at least this many worker processes"],
    ["--max <n>", "add worker processes up to this many while all are busy"],
    ["--sample <duration>", "how often the load of the worker processes is measured (default: 1s)"],
    [
      "--unsafe-no-jail",
      "run scripts even where only the inner layer of the sandbox works; for trusted scripts only",
    ],
  ],
  load: async () => (await import("../worker/worker.ts")).runWorker,
};

const SERVING_VERBS: readonly Verb[] = [
  run,
  submit,
  {
    name: "init [directory]",
    summary: "make a small project: a workflow, its tests, scripts",
    description:
      "Makes a small project in the directory (default: the current one): a workflow, its test under the simulator, and scripts. " +
      "Existing files are not overwritten.",
    flags: [["--json", "print the names of the files as JSON"]],
    isLocal: true,
    load: async () => (await import("../init/init.ts")).init,
  },
  {
    name: "start",
    summary: "start a server: an engine node and its API",
    description:
      "Runs an engine node and its API until Ctrl-C or SIGTERM. " +
      "With --nodes it runs several nodes over one PostgreSQL, each in a process of its own. " +
      "The first node listens at the port, the others at the ports after it. A node that dies is started again.",
    flags: [
      ...SERVING,
      [
        "--nodes <n>",
        "run this many nodes over one PostgreSQL, to use more cores (default: 1, in this process)",
      ],
    ],
    isLocal: true,
    load: async () => (await import("../start/start.ts")).start,
  },
  {
    name: "dev [files...]",
    summary: "start a server and a worker for files, and restart the worker when the files change",
    description:
      "Starts a server and, in a process of its own, a worker for the files. " +
      "When a file or one of its imports changes, a new worker takes over, and the old one ends after its running tasks. " +
      "Running executions keep their definition.",
    flags: SERVING,
    isLocal: true,
    load: async () => (await import("../dev/dev.ts")).dev,
  },
  worker,
];

const READING_VERBS: readonly Verb[] = [
  {
    name: "ps",
    summary: "list executions, newest first",
    flags: [
      [
        "--status <status>",
        "only executions with this status: running, paused, cancelling, cleaning, done, failed, cancelled or damaged",
      ],
      OF_WORKFLOW,
      OF_PROJECT,
      [
        "-q, --query <words>",
        "words that must all match: the beginning of an id, at least 8 digits of the definition's hash, a workflow's whole name (case counts), a tag's name or value, or a word of the error",
      ],
      [
        "--tag <tag>",
        "only executions with this tag, as name=value or name; can be given several times",
        (value, before: readonly string[] = []) => [...before, value],
      ],
      ["--continued", "also list executions that have continued as others"],
      ["--limit <n>", "the maximum number of executions (default: 50)"],
    ],
    load: async () => (await import("../executions/ps.ts")).ps,
  },
  {
    name: "inspect <id>",
    summary: "show an execution in full",
    flags: [["--at <seq>", "show the execution as it was after the event with this sequence number"]],
    load: async () => (await import("../executions/inspect.ts")).inspect,
  },
  {
    name: "events <id>",
    summary: "show the journal of an execution",
    flags: [
      ["-f, --follow", "show new events too, until the execution ends"],
      ["--full", "show tasks as rows, not as counts and ranges"],
      ["--from <seq>", "begin with the event with this sequence number"],
    ],
    load: async () => (await import("../executions/events.ts")).events,
  },
  {
    name: "tasks <id>",
    summary: "list tasks of an execution",
    flags: [
      ["--failed", "failed tasks only"],
      [
        "--status <status>",
        "only tasks with this status: pending, running, retrying, waiting, done, failed or cancelled",
      ],
      [
        "--phase <name>",
        "only tasks of this phase (default: the current phase; all phases once the execution has ended)",
      ],
      ["--visit <n>", "only tasks of this visit of the phase (default: the last)"],
      ["--handler <name>", "only tasks of this handler (default: all handlers of the phase)"],
      ["--full", "show the data of the tasks too"],
      ["--limit <n>", "the maximum number of tasks (default: 100)"],
    ],
    load: async () => (await import("../executions/tasks.ts")).tasks,
  },
  {
    name: "logs <id>",
    summary: "show the log lines of an execution's tasks",
    flags: [
      ["-f, --follow", "show new lines too, until the execution ends"],
      ["--phase <name>", "of this phase only"],
      ["--handler <name>", "of this handler only"],
      ["--task <n>", "of this task only"],
      ["--level <level>", "only lines of this level: debug, info, warn, error, progress or run"],
    ],
    load: async () => (await import("../executions/logs.ts")).logs,
  },
  {
    name: "why <id>",
    summary: "explain what an execution waits for",
    load: async () => (await import("../executions/why.ts")).why,
  },
  {
    name: "versions [workflow]",
    summary: "show which versions of workflows are still needed, and how many executions need them",
    flags: [["--all", "also list definitions without a version that no execution needs"]],
    load: async () => (await import("../executions/versions.ts")).versions,
  },
  {
    name: "audit [ids...]",
    summary: "recompute executions from their journals, and compare the result with the stored state",
    description:
      "Reads the journals of these executions (default: all) from the first event on, and derives phases, tasks and counts by its own rules. " +
      "Compares them with the state that the server shows. Changes nothing without --repair. " +
      "The exit code is 1 if a difference was found and not repaired.",
    flags: [
      ["--status <status>", "with this status only"],
      OF_WORKFLOW,
      OF_PROJECT,
      ["--limit <n>", "the maximum number of executions, newest first"],
      ["--repair", "repair data that is derived from journals: heads, timers, counts, indexes"],
    ],
    load: async () => (await import("../executions/audit.ts")).audit,
  },
  {
    name: "wait <id>",
    summary: "wait until an execution ends",
    description:
      "Waits until an execution ends. Prints its output as JSON on stdout; the exit code says how it ended. " +
      "Ctrl-C ends the waiting, not the execution.",
    flags: [WAIT_TIMEOUT],
    load: async () => (await import("../executions/wait.ts")).wait,
  },
];

const CONTROLS: readonly Verb[] = (
  [
    ["cancel", "cancel an execution; it cleans up before it ends"],
    ["pause", "start no further tasks of an execution"],
    ["resume", "resume a paused execution"],
    ["retry", "run the unfinished tasks of a failed or cancelled execution again, or chosen failed tasks"],
  ] as const
).map(([kind, summary]) => ({
  name: `${kind} <id>`,
  summary,
  flags: [
    ["--reason <text>", "the reason, which the journal shows"] as const,
    ...(kind === "cancel"
      ? [["--force", "skip the rest of a clean-up, or all of it while running tasks end"] as const]
      : []),
    ...(kind === "retry"
      ? ([
          ["--phase <name>", "retry only failed tasks of this phase"],
          [
            "--visit <n>",
            "with --phase or --error: only tasks of this visit of the phase (default: the last)",
          ],
          [
            "--handler <name>",
            "with --phase or --error: only tasks of this handler (default: the handler with the phase's name; with --error, the only handler with this error)",
          ],
          ["--tasks <numbers>", "with --phase: only these tasks, such as 3,17 (default: all failed tasks)"],
          [
            "--error <error>",
            "retry only tasks that failed with this error: its name, or the id of a group of dead letters",
          ],
          ["--dry-run", "with --phase or --error: only count the tasks, and retry none"],
        ] as const)
      : []),
  ],
  load: async () => {
    const { control } = await import("../executions/control.ts");
    return (id: string, options: never) => control(kind, id, options);
  },
}));

const CHANGING_VERBS: readonly Verb[] = [
  ...CONTROLS,
  {
    name: "move [id]",
    summary: "move an execution, or all executions of a workflow, to another version of the workflow",
    description:
      "Moves an open execution to another definition of its workflow. " +
      "The phases that were visited must be the same in that definition, with the same handlers and the same kinds of tasks. " +
      "Otherwise the move is refused with the differences. " +
      "With --workflow, all executions of the workflow that run or are paused are moved; the exit code is 1 if some were refused.",
    needed: [["--to <version>", "the version to move to, or the hash of a definition"]],
    flags: [
      ["--workflow <name>", "instead of an id: all open executions of this workflow"],
      ["--project <name>", "with --workflow: only executions of this project"],
      ["--dry-run", "only check the move"],
      ["--reason <text>", "the reason, which the journal shows"],
    ],
    load: async () => (await import("../executions/move.ts")).move,
  },
  {
    name: "drop <id>",
    summary: "delete a damaged execution",
    load: async () => (await import("../executions/control.ts")).drop,
  },
  {
    name: "signal <id> <name>",
    summary: "send a signal to an execution",
    flags: [
      ["-d, --data <json>", "the data of the signal: JSON, @file, or - for stdin"],
      ["--id <id>", "the id of the signal; if it was sent before with this id, nothing changes"],
      ["--start <workflow>", "if the execution does not exist, start one of this workflow with the signal"],
      ["-i, --input <json>", "with --start: the input of the execution: JSON, @file, or - for stdin"],
      ["--project <name>", "with --start: the project that the execution belongs to"],
      ["--new", "with --start: if the execution has ended, start a new one, with the id <id>~2, <id>~3, ..."],
    ],
    load: async () => (await import("../executions/control.ts")).signal,
  },
  {
    name: "update <id> <name>",
    summary: "send an update to an execution, and print the answer of its code",
    flags: [
      ["-d, --data <json>", "the data of the update: JSON, @file, or - for stdin"],
      ["--id <id>", "the id of the update; if it was sent before with this id, the answer is the same"],
      ["--timeout <duration>", "how long to wait for the answer (default: 30s)"],
    ],
    load: async () => (await import("../executions/talk.ts")).update,
  },
  {
    name: "stream <id> <name>",
    summary: "print the chunks of a stream that an execution writes",
    flags: [["--follow", "print chunks as they come, until the stream ends"]],
    load: async () => (await import("../executions/talk.ts")).stream,
  },
  {
    name: "published <id>",
    summary: "print the values that an execution has published",
    load: async () => (await import("../executions/talk.ts")).published,
  },
];

const schedules: VerbGroup = {
  name: "schedules",
  summary: "list, create, change, pause, resume, run and remove schedules",
  verbs: [
    {
      name: "list",
      summary: "list schedules",
      isDefault: true,
      load: async () => (await import("../admin/schedules.ts")).listSchedules,
    },
    {
      name: "put <id>",
      summary: "create or change a schedule",
      needed: [
        ["--workflow <name>", "the workflow to start"],
        [
          "--cron <expression>",
          "the times to start: five fields such as '0 3 * * *', six with seconds first, or @hourly, @daily, @weekly, @monthly, @yearly",
        ],
      ],
      flags: [
        INPUT,
        ["--time-zone <name>", "the time zone, such as Europe/Berlin (default: UTC)"],
        ["--misfire <policy>", "what to do about times that were missed: fireOnce (default), skip or all"],
        [
          "--overlap <policy>",
          "what to do while an earlier execution still runs: allow (default), skip, or queue, which starts one after it has ended",
        ],
        ["--project <name>", "the project of the executions"],
      ],
      load: async () => (await import("../admin/schedules.ts")).putSchedule,
    },
    ...(
      [
        ["pause", "pause a schedule: it starts nothing until it is resumed"],
        ["resume", "resume a paused schedule"],
        ["run", "start an execution of a schedule now"],
        ["rm", "remove a schedule; executions that it has started continue"],
      ] as const
    ).map(
      ([action, summary]): Verb => ({
        name: `${action} <id>`,
        summary,
        load: async () => {
          const { changeSchedule } = await import("../admin/schedules.ts");
          return (id: string, options: never) => changeSchedule(action, id, options);
        },
      }),
    ),
  ],
};

const deadLetters: VerbGroup = {
  name: "dlq",
  summary: "list, retry and drop tasks that failed for good",
  verbs: [
    {
      name: "list",
      summary:
        "list groups of tasks that failed for good: COUNT is the number of tasks, FIRST the first task, REASON why there is no further attempt (attempts, crashes, fatal)",
      isDefault: true,
      flags: [
        ["--execution <id>", "of this execution only"],
        OF_WORKFLOW,
        OF_PROJECT,
        ["--limit <n>", "the maximum number of dead letters (default: 50)"],
      ],
      load: async () => (await import("../admin/dead-letters.ts")).listDeadLetters,
    },
    ...(
      [
        ["retry", "retry the execution of a dead letter"],
        ["drop", "remove a dead letter from the list"],
      ] as const
    ).map(
      ([action, summary]): Verb => ({
        name: `${action} <id>`,
        summary,
        load: async () => {
          const { changeDeadLetter } = await import("../admin/dead-letters.ts");
          return (id: string, options: never) => changeDeadLetter(action, id, options);
        },
      }),
    ),
  ],
};

const workers: VerbGroup = {
  name: "workers",
  summary: "list and drain workers",
  verbs: [
    {
      name: "list",
      summary: "list connected workers",
      isDefault: true,
      load: async () => (await import("../admin/workers.ts")).listWorkers,
    },
    {
      name: "drain <id>",
      summary: "drain a worker: it gets no further tasks",
      load: async () => (await import("../admin/workers.ts")).drainWorker,
    },
  ],
};

const tokens: VerbGroup = {
  name: "token",
  summary: "make, list and revoke tokens",
  verbs: [
    {
      name: "create",
      summary: "make a token, which is shown once",
      description:
        "Makes a token and prints it on stdout, once. " +
        "As soon as there is a token, every request over TCP needs one; requests over the socket of the data directory never do. " +
        "If no server has the data directory open, the token is stored there for the next server.",
      flags: [
        [
          "--name <name>",
          "the name of the token's user, for lists and the audit log (default: the token's role and the date)",
        ],
        ["--role <role>", "viewer, operator, admin or worker (default: operator)"],
        ["--project <name>", "bind the token to one project"],
        [
          "--expires <duration>",
          "how long the token is valid, such as 30d (default: until it is revoked; 1h with --execution)",
        ],
        [
          "--execution <id>",
          "make a token that gives access only to this execution, for a page in a browser; the server does not store the token",
        ],
        [
          "--scopes <list>",
          "with --execution: read, history, signal, update, cancel, separated by commas (default: read)",
        ],
      ],
      load: async () => (await import("../admin/tokens.ts")).createToken,
    },
    {
      name: "list",
      summary: "list tokens, without their secrets",
      isDefault: true,
      load: async () => (await import("../admin/tokens.ts")).listTokens,
    },
    {
      name: "revoke <id>",
      summary: "revoke a token",
      load: async () => (await import("../admin/tokens.ts")).revokeToken,
    },
  ],
};

const ADMIN_VERBS: readonly (Verb | VerbGroup)[] = [
  schedules,
  deadLetters,
  {
    name: "ring",
    summary: "show the nodes of the cluster",
    load: async () => (await import("../admin/ring.ts")).showRing,
  },
  workers,
  tokens,
  {
    name: "backup <file>",
    summary: "write a copy of the whole store to a file, while it is in use",
    load: async () => (await import("../admin/backup.ts")).backup,
  },
  {
    name: "restore <file>",
    summary: "make a data directory from a backup; no server may use the directory meanwhile",
    flags: [
      [STORE, "file:<directory>, which must have no store (default: $RONDO_STORE, else file:.rondo)"],
      ["--json", "print JSON"],
    ],
    isLocal: true,
    load: async () => (await import("../admin/restore.ts")).restore,
  },
  {
    name: "export <file>",
    summary: "write a whole store as lines of JSON; no server may use the store meanwhile",
    description:
      "Writes everything that a store holds as lines of JSON, to a new file or, for -, to stdout. " +
      "`rondo import` makes a store from it, in a data directory or in PostgreSQL. " +
      "No server may use the store during the export. Open executions continue after the import.",
    flags: [
      [STORE, KEPT_STORE],
      ["--json", "print the counts as JSON"],
    ],
    isLocal: true,
    load: async () => (await import("../admin/export.ts")).exportToFile,
  },
  {
    name: "import <file>",
    summary: "make a store from a file of `rondo export`",
    description:
      "Makes a store from an export, from a file or, for -, from stdin. There must be no store at the target yet. " +
      "An incomplete export is refused, and an interrupted import leaves nothing behind. " +
      "With --damaged, the executions of the export replace the damaged ones of an existing store, and nothing else is changed.",
    flags: [
      [STORE, KEPT_STORE],
      ["--damaged", "replace damaged executions of an existing store; no server may use the store meanwhile"],
      ["--json", "print the counts as JSON"],
    ],
    isLocal: true,
    load: async () => (await import("../admin/import.ts")).importFromFile,
  },
  {
    name: "migrate",
    summary: "migrate a database to this version of Rondo",
    description:
      "Brings the schema of a PostgreSQL database to this version; nodes do so themselves when they start. " +
      "After a database was restored from a backup, --restored makes it usable: leases and tokens of attempts from before the restore become void.",
    flags: [
      [STORE, "postgres://... (default: $RONDO_STORE)"],
      ["--restored", "say that the database was restored from a backup; start the nodes after this"],
      ["--json", "print JSON"],
    ],
    isLocal: true,
    load: async () => (await import("../admin/migrate.ts")).migrate,
  },
  {
    name: "mcp",
    summary:
      "let a language model use the workflows of a server, by the Model Context Protocol on stdin and stdout",
    load: async () => (await import("../mcp/mcp.ts")).mcp,
  },
  {
    name: "openapi",
    summary: "print the OpenAPI description of the API, even without a server",
    load: async () => (await import("../admin/openapi.ts")).openapi,
  },
  {
    name: "doctor",
    summary: "show the settings with their origins, and check that Rondo can work on this machine",
    flags: [
      ["--host <address>", "as for start"],
      ["--port <n>", "as for start"],
      ["--broker <url>", "as for start"],
    ],
    load: async () => (await import("../admin/doctor.ts")).doctor,
  },
];

/** All verbs, in the order of `rondo --help`. */
export const VERBS: readonly (Verb | VerbGroup)[] = [
  ...SERVING_VERBS,
  ...READING_VERBS,
  ...CHANGING_VERBS,
  ...ADMIN_VERBS,
];
