/** Type tests: Rondo in process, under test and at a server have the same members. Compiled by tsc, never run. */
import type { LocalRondo, Rondo } from "rondo";
import type { RemoteClient } from "rondo/client";
import type { TestRondo } from "rondo/testing";
import { same, some } from "../../fixtures/sdk/same-type.ts";

/** Runs handlers, at a client as a worker of its server; and the address of the process itself. */
type OnlyInProcess = "serve" | "use" | "url" | Internal;
/** Members that the declarations of the package leave out. */
type Internal = "api" | "attach";
/** Documents of commands, which only a server takes. */
type OnlyRemote = "submit" | "submitted" | "commands" | "serve";
/** Means of a test: time, crashes, and records of what was sent. */
type OnlyUnderTest = "clock" | "crash" | "settle" | "pass" | "events" | "broadcasts" | "state";

same<Exclude<keyof Rondo, OnlyInProcess>>()(some<Exclude<keyof RemoteClient, OnlyRemote>>());
same<Exclude<keyof Rondo, OnlyInProcess>>()(some<Exclude<keyof TestRondo, OnlyUnderTest>>());
same<LocalRondo>()(some<Rondo>());
