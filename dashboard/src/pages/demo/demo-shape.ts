/** The answer of `GET /v1/demo`, a route that only the demo's server has. */
export interface DemoFacts {
  readonly step: "opening" | "fan-out" | "commands" | "script" | "proof" | "done";
  readonly round: {
    readonly id: string;
    readonly tasks: number;
    readonly commands: string;
    readonly script: string;
  } | null;
  readonly workers: readonly {
    readonly name: string;
    readonly pid: number | null;
    readonly state: "starting" | "working" | "frozen" | "killed";
  }[];
  readonly killed: number;
  readonly frozen: number;
  readonly doubled: { readonly isOn: boolean; readonly sent: number; readonly recognised: number };
  readonly audit: {
    readonly executions: number;
    readonly events: number;
    readonly settled: number;
    readonly lost: number;
    readonly countedTwice: number;
    readonly findings: readonly string[];
  } | null;
  readonly received: readonly { readonly id: string; readonly at: number; readonly body: unknown }[];
  readonly news: readonly { readonly at: number; readonly text: string }[];
  /** Whether the demo keeps running after all rounds are done; if false, it ends by itself. */
  readonly isStaying: boolean;
}
