/** The overview of a new node: the two commands to begin with, and an example that needs nothing else. */
import { useState } from "preact/hooks";
import { change } from "../../api/client.ts";
import type { Execution } from "../../api/shapes.ts";
import { plural } from "../../core/format.ts";
import { go } from "../../core/router.ts";
import { Button } from "../../ui/button.tsx";
import { attempt, tell } from "../../ui/toast.tsx";

/** Commands that make a project with a workflow, and run it at this node. */
const COMMANDS = [
  "node bin/rondo.js init ../hello && cd ../hello && npm install",
  `npx rondo run src/greetings.ts -i '{"names":["Ada","Grace"]}' --url ${location.origin}`,
] as const;

/** An example that needs no worker: a timer, then a signal that the user sends from the page. */
const EXAMPLE = {
  rondo: 2,
  name: "hello",
  phases: [
    { name: "count-down", handlers: { "count-down": { sleep: "3s" } } },
    { name: "approved", handlers: { approved: { waitFor: "approved", timeout: "1d" } } },
    { name: "cool-off", handlers: { "cool-off": { sleep: "2s" } } },
  ],
};

/** The content of the overview while there are no executions. */
export function FirstSteps({ workers }: { readonly workers: number }) {
  const [isBusy, setIsBusy] = useState(false);
  const run = (): void =>
    attempt(async () => {
      setIsBusy(true);
      try {
        await change("POST", "/v1/workflows", EXAMPLE);
        const { id } = await change<Execution>("POST", "/v1/executions", { workflow: "hello" });
        go(`/executions/${encodeURIComponent(id)}`);
      } finally {
        setIsBusy(false);
      }
    });
  return (
    <section class="first">
      <h2>No executions yet</h2>
      <p class="muted">
        {workers === 0 ? "No worker is connected. " : `${plural(workers, "worker")} connected. `}
        In the folder of the Rondo repository, create a project beside it and run its workflow. Or run an
        example that needs no code: a timer, then a wait for your approval.
      </p>
      <ol>
        {COMMANDS.map((command) => (
          <li key={command} class="command">
            <code>{command}</code>
            <Button
              kind="bare"
              icon="copy"
              label={`Copy: ${command}`}
              onClick={() => void navigator.clipboard.writeText(command).then(() => tell("Copied."))}
            />
          </li>
        ))}
      </ol>
      <Button kind="main" icon="play" isBusy={isBusy} onClick={run}>
        Run the example
      </Button>
    </section>
  );
}
